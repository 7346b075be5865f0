"""Run benchmarks one after the other, and write the tables that the documentation includes.

python -m benchmarks [costs stability usage evidence provider faults engine]
"""

from __future__ import annotations

import argparse
import importlib
import os
from time import perf_counter

NAMES = ("costs", "stability", "usage", "evidence", "recap", "provider", "faults", "engine")


def main() -> None:
    """Run the named benchmarks, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--no-write", action="store_true", help="print the tables only")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for name in options.names or NAMES:
        start = perf_counter()
        print(f"\n{name}\n")
        importlib.import_module(f"benchmarks.{name}").main([] if options.no_write else ["--write"])
        print(f"\n{name}: {perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
