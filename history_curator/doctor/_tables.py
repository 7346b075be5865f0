"""What a person is shown of a diagnosis, in the terminal and on the page: sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from history_curator.report_page import many

if TYPE_CHECKING:
    from history_curator.doctor._contents import Loss
    from history_curator.doctor._diagnosis import Diagnosis

_NAMES = {
    "cache_read": ("read from the cache", "green"),
    "cache_write": ("written to the cache", "yellow"),
    "input": ("input at the plain price", "red"),
    "output": ("answers", "cyan"),
}


class Bar(NamedTuple):
    """A share, drawn."""

    share: float
    colour: str = "blue"


class Shown(NamedTuple):
    """One table. The first column, and the last where ``text``, are read; others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Bar]]
    text: bool = False


def headline(found: Diagnosis) -> str:
    """Return how much of what was looked at."""
    side = f" ({many(found.side_sessions, 'side chain')})" if found.side_sessions else ""
    return f"{many(found.calls, 'call')} in {many(found.sessions, 'session')}{side}"


def in_short(found: Diagnosis) -> list[str]:
    """Return what to know first, in sentences."""
    total, said = found.cost["total"], []
    lost = list(reasons(found).items())
    if lost and total:
        cost = sum(cost for _, (_, _, cost) in lost)
        why, (calls, _, _) = lost[0]
        said.append(
            f"{many(len(found.busts), 'call')} lost the cache, which took {cost / total:.0%} of "
            f"the cost; most of it: {why} ({many(calls, 'call')})."
        )
    if found.tools and found.tools[0].tokens:
        most = found.tools[0]
        said.append(
            f"{most.name} fills {most.share:.0%} of the prompts; {most.unused / most.tokens:.0%} "
            "of that was sent after its last use."
        )
    if found.losses:
        needed = sum(len(each.needed) for each in found.losses)
        said.append(
            f"The host summarised {many(len(found.losses), 'time')}; later calls needed "
            f"{many(needed, 'thing')} that had left."
        )
    if len(found.policies) > 1:
        was = found.policies[0]
        sound = [each for each in found.policies if not each.note and each.missed <= was.missed]
        best = min(sound, key=lambda each: each.cost, default=was)
        share = best.cost / was.cost if was.cost else 1.0
        if share > 0.995 and was.missed - best.missed < 0.0005:  # it would read as the same
            said.append(
                "No policy tried costs less without losing more: what was sent is fine as it was."
            )
        else:
            said.append(
                f"{best.policy} at {best.budget:,} tokens would have cost "
                f"{share:.0%} and lost {best.missed:.1%} of what was needed, "
                f"instead of {was.missed:.1%}."
            )
    return said


