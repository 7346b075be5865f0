"""The results of a replay: one row for each policy as text, page, DataFrame or JSON, and a plot."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from history_curator.entries import write_private
from history_curator.errors import ConfigurationError
from history_curator.lab.conversations import import_extra

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Table(NamedTuple):
    """A first column of text, columns of numbers, a last one of text where ``text_last`` says so."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_last: bool = False
    faded: frozenset[int] = frozenset()

    def to_rich(self, **style: Any) -> RichTable:
        """Return the table as rich draws it."""
        from rich.table import Table as RichTable
        from rich.text import Text

        options: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold"}
        drawn = RichTable(**{**options, "title_justify": "left", **style})
        texts = {0, len(self.heads) - 1} if self.text_last else {0}
        for number, head in enumerate(self.heads):
            if number in texts:
                drawn.add_column(head, overflow="fold", min_width=None if number else 8)
            else:
                drawn.add_column(head, justify="right", no_wrap=True)
        for number, row in enumerate(self.rows):
            colour = "bright_black" if number in self.faded else None
            drawn.add_row(*map(Text, row), style=colour)
        return drawn

    def to_text(self) -> str:
        """Return the table as plain lines."""
        console = import_extra("rich.console", "cli").Console(width=300, color_system=None)
        with console.capture() as captured:
            console.print(self.to_rich())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 call`` or ``1,200 calls``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_number(number: float) -> str:
    """Return a number of tokens in short, such as ``1.25M`` or ``980.00k``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(round(number))


def render_page(title: str, values: Mapping[str, Any]) -> str:
    """Return one HTML page without scripts; text from logs stays text.

    ``values`` holds any of ``heading subline sentences tables legend notes``.
    """
    jinja2, folder = import_extra("jinja2", "cli"), files("history_curator.lab")
    style = (folder / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined)
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page: str = template.render(title=title, style=style, policy=policy, **values)
    return page


@dataclass(slots=True)
class PolicyResult:
    """The sums of one policy over one conversation, or over all.

    Attributes:
        used_before, made_again, edited: what the conversations hold, whatever the policy did:
            identifiers that an earlier message held, calls made again, edits of lines shown before.
        views: calls for which the policy gave a view; for the others it ``failed``.
        hidden: tokens sent that the record lacks; they use no budget.
        costs: by price sheet; ``cost`` is that of the sheet named ``pricing``.
        invalid, over_budget: requests that the provider's rules refuse, or above the budget.
        lost_identifiers, identifiers: argument values that were visible only in messages left
            out, of all that an earlier message held.
        repeated_calls, repeats: calls made again whose earlier result was left out, of all.
        edits_seen, edits: edit calls whose old lines were all in the view, of all whose old lines
            had been shown.
    """

    name: str
    conversation: str = ""
    max_tokens: int | None = None
    pricing: str = "none"
    conversations: int = 1
    calls: int = 0
    used_before: int = 0
    made_again: int = 0
    edited: int = 0
    views: int = 0
    failed: int = 0
    tokens_sent: int = 0
    hidden: int = 0
    peak: int = 0
    cached: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    over_budget: int = 0
    invalid: int = 0
    identifiers: int = 0
    lost_identifiers: int = 0
    repeats: int = 0
    repeated_calls: int = 0
    edits: int = 0
    edits_seen: int = 0
    seconds: float = 0.0
    note: str = ""

    def add(self, other: PolicyResult) -> None:
        """Add the sums of another conversation."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = max(self.peak, other.peak)
        self.note = other.note or self.note
        for sheet, cost in other.costs.items():
            self.costs[sheet] = self.costs.get(sheet, 0.0) + cost

    @property
    def measured(self) -> bool:
        """Whether the policy could be run at all."""
        return self.views + self.failed > 0

    @property
    def cost(self) -> float:
        """The cost by the chosen price sheet."""
        return self.costs.get(self.pricing, 0.0)

    @property
    def budget_use(self) -> float | None:
        """The mean request over the budget, or None without one."""
        if not self.max_tokens or not self.views:
            return None
        return (self.tokens_sent - self.hidden) / self.views / self.max_tokens

    @property
    def cached_share(self) -> float:
        """Tokens that repeat the start of the request before, over tokens sent."""
        return self.cached / self.tokens_sent if self.tokens_sent else 0.0

    @property
    def ms_per_view(self) -> float:
        """The mean time to make a view."""
        return 1000 * self.seconds / self.views if self.views else 0.0

    @property
    def missed(self) -> float:
        """Share of what later calls needed that the view no longer had."""
        needed = self.identifiers + self.repeats
        return (self.lost_identifiers + self.repeated_calls) / needed if needed else 0.0

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
        return {**asdict(self), **{name: getattr(self, name) for name in _DERIVED}}


