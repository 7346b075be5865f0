"""The tests on every supported Python, and the adapters' on the oldest and the newest frameworks.

    python -m tests.packaging.try_versions [3.10 3.13 oldest newest]

Each gets an environment of its own. Pythons are looked for on the path and among those of pyenv; one
that is absent is passed over, and said so. They have the versions of constraints.txt. ``oldest``
installs the least versions of the frameworks that pyproject.toml allows, ``newest`` what pip finds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
RUNNERS = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout", "PyYAML")
NEEDS = ("-c", "constraints.txt", ".[cli,sql]", *RUNNERS)
TESTS = ("core/test_golden.py", "core/test_curator.py", "config", "boundary")

FRAMEWORKS = ("langchain-core", "langchain", "langgraph", "llama-index-core")
CLIENTS = (
    "langchain-anthropic", "langchain-openai", "langgraph-checkpoint-sqlite",
    "llama-index-llms-openai",
)  # fmt: skip
ADAPTERS_NEED = (
    ".[agents,cli,llamaindex,sql]",
    "aiosqlite",
    "asyncpg",
    "httpx",
    *CLIENTS,
    *RUNNERS,
)
ADAPTERS_TESTS = ("integrations", "langchain", "llamaindex")


def oldest_versions() -> list[str]:
    """Return the least version of each framework that pyproject.toml allows, as a requirement."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = (re.search(rf'"{name}>=([\d.]+)', text) for name in FRAMEWORKS)
    return [each[0].strip('"').replace(">=", "==") for each in found if each]


def interpreter(version: str) -> str | None:
    """Return a Python of this version that runs."""
    named = shutil.which(f"python{version}")
    owned = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in [*map(str, reversed(owned)), *([named] if named else [])]:
        done = subprocess.run([candidate, "-c", "pass"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    return None


def try_environment(python: str, needs: Sequence[str], tests: Sequence[str]) -> bool:
    """Install these requirements into an environment of their own, and run the tests there."""
    with tempfile.TemporaryDirectory(prefix="history-curator-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder) / "bin" / "python")
        install = [own, "-m", "pip", "install", "--quiet", "--no-compile", *needs]
        # Other versions warn of other things, which are no errors here.
        options = ("-q", "-p", "no:cacheprovider", "-W", "default", "-m", "not nightly")
        run = [own, "-m", "pytest", *options, *(str(ROOT / "tests" / each) for each in tests)]
        return all(
            subprocess.run(command, cwd=ROOT, check=False).returncode == 0
            for command in (install, run)
        )


def main(asked: Sequence[str]) -> int:
    """Try each environment that was asked for, or all."""
    failed = []
    adapters = {"oldest": [*ADAPTERS_NEED, *oldest_versions()], "newest": [*ADAPTERS_NEED]}
    for name in asked or (*VERSIONS, *adapters):
        python = sys.executable if name in adapters else interpreter(name)
        if python is None:
            print(f"Python {name}: not installed, passed over", flush=True)
            continue
        print(f"{name}: {python}", flush=True)
        tests = ADAPTERS_TESTS if name in adapters else TESTS
        if not try_environment(python, adapters.get(name, NEEDS), tests):
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all that are installed passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
