"""A conformance kit for anything that trims conversations: yours, ours, theirs.

`parse` and `show` write conversations in one line, `assert_conformant` fails a test,
`try_trimmer` runs a trimmer over many conversations, `SEQUENCES` are the ones that trip most.
`history_curator.testing.strategies` has hypothesis strategies and
`history_curator.testing.plugin` a pytest fixture; both need their package installed.
"""

from __future__ import annotations

from history_curator.testing._sequences import SEQUENCES
from history_curator.testing._shorthand import ShorthandError, parse, parse_entries, show
from history_curator.testing._trial import Failure, Trial, assert_conformant, try_trimmer

__all__ = [
    "SEQUENCES",
    "Failure",
    "ShorthandError",
    "Trial",
    "assert_conformant",
    "parse",
    "parse_entries",
    "show",
    "try_trimmer",
]