_SUMMED = [
    each.name
    for each in fields(PolicyResult)
    if each.type in ("int", "float") and each.name not in ("conversations", "peak")
]
_DERIVED = ("cost", "budget_use", "cached_share", "ms_per_view", "missed", "edits_share")


def _percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


_COLUMNS: dict[str, tuple[str, Callable[[PolicyResult], str]]] = {
    "sent": ("tokens over all calls", lambda p: short_number(p.tokens_sent)),
    "peak": ("the largest request, tokens", lambda p: f"{p.peak:,}"),
    "budget": ("the mean request, of the budget", lambda p: _percent(p.budget_use)),
    "cached": ("sent tokens that repeat the request before", lambda p: _percent(p.cached_share)),
    "cost": ("millions of input tokens at full price", lambda p: f"{p.cost:.3f}"),
    "missed": ("of what later calls used, not in view any more", lambda p: _percent(p.missed, 1)),
    "edits": ("edit calls whose old lines are all in view", lambda p: _percent(p.edits_share)),
    "invalid": ("requests the provider's rules refuse", lambda p: f"{p.invalid:,}"),
    "over": ("requests above the budget", lambda p: f"{p.over_budget:,}"),
    "refused": ("calls for which the policy gave no view", lambda p: f"{p.failed:,}"),
    "lost ids": ("identifiers used later, not in view", lambda p: f"{p.lost_identifiers:,}"),
    "re-calls": ("calls made again, first result not in view", lambda p: f"{p.repeated_calls:,}"),
    "ms/view": ("mean time to make one view", lambda p: f"{p.ms_per_view:.2f}"),
}
"""The meaning and the text of each column, by its heading."""
_DECIDING = ("sent", "cached", "cost", "missed", "edits", "invalid", "over", "refused")


