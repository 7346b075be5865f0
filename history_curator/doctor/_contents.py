"""What the prompts were made of, how much of it was used again, and how large the next would be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median

from history_curator.doctor._session import Session
from history_curator.errors import ConversionError
from history_curator.lab._conversation import LabConversation, ReadConversation
from history_curator.lab._needs import Need, find_needs
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import Calibration, TokenCounter

_LEAST, _MOST = 0.7, 2.5
"""The ratio of the provider's tokens to ours lies within these, whatever a log says."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What left the context at once, and what of it later calls still used.

    Attributes:
        session: whose context.
        call: the first call without it.
        messages: how many messages left.
        tokens: how large they were.
        needed: identifiers that later calls used, that only those messages held and the summary
            does not name, and calls that were made again; in the order they were used.
        left: what they were, by who spoke or what was called; empty where a host summarised.
    """

    session: str
    call: int
    messages: int
    tokens: int
    needed: tuple[str, ...]
    left: str = ""


@dataclass(slots=True)
class Contents:
    """What the prompts of one session were made of, in the provider's tokens.

    Attributes:
        kinds: tokens sent, over all calls, by kind of content. They add up to the prompts.
        tools: tokens sent, over all calls, by tool: its calls and its results.
        idle_tools: of those, tokens of results that no later call used any more.
        errors: for each call but the first, how far the predicted prompt was from the reported
            one, as a share of it.
        ratio: the provider's tokens over ours.
        hidden: tokens in every prompt that the log does not show.
        exceeded: calls whose prompt was above the stated bound.
        losses: what left the context where the host summarised.
        calls: the number of each call, by the position of its answer among the entries.
        problem: why the messages could not be read, when they could not.
    """

    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle_tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    errors: list[float] = field(default_factory=list)
    ratio: float = 1.0
    hidden: int = 0
    exceeded: int = 0
    losses: list[Loss] = field(default_factory=list)
    calls: dict[int, int] = field(default_factory=dict)
    problem: str = ""


def look_into(session: Session, counter: TokenCounter, calibration: Calibration) -> Contents:
    """Return what the prompts of a session were made of, as far as the log shows it.

    The calibration learns, call by call, how the provider counts the same, and predicts each prompt
    before it is looked at.
    """
    found = Contents()
    record = None
    if session.messages:
        try:
            record = LabConversation(session.id, session.messages).read()
        except ConversionError as error:
            found.problem = str(error)
    if record is None:
        found.kinds["not in the log"] = sum(call.usage.input for call in session.calls)
        return found
    sizes = [counter.count_entry(entry) for entry in record.entries]
    before = _before(record, len(session.messages))
    found.calls = {before[call.position]: number for number, call in enumerate(session.calls)}
    windows = _windows(session, counter)
    counted = _counted(session, sizes, before, windows)
    _predict(session, counted, calibration, found)
    found.ratio, found.hidden = _scale(session, counted)
    inside = _Inside(session, record, sizes, before, windows, find_needs(record))
    _attribute(inside, found)
    found.losses = list(_losses(inside, found.ratio))
    return found


def _before(record: ReadConversation, messages: int) -> list[int]:
    """Return, for each count of messages, how many entries they were read as."""
    entries = Counter(record.homes)
    return list(accumulate((entries[at] for at in range(messages)), initial=0))


@dataclass(frozen=True, slots=True)
class _Window:
    """Calls of which each began with the same message: from one compaction to the next."""

    start: int
    summary: int
    calls: Sequence[int]
    text: str = ""


def _windows(session: Session, counter: TokenCounter) -> list[_Window]:
    starts = [(0, "")]
    starts += [
        (each.position, str((each.summary or {}).get("content") or ""))
        for each in session.compactions
    ]
    windows = []
    for number, (start, text) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else len(session.messages) + 1
        inside = [n for n, call in enumerate(session.calls) if start <= call.position < end]
        if inside:
            windows.append(_Window(start, counter.count(text), inside, text))
    return windows


@dataclass(frozen=True, slots=True)
class _Inside:
    """A session, taken apart: ``before[n]`` entries were read from its first n messages."""

    session: Session
    record: ReadConversation
    sizes: Sequence[int]
    before: Sequence[int]
    windows: Sequence[_Window]
    needs: Mapping[int, Sequence[Need]]


def _losses(inside: _Inside, ratio: float) -> Iterator[Loss]:
    """Yield what left at each compaction, and which needs of later calls it leaves unmet."""
    session, before, windows = inside.session, inside.before, inside.windows
    for number, window in enumerate(windows[1:], 1):
        first, left = before[window.start], before[windows[number - 1].start]
        needed: dict[str, None] = {}
        for at in (before[session.calls[call].position] for call in window.calls):
            for need in inside.needs.get(at, ()):
                again = need.kind == "repeat"
                if need.sources[-1] < first and (again or need.value not in window.text):
                    needed[f"the same {need.value} call" if again else need.value] = None
        yield Loss(
            session=session.id,
            call=window.calls[0],
            messages=window.start - windows[number - 1].start,
            tokens=round(sum(inside.sizes[left:first]) * ratio),
            needed=tuple(needed),
        )


def _counted(
    session: Session, sizes: Sequence[int], before: Sequence[int], windows: Sequence[_Window]
) -> list[int]:
    """Return our count of what the log shows of each prompt."""
    upto = list(accumulate(sizes, initial=0))
    counted = [0] * len(session.calls)
    for window in windows:
        for number in window.calls:
            shown = upto[before[session.calls[number].position]] - upto[before[window.start]]
            counted[number] = shown + window.summary
    return counted


def _predict(
    session: Session, counted: Sequence[int], calibration: Calibration, found: Contents
) -> None:
    for number, call in enumerate(session.calls):
        if not call.usage.input:
            continue
        if number:
            expected = calibration.predict(call.model, counted[number], key=session.id)
            found.errors.append(abs(expected.tokens - call.usage.input) / call.usage.input)
            found.exceeded += call.usage.input > expected.bound
        calibration.observe(call.model, counted[number], call.usage, key=session.id)


def _scale(session: Session, counted: Sequence[int]) -> tuple[float, int]:
    """Return the ratio of the provider's tokens to ours, and what every prompt holds beside."""
    calls = session.calls
    grown = reported = 0
    for number in range(1, len(calls)):
        more = counted[number] - counted[number - 1]
        real = calls[number].usage.input - calls[number - 1].usage.input
        if more > 0 and _LEAST / 2 < real / more < 2 * _MOST:
            grown, reported = grown + more, reported + real
    ratio = min(max(reported / grown, _LEAST), _MOST) if grown else 1.0
    beside = [call.usage.input - ratio * count for call, count in zip(calls, counted, strict=True)]
    return ratio, max(0, round(median(beside))) if beside else 0


