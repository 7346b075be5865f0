"""The results of a replay: one row for each policy as text, page, DataFrame or JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from history_curator.entries import write_private
from history_curator.lab.conversations import import_extra

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Item = TypeVar("Item")


class Table(NamedTuple):
    """A first column of text, columns of numbers, a last one of text where ``text_last`` says so."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_last: bool = False
    faded: frozenset[int] = frozenset()

    def to_rich(self) -> RichTable:
        """Return the table as rich draws it."""
        look = {"box": None, "pad_edge": False, "header_style": "bold"}
        drawn: RichTable = import_extra("rich.table", "cli").Table(**look)
        as_text = import_extra("rich.text", "cli").Text
        for number, head in enumerate(self.heads):
            if number == 0 or (self.text_last and number == len(self.heads) - 1):
                words = (word for row in self.rows for word in row[number].split())
                width = min(18, max(map(len, words), default=8))  # no name breaks in a word
                drawn.add_column(head, overflow="fold", min_width=None if number else width)
            else:
                drawn.add_column(head, justify="right", no_wrap=True)
        for number, row in enumerate(self.rows):
            drawn.add_row(*map(as_text, row), style="bright_black" * (number in self.faded))
        return drawn


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 call`` or ``1,200 calls``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_number(number: float) -> str:
    """Return a number of tokens in short, such as ``1.25M`` or ``980.00k``."""
    if number >= 1_000_000:
        return f"{number / 1_000_000:.2f}M"
    return f"{number / 1_000:.2f}k" if number >= 1_000 else str(round(number))


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share as every table shows it; a dash where there is none."""
    return "–" if share is None else f"{share:.{digits}%}"


def show_progress(
    items: Iterable[Item], title: str, total: int, *, visible: bool = True
) -> Iterable[Item]:
    """Return the items, with a bar on standard error while they are used, where rich is there."""
    if not visible or find_spec("rich") is None:
        return items
    screen = import_module("rich.console").Console(stderr=True)
    track: Callable[..., Iterable[Item]] = import_module("rich.progress").track
    return track(items, title, total, console=screen, transient=True)


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a command, as a terminal and a page show them."""

    title: str
    heading: str
    sentences: Sequence[str]
    tables: Sequence[Table]
    legend: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page without scripts; text from logs stays text."""
        jinja2, folder = import_extra("jinja2", "cli"), files("history_curator.lab")
        style = (folder / "page.css").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        environment = jinja2.Environment(autoescape=True)
        template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
        return write_private(path, template.render(found=self, style=style, digest=digest))


@dataclass(slots=True)
class PolicyResult:
    """The sums of one policy over one call, over one conversation, or over all; `add` sums.

    Attributes:
        calls, failed: calls that were made, and those for which the policy gave no view.
        cached: tokens sent that repeat the start of the request before.
        invalid, over_budget: requests that the provider's rules refuse, or above the budget.
        needed, lost: identifiers and calls of before that later calls used, and those out of view.
        edits, edits_seen: edit calls whose old lines had been shown, and those with all in view.
    """

    name: str
    note: str = ""
    peak: int = 0
    conversations: int = 0
    calls: int = 0
    failed: int = 0
    tokens_sent: int = 0
    cached: int = 0
    cost: float = 0.0
    over_budget: int = 0
    invalid: int = 0
    needed: int = 0
    lost: int = 0
    edits: int = 0
    edits_seen: int = 0

    def add(self, other: PolicyResult) -> None:
        """Add the sums of another call or conversation."""
        for each in fields(self)[3:]:  # whatever stands behind ``peak`` is added up
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.peak = max(self.peak, other.peak)
        self.note = other.note or self.note

    @property
    def measured(self) -> bool:
        """Whether the policy could be run at all."""
        return self.calls > 0

    @property
    def cached_share(self) -> float:
        """Tokens that repeat the start of the request before, over tokens sent."""
        return self.cached / self.tokens_sent if self.tokens_sent else 0.0

    @property
    def missed(self) -> float:
        """Share of what later calls needed that the view no longer had."""
        return self.lost / self.needed if self.needed else 0.0

    @property
    def edits_share(self) -> float | None:
        """Share of edit calls whose old lines were all in the view, or None without any."""
        return self.edits_seen / self.edits if self.edits else None

    @property
    def sound(self) -> bool:
        """Whether every request fits its budget and is accepted by the provider's rules."""
        return self.measured and not (self.over_budget or self.invalid or self.failed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        derived = ("cached_share", "missed", "edits_share")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


COLUMNS: dict[str, tuple[str, Callable[[PolicyResult], str]]] = {
    "sent": ("tokens over all calls", lambda p: short_number(p.tokens_sent)),
    "cached": ("sent tokens that repeat the request before", lambda p: percent(p.cached_share)),
    "cost": ("millions of tokens at full price; USD of a model", lambda p: f"{p.cost:.3f}"),
    "missed": ("of what later calls used, not in view any more", lambda p: percent(p.missed, 1)),
    "edits": ("edit calls whose old lines are all in view", lambda p: percent(p.edits_share)),
    "invalid": ("requests the provider's rules refuse", lambda p: f"{p.invalid:,}"),
    "over": ("requests above the budget", lambda p: f"{p.over_budget:,}"),
    "refused": ("calls for which the policy gave no view", lambda p: f"{p.failed:,}"),
}
"""The meaning and the text of each column, by its heading."""


@dataclass(frozen=True, repr=False)
class ReplayResults:
    """All policies of one replay, in the order they were given; printed, they are a table.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], {"all": "no curation"}, progress=False, executor="serial")
        >>> results["all"].calls, results.frontier()
        (1, ['all'])

    Attributes:
        max_tokens: the budget of the policies that have none of their own.
        sample: a line that says that not all files were replayed, or nothing.
    """

    policies: Mapping[str, PolicyResult]
    pricing: str
    provider: str
    max_tokens: int | None = None
    sample: str = ""

    def __getitem__(self, name: str) -> PolicyResult:
        return self.policies[name]

    def table(self) -> Table:
        """Return a row for each policy; edits are a column where there are any."""
        results, rows = list(self.policies.values()), []
        for each in results:
            cells = [text(each) if each.measured else "–" for _, text in self._columns().values()]
            rows.append([each.name + " (skipped)" * (not each.measured), *cells])
        faded = frozenset(number for number, each in enumerate(results) if not each.sound)
        return Table("", ["policy", *self._columns()], rows, faded=faded)

    def _columns(self) -> dict[str, tuple[str, Callable[[PolicyResult], str]]]:
        has_edits = any(each.edits for each in self.policies.values())
        return {head: column for head, column in COLUMNS.items() if has_edits or head != "edits"}

    def describe(self) -> Findings:
        """Return the recommendation, the table and the meaning of its headings."""
        budget = "" if self.max_tokens is None else f"a budget of {self.max_tokens:,} tokens, "
        sentences = [f"Measured with {budget}{self.pricing} prices, {self.provider} rules."]
        if (best := self.recommend()).startswith("Use "):
            sentences.append(f"On the cost/missed frontier: {', '.join(self.frontier())}.")
        legend = {head: meaning for head, (meaning, _) in self._columns().items()}
        grey = "Grey rows: a request was invalid, over the budget or not made."
        return Findings(
            "Policies compared", best, sentences, [self.table()], legend,
            [grey, *self.notes()],
        )  # fmt: skip

    def notes(self) -> list[str]:
        """Return one line about what later calls needed, and one for each policy that failed."""
        most = max(self.policies.values(), key=lambda each: each.calls)
        calls, talks = count_of(most.calls, "call"), count_of(most.conversations, "conversation")
        needed = f"{calls} in {talks}; later calls needed {count_of(most.needed, 'thing')} said "
        needed += f"before and edited {count_of(most.edits, 'time')}"
        needed = f"{self.sample} {needed}" if self.sample else needed
        return [needed, *(f"{p.name}: {p.note}" for p in self.policies.values() if p.note)]

    def __str__(self) -> str:
        console = import_extra("rich.console", "cli").Console(
            width=300, color_system=None, force_jupyter=False
        )
        with console.capture() as captured:
            console.print(self.table().to_rich())
        return "\n".join([*map(str.rstrip, captured.get().splitlines()), *self.notes()])

    __repr__ = __str__

    def to_json(self) -> str:
        """Return the results as JSON text."""
        names = {"pricing": self.pricing, "provider": self.provider, "sample": self.sample}
        return json.dumps({**names, "policies": self._rows()}, indent=2)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page with the recommendation, the table and its legend."""
        return self.describe().to_html(path)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row for each policy."""
        return import_extra("pandas").DataFrame(self._rows()).set_index("name")

    def _rows(self) -> list[dict[str, Any]]:
        return [result.to_dict() for result in self.policies.values()]

    def frontier(self) -> list[str]:
        """Return the sound policies no other beats on both cost and missed, cheapest first."""
        sound = [each for each in self.policies.values() if each.sound and each.tokens_sent]
        best: list[PolicyResult] = []
        for each in sorted(sound, key=lambda one: (one.cost, one.missed)):
            is_equal = best and (each.cost, each.missed) == (best[-1].cost, best[-1].missed)
            if not best or is_equal or each.missed < best[-1].missed:
                best.append(each)
        return [each.name for each in best]

    def recommend(self) -> str:
        """Return, as a sentence, the policy to use or the reason for none.

        It is the one on the frontier that is nearest to the best cost and the best missed.
        """
        line = [self.policies[name] for name in self.frontier()]
        if not line and any(each.tokens_sent for each in self.policies.values()):
            return (
                "No policy is recommended: each sent a request that is invalid or over the budget, "
                "or gave no view. Fix: a larger budget, or the rules of your own provider."
            )
        if not line:
            notes = "; ".join(self.notes()[1:]) or "No message answers another one."
            return (
                f"No policy made a single request. {notes} "
                "Fix: pass conversations that a model has answered, and policies that can run."
            )
        if not any(each.needed or each.edits for each in line):
            return (
                "No policy is recommended: no call used anything said before, so nothing could be "
                "missed. Fix: compare longer sessions, or sessions with tool calls."
            )
        cheap, full = line[0], line[-1]
        across, up = full.cost - cheap.cost or 1.0, cheap.missed - full.missed or 1.0

        def distance(each: PolicyResult) -> float:
            return hypot((each.cost - cheap.cost) / across, (each.missed - full.missed) / up)

        return f"Use {min(line, key=distance).name}."
