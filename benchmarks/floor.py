"""Where the time goes, and how far it is from the floor nobody can get under."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from pathlib import Path

from benchmarks import _ours, _peers
from benchmarks._conversation import BUDGET, conversation
from benchmarks._measure import Contender, Race, cpu, cpu_each
from benchmarks._settings import Settings
from benchmarks._table import Row
from benchmarks.session import grow

_PACKAGE = Path(_ours.__file__).resolve().parents[1] / "history_curator"
_STEPS = {
    "formats": "read and write: messages and entries",
    "timeline": "timeline: recognise the history, group what is new",
    "seal": "seal: the fold, the forms, the proof",
    "rules": "rules of the provider",
    "tokens": "tokens: count what is new",
    "report": "report",
    "caching": "caching: times and usage that messages carry",
    "curator.py": "curator: the call itself",
    "_request.py": "curator: the call itself",
    "_managed.py": "curator: the call itself",
    "_curation.py": "curator: the call itself",
    "run_steps.py": "curator: the call itself",
    "model": "read and write: messages and entries",
}


def run(settings: Settings) -> tuple[list[Row], list[tuple[str, float]]]:
    """Measure, and return the rows and the shares."""
    n = settings.session
    dicts = conversation(n)
    encode = _peers.encode()
    texts = [message["content"] for message in dicts]

    def tokenise() -> float:
        return cpu(lambda: [encode(text) for text in texts])

    view = _ours.core()
    shown = view(list(dicts)).messages

    def copy() -> float:
        return cpu_each(lambda: list(shown), 0.01) * n

    race = Race(
        [
            Contender("session", "", lambda: grow(_ours.core, dicts)),
            Contender("tokenise", "", tokenise),
            Contender("copy", "", copy),
        ],
        max(3, settings.rounds),
    )
    floor = race.seconds("tokenise") + race.seconds("copy")
    whole = race.seconds("session")
    history = list(dicts)
    view(history)
    again = cpu_each(lambda: view(history), 0.05)
    step = whole / n
    rows = [
        Row(
            f"a session of {n:,} messages, budget {BUDGET:,}",
            "its floor: tokenise every message once, copy every view",
            whole / floor,
            part="floor",
        ),
        Row("tokenising every message once", "the session", floor_share(race), "%", part="floor"),
        Row(
            "a view when nothing is new",
            "the mean view of the session",
            again / step,
            "%",
            part="floor",
        ),
    ]
    return rows, shares(dicts)


def floor_share(race: Race) -> float:
    """The share of the session that is tokenising."""
    return race.seconds("tokenise") / race.seconds("session")


def shares(dicts: tuple[dict[str, object], ...]) -> list[tuple[str, float]]:
    """Share of each step of the pipeline in the time of a session, from a profile.

    Built-in functions count for the step that calls them.
    """
    view, history = _ours.core(), []
    profile = cProfile.Profile()
    profile.enable()
    for message in dicts:
        history.append(message)
        view(history)
    profile.disable()
    found: Counter[str] = Counter()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, own, _, callers) in stats.items():
        if file.startswith(str(_PACKAGE)):
            found[_step(file)] += own
        else:
            for (caller, _, _), (_, _, spent, _) in callers.items():
                found[_step(caller)] += spent
    total = sum(found.values())
    return [(name, spent / total) for name, spent in found.most_common() if spent / total >= 0.01]


def _step(file: str) -> str:
    try:
        inside = Path(file).resolve().relative_to(_PACKAGE).parts[0]
    except ValueError:
        return "elsewhere"
    return _STEPS.get(inside, inside.removesuffix(".py"))
