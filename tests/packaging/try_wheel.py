"""Build the package, install the wheel with each extra in an empty environment, and use it there.

    python -m tests.packaging.try_wheel [extra ...]

Without arguments every extra is tried, and the tests of the source distribution are run from where
it was unpacked. `make package` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
# The thin package of each extra, and how it is used.
THIN: dict[str, tuple[str, str]] = {
    "agents": (
        "langchain-history-curator",
        """
from langchain_history_curator import HistoryCuratorMiddleware
HistoryCuratorMiddleware(max_tokens=500)
""",
    ),
    "llamaindex": (
        "llama-index-memory-history-curator",
        """
from llama_index.core.llms import ChatMessage
from llama_index.memory.history_curator import CuratedMemory
memory = CuratedMemory.from_defaults(token_limit=500)
memory.put(ChatMessage("hi"))
assert len(memory.get()) == 1
""",
    ),
}

TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "so?"},
]
REPLAY = f"""
from history_curator.lab import replay
results = replay([{TALK}], ['no curation'], executor='serial', progress=False)
"""
CURATE = """
from history_curator import Curator
assert Curator(max_tokens=500).curate([{"role": "user", "content": "hi"}]).tokens > 0
"""
FOREIGN = """
from history_curator import Curator
from {0} import {1}
assert Curator(max_tokens=500).curate([{1}("hi")]).tokens > 0
"""
REFUSED = """
try:
    import {0}
except ModuleNotFoundError:
    raise
except ImportError as error:
    assert 'pip install "history-curator[{1}]"' in str(error), error
else:
    raise AssertionError("{0} is installed")
"""
# For each extra: what is run in Python, and which commands with the exit code they must have.
USES: dict[str, tuple[str, list[tuple[list[str], int]]]] = {
    "": (
        CURATE
        + REFUSED.format("langchain_history_curator", "langchain")
        + REFUSED.format("llamaindex_history_curator", "llamaindex"),
        [(["demo"], 2)],
    ),
    "cli": (CURATE, [(["--version"], 0), (["demo"], 0), (["check", "talk.json"], 0), (["--help"], 0),
                     (["curate", "talk.json", "--config", "c.yaml"], 2)]),
    "langchain": (
        (FOREIGN.format("langchain_core.messages", "HumanMessage")
        + "from langchain_history_curator import HistoryCurator\n"
        "assert HistoryCurator(max_tokens=500).invoke('hi')[0].content == 'hi'\n"
        "try:\n    from langchain_history_curator import HistoryCuratorMiddleware\n"
        "except ImportError as error:\n    assert 'history-curator[agents]' in str(error)\n"),
        [],
    ),
    "agents": (("from langchain_history_curator import HistoryCuratorMiddleware\n"
               "HistoryCuratorMiddleware(max_tokens=500)\n"), []),
    "llamaindex": (
        (FOREIGN.format("llama_index.core.llms", "ChatMessage")
        + "from llamaindex_history_curator import CuratedMemory\n"
        "from llama_index.core.llms import ChatMessage\n"
        "memory = CuratedMemory.from_defaults(token_limit=500)\n"
        "memory.put(ChatMessage('hi', role='user'))\nassert len(memory.get()) == 1\n"),
        [],
    ),
    "sql": ("import sqlalchemy\nfrom history_curator.record.prune import prune_store\n", []),
    "lab": (REPLAY + "results.to_frame()\n", [(["compare", "talk.json"], 0)]),
    "scale": (REPLAY + "import distributed\n", [(["compare", "talk.json", "-o", "r.json"], 0)]),
}  # fmt: skip


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a command without the project in reach; fail with all it said unless the code is right."""
    quiet = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=quiet, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != code:
        shown = " ".join(map(str, command))[:200]
        raise SystemExit(f"{shown}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install(python: Path, what: str, *, cwd: Path) -> None:
    """Install with this environment's pip into another one, which then needs none of its own."""
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile")
    run(*pip, "-c", ROOT / "constraints.txt", what, cwd=cwd)


# Each environment starts empty; an extra that holds the one before it is installed on top of it,
# which gives what installing it alone gives, in less time.
CHAINS = (
    ("llamaindex",),
    ("", "cli", "lab", "scale"),
    ("langchain", "agents"),
    ("sql",),
)


def try_chain(extras: Sequence[str], wheel: Path, folder: Path) -> list[tuple[str, float]]:
    """Install extras one after the other in a new environment and use each."""
    home = folder / (extras[0] or "base")
    venv.create(home, with_pip=False, clear=True)
    desk = home / "desk"
    desk.mkdir()
    (desk / "talk.json").write_text(json.dumps(TALK), encoding="utf-8")
    (desk / "c.yaml").write_text("max_tokens: 500\n", encoding="utf-8")
    took = []
    for extra in extras:
        started = time.perf_counter()
        use_extra(extra, wheel, home)
        took.append((extra or "base", time.perf_counter() - started))
    return took


def use_extra(extra: str, wheel: Path, home: Path) -> None:
    """Install one extra and run what it is for."""
    code, commands = USES[extra]
    python, desk = home / "bin" / "python", home / "desk"
    install(python, f"{wheel}[{extra}]" if extra else str(wheel), cwd=desk)
    run(python, "-W", "error::DeprecationWarning:history_curator", "-c", code, cwd=desk)
    if extra in THIN:
        try_thin(*THIN[extra], python, home)
    for arguments, wanted in commands:
        given = [each.replace("{cwd}", str(desk)) for each in arguments]
        run(home / "bin" / "history-curator", *given, cwd=desk, code=wanted)


def try_thin(name: str, use: str, python: Path, home: Path) -> None:
    """Build the package that a framework's users look for, and use its wheel beside ours."""
    run(sys.executable, "-m", "build", "--outdir", home / "thin", PACKAGING / name, cwd=home)
    (wheel,) = (home / "thin").glob("*.whl")
    install(python, str(wheel), cwd=home)
    run(python, "-c", use, cwd=home / "desk")


def try_source(source: Path, folder: Path) -> None:
    """Unpack the source distribution, see that all its tests are found, and run some of them."""
    with tarfile.open(source) as packed:
        packed.extractall(folder / "source", filter="data")
    (home,) = (folder / "source").iterdir()
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(*pytest, "--collect-only", cwd=home)
    run(*pytest, "tests/entries", "tests/rules", "tests/docs/test_code_blocks.py", cwd=home)


def main(extras: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="history-curator-wheel-") as made:
        folder = Path(made)
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        (source,) = (folder / "dist").glob("*.tar.gz")
        chains = [kept for chain in CHAINS if (kept := [e for e in chain if e in extras])]
        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(lambda chain: try_chain(chain, wheel, folder), chains):
                for extra, took in found:
                    print(f"{extra:<12} {took:5.1f} s")
        if len(extras) == len(USES):
            try_source(source, folder)
            print("source       tests found and run")


if __name__ == "__main__":
    main(["" if each == "base" else each for each in sys.argv[1:]] or list(USES))
