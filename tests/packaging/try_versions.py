"""The core's tests under every supported Python that is installed.

    python -m tests.packaging.try_versions [3.10 3.13]

Each gets an environment of its own, with the versions of constraints.txt. Pythons are looked for on
the path and among those of pyenv; one that is absent is passed over, and said so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
NEEDS = (".[cli,sql]", "hypothesis", "pytest", "pytest-asyncio", "pytest-timeout", "PyYAML")
TESTS = ("core/test_golden.py", "core/test_curator.py", "entries", "config", "boundary")


def find_interpreter(version: str) -> str | None:
    """Return a Python of this version that runs."""
    owned = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
    for candidate in filter(None, [*map(str, owned), shutil.which(f"python{version}")]):
        done = subprocess.run([candidate, "-c", "pass"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    return None


def try_version(python: str) -> bool:
    """Install the core and run its tests."""
    with tempfile.TemporaryDirectory(prefix="history-curator-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder) / "bin" / "python")
        install = [own, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *NEEDS]
        tests = [str(ROOT / "tests" / each) for each in TESTS]
        run = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", *tests]
        done = (subprocess.run(command, cwd=ROOT, check=False) for command in (install, run))
        return all(each.returncode == 0 for each in done)


def main(asked: Sequence[str]) -> int:
    """Try each version that was asked for, or all."""
    failed = []
    for version in asked or VERSIONS:
        python = find_interpreter(version)
        if python is None:
            print(f"Python {version}: not installed, passed over", flush=True)
            continue
        print(f"Python {version}: {python}", flush=True)
        if not try_version(python):
            failed.append(version)
    print(f"failed: {', '.join(failed)}" if failed else "all that are installed passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