def _attribute(inside: _Inside, found: Contents) -> None:
    """Charge every entry for each call that carried it; what is left over is not in the log."""
    session, record, before = inside.session, inside.record, inside.before
    last_use = _last_uses(inside.needs)
    names = _tool_names(record.entries)
    for window in inside.windows:
        positions = [before[session.calls[number].position] for number in window.calls]
        found.kinds["summaries"] += window.summary * len(positions) * found.ratio
        waiting = 0
        for index in range(before[window.start], positions[-1]):
            while waiting < len(positions) and positions[waiting] <= index:
                waiting += 1
            carried = len(positions) - waiting
            if not carried:
                break
            entry, size = record.entries[index], inside.sizes[index] * found.ratio
            _charge(found, entry, names.get(index), size * carried)
            if entry.role is MessageRole.TOOL:
                used = last_use.get(index, -1)
                after = sum(1 for at in positions[waiting:] if at > used)
                # The call right after a result reads it: that one it is there for.
                spare = min(after, carried - 1)
                found.idle_tools[names.get(index) or "tool"] += size * spare
    total = sum(call.usage.input for call in session.calls)
    rest = total - sum(found.kinds.values())
    if rest >= 0:
        found.kinds["not in the log"] = rest
    else:
        for name in (found.kinds, found.tools, found.idle_tools):
            for key in name:
                name[key] *= total / (total - rest)


def _charge(found: Contents, entry: ConversationEntry, tool: str | None, tokens: float) -> None:
    if entry.role is MessageRole.TOOL:
        found.kinds["tool results"] += tokens
        found.tools[tool or "tool"] += tokens
    elif entry.tool_calls:
        found.kinds["tool calls"] += tokens
        for call in entry.tool_calls:
            found.tools[call.name] += tokens / len(entry.tool_calls)
    else:
        found.kinds[f"{entry.role.value} text"] += tokens


def _last_uses(needs: Mapping[int, Sequence[Need]]) -> dict[int, int]:
    """Return, for each entry, the last call that used something only it and its like hold."""
    found: dict[int, int] = {}
    for at, some in needs.items():
        for need in some:
            newest = need.sources[-1]
            found[newest] = max(found.get(newest, -1), at)
    return found


def _tool_names(entries: Sequence[ConversationEntry]) -> dict[int, str]:
    """Return the tool behind each result, by the call it answers."""
    names: dict[str, str] = {}
    found: dict[int, str] = {}
    for index, entry in enumerate(entries):
        for call in entry.tool_calls or ():
            names[call.id] = call.name
        if entry.role is MessageRole.TOOL:
            found[index] = entry.tool_name or names.get(entry.tool_call_id or "", "tool")
    return found
