"""Run the benchmarks and write what the documentation includes."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from time import perf_counter

from benchmarks._measure import note
from benchmarks._settings import FULL, QUICK, TINY, Settings
from benchmarks._table import Results, peer_table, target_table

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "generated"
WORKS = (
    "imports", "cold", "memory", "adapters", "growth", "warm", "session", "coding_sessions",
)  # fmt: skip
COMPANIONS = ("conformance_of_peers", "evidence")
_NAMED = (
    "tiktoken", "langchain-core", "langchain", "langmem", "llama-index-core", "litellm",
)  # fmt: skip


def measure(settings: Settings, works: Sequence[str]) -> Results:
    """Run the works, each in its turn, and collect what they find."""
    results = Results(settings.name, versions=_versions())
    for name in works:
        start = perf_counter()
        note(f"{name} …")
        if name == "floor":
            rows, results.shares = import_module("benchmarks.floor").run(settings)
        else:
            rows = import_module(f"benchmarks.{name}").run(settings)
        results.add(*rows)
        note(f"{name}: {perf_counter() - start:.0f} s")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, write, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("works", nargs="*", help=f"some of {', '.join(WORKS)}, floor; default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="no sampling, and the companions")
    size.add_argument("--tiny", action="store_true", help="see that everything runs")
    parser.add_argument(
        "--write", type=Path, help="folder for the results; docs/generated when all works run"
    )
    given = parser.parse_args(arguments)
    _quiet()
    settings = FULL if given.full else TINY if given.tiny else QUICK
    works = given.works or [*WORKS, "floor"]
    results = measure(settings, works)
    folder = given.write
    if folder is None and not given.works and not given.tiny:
        folder = GENERATED
    if folder is not None:
        results.write(folder)
        note(f"written to {folder}")
    print(target_table(results.targets), peer_table(results.part("peers")), sep="\n\n")
    return _companions() if given.full and not given.works else 0


def _companions() -> int:
    """The checks that stand beside the timings."""
    status = 0
    for name in COMPANIONS:
        module = f"benchmarks.{name}"
        if importlib.util.find_spec(module) is None:
            note(f"{module} is not there: left out")
            continue
        note(f"{name} …")
        status |= subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=False).returncode
    return status


def _quiet() -> None:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def _versions() -> dict[str, str]:
    here = {one.name.lower(): one.version for one in distributions()}
    python = {"Python": ".".join(map(str, sys.version_info[:3]))}
    return python | {name: here[name] for name in _NAMED if name in here}


if __name__ == "__main__":
    sys.exit(main())
