"""What the adapters cost over the core, for a whole session."""

from __future__ import annotations

from benchmarks import _ours
from benchmarks._conversation import as_langchain, as_llamaindex, conversation
from benchmarks._measure import Contender, Race
from benchmarks._settings import Settings
from benchmarks._table import Row, Target
from benchmarks.session import grow, put_and_get

LIMIT = Target("<=", 1.5)


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    n = settings.session
    dicts = conversation(n)
    langchain, llamaindex = as_langchain(dicts), as_llamaindex(dicts)
    race = Race(
        [
            Contender("core", "", lambda: grow(_ours.core, dicts)),
            Contender("LangChain messages", "", lambda: grow(_ours.langchain_messages, langchain)),
            Contender("`HistoryCurator.invoke`", "", lambda: grow(_ours.langchain, langchain)),
            Contender(
                "LlamaIndex messages", "", lambda: grow(_ours.llamaindex_messages, llamaindex)
            ),
            Contender("`CuratedMemory.put` + `.get`", "", lambda: put_and_get(llamaindex)),
        ],
        max(settings.rounds, 3) if settings.rounds > 1 else 1,
    )
    return [
        Row(
            f"adapter overhead, {one.name}",
            "the core on dicts, the same session",
            race.ratio(one.name, "core"),
            target=LIMIT,
            n=n,
            part="adapters",
        )
        for one in race.contenders[1:]
    ]
