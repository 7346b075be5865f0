"""The contents of a session's prompts, and predictions of the next prompt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median

from history_curator.doctor.logs import Session
from history_curator.entries import MessageRole
from history_curator.errors import ConversionError
from history_curator.lab.conversations import LabConversation, ReadConversation
from history_curator.lab.metrics import Dependency, find_dependencies
from history_curator.tokens import TokenCounter, UsageAnchor

_MIN_RATIO, _MAX_RATIO = 0.7, 2.5
"""The provider's tokens over ours lie within these, whatever a log says."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that left the context at once, and what later calls still needed of them.

    Attributes:
        call: the first call without the messages.
        messages, tokens: how many left, and their size.
        needed: identifiers that later calls used, that only those messages held and the summary
            does not name, and calls that were made again; in the order of their use.
    """

    session: str
    call: int
    messages: int
    tokens: int
    needed: tuple[str, ...]


@dataclass(slots=True)
class Contents:
    """The contents of the prompts of one session, in the provider's tokens.

    Attributes:
        kinds, tools: tokens sent over all calls, by kind of content and by tool.
        idle_tools: of those, tokens of results that no later call used any more.
        errors: for each call but the first, the error of the predicted prompt, as a share of it.
        exceeded: calls whose prompt was above the stated bound.
        ratio: the provider's tokens over ours.
        hidden: tokens in every prompt that the log does not show.
        losses: messages that left the context where the host summarised.
        problem: why the messages could not be read, when they could not.
    """

    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle_tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    errors: list[float] = field(default_factory=list)
    exceeded: int = 0
    ratio: float = 1.0
    hidden: int = 0
    losses: list[Loss] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Window:
    """Calls that begin with the same message: from one summary of the host to the next.

    ``start`` and ``answers`` are indexes of entries, ``calls`` numbers of calls.
    """

    start: int
    calls: Sequence[int]
    answers: Sequence[int]
    summary: str
    summary_tokens: int


def measure_contents(session: Session, counter: TokenCounter, ratios: dict[str, float]) -> Contents:
    """Return the contents of a session's prompts, as far as the log shows them.

    ``ratios`` remembers, by model, the ratio of the provider's tokens to ours.
    """
    found = Contents()
    try:
        record = LabConversation(session.id, session.messages).read() if session.messages else None
    except ConversionError as error:
        record, found.problem = None, str(error)
    if record is None:
        found.kinds["not in the log"] = sum(call.usage.input for call in session.calls)
        return found
    sizes = [counter.count_entry(entry) for entry in record.entries]
    homes = Counter(record.homes)
    counts = (homes[position] for position in range(len(session.messages)))
    entry_at = list(accumulate(counts, initial=0))
    windows = list(_find_windows(session, entry_at, counter))
    answers = [entry_at[call.position] for call in session.calls]
    upto = list(accumulate(sizes, initial=0))
    counted = [0] * len(answers)
    for window in windows:
        for number in window.calls:
            counted[number] = upto[answers[number]] - upto[window.start] + window.summary_tokens
    _predict_prompts(session, counted, ratios, found)
    _find_ratio(session, counted, found)
    dependencies = find_dependencies(record)
    scaled = [size * found.ratio for size in sizes]
    _attribute_tokens(record, scaled, windows, dependencies, found)
    _add_unlogged(session, found)
    for previous, window in pairwise(windows):
        messages = entry_at.index(window.start) - entry_at.index(previous.start)
        tokens = round((upto[window.start] - upto[previous.start]) * found.ratio)
        needed = tuple(_needed_after(window, dependencies))
        found.losses.append(Loss(session.id, window.calls[0], messages, tokens, needed))
    return found


def _find_windows(
    session: Session, entry_at: Sequence[int], counter: TokenCounter
) -> Iterator[_Window]:
    starts = [(0, ""), *((each.position, each.text) for each in session.summaries)]
    ends = [*(position for position, _ in starts[1:]), len(session.messages) + 1]
    for (start, text), end in zip(starts, ends, strict=True):
        calls = [n for n, call in enumerate(session.calls) if start <= call.position < end]
        if calls:
            answers = [entry_at[session.calls[number].position] for number in calls]
            yield _Window(entry_at[start], calls, answers, text, counter.count(text))


def _needed_after(
    window: _Window, dependencies: Mapping[int, Sequence[Dependency]]
) -> dict[str, None]:
    return {
        _label(each): None
        for answer in window.answers
        for each in dependencies.get(answer, ())
        if each.sources[-1] < window.start
        and (each.kind == "repeat" or each.value not in window.summary)
    }


def _label(needed: Dependency) -> str:
    is_identifier = needed.kind == "identifier"
    return needed.value if is_identifier else f"the same {needed.value} call"


def _predict_prompts(
    session: Session, counted: Sequence[int], ratios: dict[str, float], found: Contents
) -> None:
    """Predict each prompt from the reports on the prompts before it."""
    anchor: UsageAnchor | None = None
    for call, count in zip(session.calls, counted, strict=True):
        reported = call.usage.input
        if not reported:
            continue
        if anchor is None:
            anchor = UsageAnchor(count, reported, ratios.get(call.model, 1.0))
        else:
            found.errors.append(abs(anchor.predict(count) - reported) / reported)
            found.exceeded += reported > anchor.upper_bound(count)
            anchor = anchor.after(count, reported)
        ratios[call.model] = anchor.ratio


def _find_ratio(session: Session, counted: Sequence[int], found: Contents) -> None:
    """Find the ratio of the provider's tokens to ours, and the tokens the log does not show."""
    inputs = [call.usage.input for call in session.calls]
    grown = reported = 0
    for number in range(1, len(inputs)):
        growth, real = counted[number] - counted[number - 1], inputs[number] - inputs[number - 1]
        if growth > 0 and _MIN_RATIO / 2 < real / growth < 2 * _MAX_RATIO:
            grown, reported = grown + growth, reported + real
    found.ratio = min(max(reported / grown, _MIN_RATIO), _MAX_RATIO) if grown else 1.0
    rest = [real - found.ratio * count for real, count in zip(inputs, counted, strict=True)]
    found.hidden = max(0, round(median(rest))) if rest else 0