@dataclass(frozen=True, repr=False)
class ReplayResults:
    """All policies of one replay, in the order they were given.

    `print(results)` is a table; so is the object itself at the end of a notebook cell.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], {"all": "no curation"}, progress=False, executor="serial")
        >>> results["all"].calls, results.recommend()
        (1, 'all')

    Attributes:
        policies: results by policy name.
        tallies: for each policy its results on each conversation.
        pricing: the price sheet behind ``cost``.
        provider: the rules behind ``invalid``.
        seconds: how long the replay took.
    """

    policies: Mapping[str, PolicyResult]
    tallies: Mapping[str, Sequence[PolicyResult]] = field(repr=False)
    pricing: str
    provider: str
    seconds: float

    def __getitem__(self, name: str) -> PolicyResult:
        return self.policies[name]

    def table(self, *, full: bool = False) -> Table:
        """Return the table of the columns that decide, or with ``full`` of all columns."""
        results = list(self.policies.values())
        heads = [head for head in _COLUMNS if full or head in _DECIDING]
        if not any(each.edits for each in results):
            heads.remove("edits")
        rows = []
        for each in results:
            name = each.name if each.measured else f"{each.name} (skipped)"
            rows.append([name, *(_COLUMNS[h][1](each) if each.measured else "–" for h in heads)])
        faded = frozenset(number for number, each in enumerate(results) if not each.sound)
        return Table("", ["policy", *heads], rows, faded=faded)

    def columns(self, *, full: bool = False) -> list[str]:
        """Return the headings of the table."""
        return list(self.table(full=full).heads)

    def legend(self, *, full: bool = False) -> dict[str, str]:
        """Return the meaning of each heading, units included."""
        return {head: _COLUMNS[head][0] for head in self.columns(full=full)[1:]}

    def describe_run(self) -> str:
        """Return what was replayed and how, in one line."""
        talks = count_of(len(next(iter(self.tallies.values()), ())), "conversation")
        return f"{self.pricing} prices, {self.provider} rules, {talks} in {self.seconds:.1f} s"

    def notes(self) -> list[str]:
        """Return one line about what later calls needed, and one for each policy that failed."""
        talks = next(iter(self.tallies.values()), ())  # these sums are the same for each policy
        calls, used, again, edited = (
            count_of(sum(getattr(each, key) for each in talks), noun)
            for key, noun in (("calls", "call"), ("used_before", "identifier"),
                              ("made_again", "call"), ("edited", "time"))
        )  # fmt: skip
        needed = (
            f"{calls} in {count_of(len(talks), 'conversation')}; later calls used {used} said "
            f"before, repeated {again} and edited {edited}"
        )
        return [needed, *(f"{p.name}: {p.note}" for p in self.policies.values() if p.note)]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([self.table().to_text(), *self.notes()])

    def _repr_html_(self) -> str:
        table = self.table()
        frame = import_extra("pandas").DataFrame(table.rows, columns=table.heads)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return f"{frame.to_html(index=False)}{notes}"

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the results as JSON text, and write it to ``path`` when one is given."""
        rows = [result.to_dict() for result in self.policies.values()]
        data = {"pricing": self.pricing, "provider": self.provider, "policies": rows}
        return write_if_named(json.dumps(data, indent=2), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the table as Markdown, and write it to ``path`` when one is given."""
        table = self.table(full=True)
        rules = ["---", *["---:"] * (len(table.heads) - 1)]
        lines = [f"| {' | '.join(map(str, row))} |" for row in (table.heads, rules, *table.rows)]
        lines += ["", *(f"- {note}" for note in self.notes())]
        return write_if_named("\n".join(lines), path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page with the recommendation, the table and its legend."""
        grey = "Grey rows: a request was invalid, over the budget or not made."
        values = {
            "heading": f"Use {self.recommend()}", "subline": self.describe_run(),
            "tables": [self.table(full=True)], "legend": self.legend(full=True),
            "notes": [grey, *self.notes()],
        }  # fmt: skip
        return write_private(path, render_page("Policies compared", values))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row for each policy; ``costs.anthropic`` is a column."""
        rows = [result.to_dict() for result in self.policies.values()]
        return import_extra("pandas").json_normalize(rows).set_index("name")

    def to_parquet(self, path: str | Path) -> None:
        """Write one row for each policy and conversation as a Parquet file."""
        import_extra("pyarrow", "scale")
        rows = [each.to_dict() for some in self.tallies.values() for each in some]
        import_extra("pandas").json_normalize(rows).to_parquet(str(path))

    def frontier(self) -> list[str]:
        """Return the sound policies no other beats on both cost and missed, cheapest first.

        Where no policy is sound, those that gave every view are compared.
        """
        measured = [each for each in self.policies.values() if each.measured and each.tokens_sent]
        sound = [each for each in measured if each.sound]
        candidates = sound or [each for each in measured if not each.failed] or measured
        best: list[PolicyResult] = []
        for each in sorted(candidates, key=lambda one: (one.cost, one.missed)):
            if not best or each.missed < best[-1].missed:
                best.append(each)
        return [each.name for each in best]

    def recommend(self, max_missed: float | None = None) -> str:
        """Return the name of the policy on the frontier to use.

        Without ``max_missed`` it is the one nearest to the best cost and the best missed at once;
        with it the cheapest within, or when none is, the one that loses least.

        Raises:
            ConfigurationError: when there is no measurement to judge by.
        """
        line = [self.policies[name] for name in self.frontier()]
        if not line:
            notes = "; ".join(f"{p.name}: {p.note}" for p in self.policies.values() if p.note)
            raise ConfigurationError(
                f"no policy made a single request. {notes or 'No message answers another one.'} "
                "Fix: pass conversations that a model has answered, and policies that can run."
            )
        first, last = line[0], line[-1]
        if max_missed is not None:
            return next((each.name for each in line if each.missed <= max_missed), last.name)
        across, up = last.cost - first.cost or 1.0, first.missed - last.missed or 1.0
        distances = [
            hypot((p.cost - first.cost) / across, (p.missed - last.missed) / up) for p in line
        ]
        return line[distances.index(min(distances))].name


def write_if_named(text: str, path: str | Path | None) -> str:
    """Return a text, and write it where a path is given."""
    if path is not None:
        write_private(path, text + "\n")
    return text


def plot_frontier(results: ReplayResults, ax: Any = None) -> Any:
    """Draw cost against missed; the line joins the policies that no other beats on both.

    A policy that broke its budget or the provider's rules is drawn hollow.
    """
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot").subplots(figsize=(8, 4.5), layout="constrained")
    line = [results[name] for name in results.frontier()]
    ax.plot([p.cost for p in line], [100 * p.missed for p in line], color="#9aa3b2", linewidth=1)
    for number, each in enumerate(each for each in results.policies.values() if each.measured):
        colour, place = f"C{number}", (each.cost, 100 * each.missed)
        face = colour if each.sound else "none"
        ax.scatter(*place, s=70, facecolor=face, edgecolor=colour, linewidth=1.6, zorder=2)
        offset = (7, 5 - 12 * (number % 2))
        ax.annotate(each.name, place, xytext=offset, textcoords="offset points", fontsize=9)
    ax.margins(0.15)
    ax.set(xlabel=f"cost ({results.pricing})", ylabel="missed, % of what was needed later")
    ax.set_title("Cost and missed (lower left is better)")
    return ax