def tables(found: Diagnosis, most: int = 10) -> list[Shown]:
    """Return the tables that have rows, of those that could go on for long the first ``most``."""
    ours = next((each for each in found.policies if each.losses), None)
    every = [
        Shown("What was spent", ("", "tokens", "cost", "of all", ""), list(_spent(found))),
        Shown("What the prompts were made of", ("", "tokens", "of all", ""), list(_kinds(found))),
        Shown("By tool: calls and results",
              ("", "tokens", "of all", "", "no longer used"), list(_tools(found, most))),
        Shown("Why the cache was lost", ("", "calls", "tokens", "cost", "of all", ""),
              list(_lost(found))),
        Shown("The dearest of these calls", ("session", "call", "tokens", "cost", "why"),
              [(_name(each.session), str(each.call), f"{each.tokens:,}", money(each.cost),
                each.reason) for each in found.busts[: most // 2]], text=True),
        Shown("What left where the host summarised",
              ("session", "call", "messages", "tokens", "needed later"),
              _left(found.losses, most // 2), text=True),
        Shown("What if: missed is the share of what calls used that was not in their view", ("policy", "budget", "cost", "of as it was", "missed", "lost", "compactions", ""),
              list(_policies(found)), text=True),
        Shown(f"What would have left at compactions of the curator, at {ours.budget:,}" if ours else "",
              ("session", "call", "messages", "tokens", "needed later, and of what"),
              _left(ours.losses, most // 2) if ours else [], text=True),
    ]  # fmt: skip
    return [each for each in every if each.rows]


def accuracy(found: Diagnosis) -> str:
    """Return how near the simulator and the prediction came to what was reported."""
    from history_curator.doctor._diagnosis import percentile

    said = []
    if found.usage["cache_read"]:
        share = found.simulated_read / found.usage["cache_read"]
        said.append(f"Simulated reads are {share:.1%} of the reported ones.")
    if found.prediction_errors:
        half, most = (percentile(found.prediction_errors, each) for each in (0.5, 0.95))
        said.append(f"The next prompt is predicted within {half:.2%} (p50), {most:.2%} (p95).")
    return " ".join(said)


def money(cost: float) -> str:
    """Return a cost, with more digits where it is very small."""
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.4f}"


Rows = Iterable[Sequence["str | Bar"]]


def _spent(found: Diagnosis) -> Rows:
    total = found.cost["total"] or 1.0
    for key, (name, colour) in _NAMES.items():
        cost, share = found.cost[key], found.cost[key] / total
        yield name, f"{found.usage[key]:,}", money(cost), f"{share:.0%}", Bar(share, colour)


def _kinds(found: Diagnosis) -> Rows:
    total = sum(found.kinds.values()) or 1
    for name, tokens in found.kinds.items():
        if tokens:
            yield name, f"{tokens:,}", f"{tokens / total:.1%}", Bar(tokens / total)


def _tools(found: Diagnosis, most: int) -> Rows:
    for each in found.tools[:most]:
        unused = f"{each.unused / each.tokens:.0%}" if each.tokens else ""
        yield each.name, f"{each.tokens:,}", f"{each.share:.1%}", Bar(each.share), unused


def _lost(found: Diagnosis) -> Rows:
    total = found.cost["total"] or 1.0
    for why, (calls, tokens, cost) in reasons(found).items():
        share = cost / total
        yield why, f"{calls:,}", f"{tokens:,}", money(cost), f"{share:.1%}", Bar(share, "red")


def reasons(found: Diagnosis) -> dict[str, tuple[int, int, float]]:
    """Return calls, tokens and cost by the reason the cache was lost, dearest first."""
    total: dict[str, tuple[int, int, float]] = {}
    for each in found.busts:
        calls, tokens, cost = total.get(each.reason, (0, 0, 0.0))
        total[each.reason] = (calls + 1, tokens + each.tokens, cost + each.cost)
    return dict(sorted(total.items(), key=lambda item: -item[1][2]))


def _policies(found: Diagnosis) -> Rows:
    was = found.cost["total"] or 1.0
    for each in found.policies:
        budget = f"{each.budget:,}" if each.budget else "–"
        yield (each.policy, budget, money(each.cost), f"{each.cost / was:.0%}",
               f"{each.missed:.1%}", f"{each.lost:,}",
               f"{len(each.losses):,}" if each.losses else "", each.note[:60])  # fmt: skip


def _left(losses: Sequence[Loss], most: int) -> list[Sequence[str]]:
    """The losses of which most was needed, most first."""
    worst = sorted(losses, key=lambda each: -len(each.needed))[:most]
    return [
        (_name(each.session), str(each.call), f"{each.messages:,}", f"{each.tokens:,}",
         _needed(each) + _of(each))
        for each in worst
    ]  # fmt: skip


def _name(session: str) -> str:
    return session if len(session) <= 14 else f"{session[:13]}…"


def _needed(loss: Loss) -> str:
    """Return how much was needed of what left, and the names a reader makes most of."""
    if not loss.needed:
        return "nothing"
    names = [each for each in loss.needed if not each.isdigit() and len(each.split()) == 1]
    shown = sorted(names, key=lambda each: "/" not in each)[:4] or list(loss.needed)[:2]
    more = len(loss.needed) - len(shown)
    return f"{len(loss.needed)}: " + ", ".join(map(_short, shown)) + (f", {more} more" * (more > 0))


def _of(loss: Loss) -> str:
    """Return what left, the most of it."""
    kinds = loss.left.split(", ")
    return f" – of {', '.join(kinds[:3])}{', …' * (len(kinds) > 3)}" if loss.left else ""


def _short(value: str) -> str:
    """Return the end of a path, or the beginning of anything else."""
    text = " ".join(value.split())
    if "/" in text and " " not in text:
        return "/".join(text.rsplit("/", 2)[-2:])
    return text if len(text) <= 40 else f"{text[:39]}…"