def _attribute_tokens(
    record: ReadConversation,
    sizes: Sequence[float],
    windows: Sequence[_Window],
    dependencies: Mapping[int, Sequence[Dependency]],
    found: Contents,
) -> None:
    """Charge every entry for each call that carried it."""
    last_use: dict[int, int] = defaultdict(lambda: -1)
    for answer, needed in dependencies.items():
        for each in needed:
            last_use[each.sources[-1]] = max(last_use[each.sources[-1]], answer)
    names = {call.id: call.name for entry in record.entries for call in entry.tool_calls or ()}
    for window in windows:
        found.kinds["summaries"] += window.summary_tokens * len(window.answers) * found.ratio
        first = 0
        for index in range(window.start, window.answers[-1]):
            while window.answers[first] <= index:
                first += 1
            entry, later = record.entries[index], window.answers[first:]
            tokens = sizes[index] * len(later)
            if entry.role is MessageRole.TOOL:
                tool = entry.tool_name or names.get(entry.tool_call_id or "", "tool")
                found.kinds["tool results"] += tokens
                found.tools[tool] += tokens
                # The call right after a result reads it, whatever it uses.
                idle = sum(answer > last_use[index] for answer in later)
                found.idle_tools[tool] += sizes[index] * min(idle, len(later) - 1)
                continue
            calls = entry.tool_calls or ()
            found.kinds["tool calls" if calls else f"{entry.role.value} text"] += tokens
            for call in calls:
                found.tools[call.name] += tokens / len(calls)


def _add_unlogged(session: Session, found: Contents) -> None:
    """Charge the rest of the prompts to content that the log does not show."""
    total = sum(call.usage.input for call in session.calls)
    shown = sum(found.kinds.values())
    if shown <= total:
        found.kinds["not in the log"] = total - shown
        return
    for tokens in (found.kinds, found.tools, found.idle_tools):
        for key in tokens:
            tokens[key] *= total / shown
