from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import Curator
from history_curator.caching import (
    CacheEmulator,
    CachePlan,
    Mark,
    anthropic_marks,
    apply_anthropic,
    apply_bedrock,
    apply_openai,
    plan_cache,
)
from history_curator.errors import ConfigurationError
from history_curator.entries import ConversationEntry, MessageRole, ToolCall

S, U, A, T = MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


def view(roles: str) -> list[ConversationEntry]:
    kinds = {"s": S, "u": U, "a": A, "t": T}
    return [ConversationEntry(kinds[role], f"text {at}") for at, role in enumerate(roles)]


def plan(roles: str, size: int = 1_000, **options: Any) -> CachePlan:
    entries = view(roles)
    given = {"prefix_entries": len(entries), "pricing": "anthropic", "heads": 0, **options}
    return plan_cache(entries, [size] * len(entries), **given)


def places(made: CachePlan) -> list[tuple[str, int]]:
    return [(each.place, each.after) for each in made.breakpoints]


class TestPlaces:
    def test_front_and_prefix(self) -> None:
        assert places(plan("suau", 2_000)) == [("front", 1), ("prefix", 4)]

    def test_heads_that_survive_a_jump(self) -> None:
        made = plan("suuatatu", 2_000, heads=2)
        assert places(made) == [("front", 1), ("heads", 2), ("prefix", 8)]

    def test_the_first_question_is_a_head(self) -> None:
        made = plan("suatatu", 2_000, heads=None)
        assert places(made) == [("front", 1), ("heads", 2), ("prefix", 7)]
        assert places(plan("satatu", 2_000, heads=None)) == [("front", 1), ("prefix", 6)]

    def test_tools_without_a_system_prompt(self) -> None:
        assert places(plan("uau", 2_000, tools_tokens=3_000)) == [("front", 0), ("prefix", 3)]

    def test_the_request_before_when_it_is_out_of_sight(self) -> None:
        entries = view("su")
        calls = tuple(ToolCall(f"c{n}", "look") for n in range(30))
        entries.append(ConversationEntry(A, None, tool_calls=calls))
        entries += [ConversationEntry(T, "r", tool_call_id=f"c{n}") for n in range(30)]
        made = plan_cache(entries, [2_000] * 33, prefix_entries=33, pricing="anthropic", heads=0)
        assert places(made) == [("front", 1), ("last request", 2), ("prefix", 33)]
        openai = plan_cache(entries, [2_000] * 33, prefix_entries=33, pricing="openai", heads=0)
        assert places(openai) == [("front", 1), ("prefix", 33)]

    def test_nothing_below_the_least_prefix(self) -> None:
        assert places(plan("suau", 300)) == [("prefix", 4)]
        assert places(plan("suau", 100)) == []
        assert places(plan("suau", 1_500, pricing="claude-opus-4-6")) == [("prefix", 4)]

    def test_a_provider_without_breakpoints_gets_a_key(self) -> None:
        made = plan("suau", 5_000, pricing="openai-free-write")
        assert made.breakpoints == ()
        assert len(made.key) == 32

    def test_the_key_names_the_conversation(self) -> None:
        assert plan("sua").key == plan("suauau").key
        assert plan("sua").key != plan("ua").key


class TestOthers:
    def test_they_count(self) -> None:
        others = [Mark(0, 300), Mark(1, 300), Mark(4, 300)]
        assert places(plan("suauau", 2_000, others=others)) == [("prefix", 6)]
        assert places(plan("suauau", 2_000, others=[*others, Mark(3, 300)])) == []

    def test_a_place_that_is_marked_is_left_alone(self) -> None:
        assert places(plan("suau", 2_000, others=[Mark(4, 300)])) == [("front", 1)]

    def test_ours_last_as_long_as_what_stands_behind_them(self) -> None:
        made = plan("suau", 2_000, others=[Mark(4, 3600)])
        assert [each.ttl for each in made.breakpoints] == [3600]

    def test_ours_do_not_outlast_what_stands_before_them(self) -> None:
        made = plan("suau", 2_000, others=[Mark(0, 300)], ttl=3600)
        assert [each.ttl for each in made.breakpoints] == [300, 300]

    def test_between_a_short_and_a_long_one_there_is_no_place(self) -> None:
        assert places(plan("suau", 2_000, others=[Mark(0, 300), Mark(4, 3600)])) == []

    @given(
        st.text("uat", min_size=1, max_size=12),
        st.lists(st.tuples(st.integers(0, 13), st.sampled_from([300.0, 3600.0])), max_size=5),
        st.sampled_from([None, 300.0, 3600.0]),
        st.integers(0, 14),
        st.integers(0, 14),
    )
    def test_always_within_the_rules(
        self, roles: str, others: list[Any], ttl: Any, prefix: int, heads: int
    ) -> None:
        entries = view("s" + roles)
        # what others set is in order by itself, as a request has to be
        ttls = sorted((ttl for _, ttl in others), reverse=True)
        ats = sorted(min(at, len(entries)) for at, _ in others)
        marks = [Mark(at, lasting) for at, lasting in zip(ats, ttls, strict=True)]
        made = plan_cache(
            entries, [700] * len(entries), prefix_entries=prefix, heads=heads,
            pricing="anthropic", others=marks, ttl=ttl,
        )  # fmt: skip
        assert len(made.breakpoints) + min(len(marks), 4) <= 4
        assert all(each.tokens >= 1024 for each in made.breakpoints)
        together = sorted([(m.after, -m.ttl) for m in marks]
                          + [(each.after, -each.ttl) for each in made.breakpoints])  # fmt: skip
        lasting = [-each for _, each in together]
        assert lasting == sorted(lasting, reverse=True)
        assert not {m.after for m in marks} & {each.after for each in made.breakpoints}


MESSAGES = [
    {"role": "user", "content": "a question"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"}]},
]  # fmt: skip


class TestApply:
    def entries(self) -> list[ConversationEntry]:
        return view("suatt")

    def made(self, **options: Any) -> CachePlan:
        return plan_cache(
            self.entries(),
            [2_000] * 5,
            prefix_entries=5,
            **{"pricing": "anthropic", "heads": 0, **options},
        )

    def test_anthropic(self) -> None:
        before = repr(MESSAGES)
        out = apply_anthropic(MESSAGES, self.made(), system="rules", tools=[{"name": "look"}])
        assert out["system"] == [
            {"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}
        ]
        assert "cache_control" in out["messages"][2]["content"][1]
        assert "cache_control" not in out["messages"][2]["content"][0]
        assert out["messages"][0] is MESSAGES[0]
        assert repr(MESSAGES) == before

    def test_anthropic_takes_what_is_there_into_account(self) -> None:
        marked = [*MESSAGES[:2], {"role": "user", "content": [
            MESSAGES[2]["content"][0],
            {**MESSAGES[2]["content"][1], "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}]  # type: ignore[index, dict-item]  # fmt: skip
        others = anthropic_marks(marked, lead=1)
        assert others == [Mark(5, 3600.0)]
        out = apply_anthropic(marked, self.made(others=others), system="rules")
        assert out["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}

    def test_tools_when_there_is_no_system_prompt(self) -> None:
        made = plan_cache(view("uatt"), [2_000] * 4, prefix_entries=4, pricing="anthropic",
                          tools_tokens=2_000)  # fmt: skip
        out = apply_anthropic(MESSAGES, made, tools=[{"name": "a"}, {"name": "b"}])
        assert out["tools"] == [
            {"name": "a"}, {"name": "b", "cache_control": {"type": "ephemeral"}}]  # fmt: skip

    def test_bedrock(self) -> None:
        said = [{"role": "user", "content": [{"text": "hello"}]},
                {"role": "assistant", "content": [{"text": "hi"}]},
                {"role": "user", "content": [{"text": "and?"}]}]  # fmt: skip
        made = plan_cache(view("suau"), [2_000] * 4, prefix_entries=4, pricing="anthropic")
        out = apply_bedrock(said, made, system=[{"text": "rules"}])
        assert out["system"][-1] == {"cachePoint": {"type": "default"}}
        assert out["messages"][-1]["content"][-1] == {"cachePoint": {"type": "default"}}

    def test_openai(self) -> None:
        said = [{"role": "system", "content": "rules"}, {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "hi"}, {"role": "user", "content": "and?"}]  # fmt: skip
        made = plan_cache(view("suau"), [2_000] * 4, prefix_entries=3, pricing="gpt-5.6")
        out = apply_openai(said, made)
        explicit = {"prompt_cache_breakpoint": {"mode": "explicit"}}
        assert out["messages"][0]["content"] == [{"type": "text", "text": "rules", **explicit}]
        assert out["messages"][1]["content"] == [{"type": "text", "text": "hello", **explicit}]
        assert out["messages"][2] == said[2]  # an answer carries no mark
        assert out["messages"][3]["content"] == [{"type": "text", "text": "and?", **explicit}]
        assert out["prompt_cache_key"] == made.key

    def test_the_end_is_marked_also_where_nobody_promises_that_it_stays(self) -> None:
        made = plan_cache(view("suaua"), [2_000] * 5, prefix_entries=2, pricing="anthropic")
        places = [(each.place, each.after) for each in made.breakpoints]
        assert places == [("front", 1), ("heads", 2), ("end", 5)]

    def test_openai_before_breakpoints(self) -> None:
        said = [{"role": "user", "content": "hello"}]
        made = plan_cache(view("u"), [2_000], prefix_entries=1, pricing="gpt-5.5")
        assert apply_openai(said, made)["messages"] == said

    def test_messages_of_another_view_are_left_alone(self) -> None:
        out = apply_anthropic(MESSAGES[:1], self.made(), system="rules")
        assert out["messages"] == MESSAGES[:1]


LONG = "word " * 5_000


def marks(given: Any) -> list[Any]:
    """What a request is marked with, wherever it stands."""
    if isinstance(given, dict):
        names = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
        own = [given[name] for name in names if name in given]
        return own + [each for value in given.values() for each in marks(value)]
    return [each for one in given for each in marks(one)] if isinstance(given, list) else []


class TestOfAView:
    """`report.cache_plan` in requests that others have marked already."""

    @pytest.mark.parametrize("marked", [(), (1,), (1, 3), (1, 3, 5), (0, 1, 3, 5)])
    @pytest.mark.parametrize(
        ("provider", "model", "apply"),
        [
            ("anthropic", "claude-opus-4-6", apply_anthropic),
            ("bedrock", "claude-opus-4-6", apply_bedrock),
            ("openai", "gpt-5.6", apply_openai),
        ],
    )
    def test_never_more_than_four_in_all(
        self, provider: str, model: str, apply: Any, marked: tuple[int, ...]
    ) -> None:
        def said(number: int, text: str) -> list[dict[str, Any]]:
            block = {"text": text} if provider == "bedrock" else {"type": "text", "text": text}
            if number not in marked:
                return [block]
            if provider == "bedrock":
                return [block, {"cachePoint": {"type": "default"}}]
            name = "cache_control" if provider == "anthropic" else "prompt_cache_breakpoint"
            return [{**block, name: {"type": "ephemeral"}}]

        talk: list[Any] = []
        for number in range(6):
            talk.append({"role": "user", "content": said(number, f"{number} {LONG}")})
            answer = {"text": "ok"} if provider == "bedrock" else {"type": "text", "text": "ok"}
            talk.append({"role": "assistant", "content": [answer]})
        talk.append({"role": "user", "content": said(6, "so?")})
        curation = Curator(max_tokens=100_000, provider=provider, counter=model).curate(talk)
        plan = curation.report.cache_plan
        assert len(plan.breakpoints) > 1
        before, out = repr(talk), apply(curation.messages, plan)
        assert len(marks(out["messages"])) == min(4, len(marked) + len(plan.breakpoints) - (
            0 in marked and any(each.after == 1 for each in plan.breakpoints)))  # fmt: skip
        kept = [at for at, each in enumerate(out["messages"]) if marks(each)]
        assert {2 * number for number in marked} <= set(kept)
        if len(marked) < 4:  # the end is worth most
            assert kept[-1] == len(talk) - 1
        assert repr(talk) == before


def block(name: str, *, mark: str | None = None, size: int = 600) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "text", "text": f"{name} " + "x" * size}
    if mark:
        made["cache_control"] = {"type": "ephemeral", "ttl": mark}
    return made


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


class TestEmulator:
    def cache(self, model: str = "claude-opus-5") -> CacheEmulator:
        return CacheEmulator(model, count=len)

    def read(self, cache: CacheEmulator, at: float, *blocks: dict[str, Any]) -> int:
        return int(cache.send({"messages": [user(*blocks)]}, at=at)["cache_read_input_tokens"])

    def test_a_growing_request_reads_what_the_last_one_wrote(self) -> None:
        cache = self.cache()
        first = cache.send({"messages": [user(block("a", mark="5m"))]}, at=0)
        assert first["cache_creation_input_tokens"] > 600
        assert first["input_tokens"] == first["cache_read_input_tokens"] == 0
        again = self.read(cache, 10, block("a"), block("b", mark="5m"))
        assert again == first["cache_creation_input_tokens"]

    def test_only_marked_places_are_remembered(self) -> None:
        cache = self.cache()
        self.read(cache, 0, block("a"), block("b", mark="5m"))
        assert self.read(cache, 1, block("a"), block("c", mark="5m")) == 0

    def test_it_looks_back_twenty_blocks(self) -> None:
        for added, found in ((19, True), (20, False)):
            cache = self.cache()
            self.read(cache, 0, block("a", mark="5m"))
            more = [block(str(each)) for each in range(added - 1)]
            read = self.read(cache, 1, block("a"), *more, block("end", mark="5m"))
            assert bool(read) is found

    def test_the_least_prefix(self) -> None:
        cache = self.cache("claude-opus-4-6")
        self.read(cache, 0, block("a", mark="5m"))
        assert self.read(cache, 1, block("a", mark="5m")) == 0

    def test_time_runs_out_and_reading_renews(self) -> None:
        cache = self.cache()
        said = block("a", mark="5m")
        assert [bool(self.read(cache, at, said)) for at in (0, 200, 400, 699, 1_000)] == [
            False, True, True, True, False]  # fmt: skip
        hour = block("h", mark="1h")
        assert [bool(self.read(cache, at, hour)) for at in (0, 3_000)] == [False, True]

    def test_what_the_provider_refuses(self) -> None:
        with pytest.raises(ConfigurationError, match="at most 4"):
            self.read(self.cache(), 0, *(block(str(n), mark="5m") for n in range(5)))
        with pytest.raises(ConfigurationError, match="in front of a longer"):
            self.read(self.cache(), 0, block("a", mark="5m"), block("b", mark="1h"))

    def test_another_role_or_tool_is_another_prefix(self) -> None:
        cache = self.cache()
        said = user(block("a", mark="5m"))
        cache.send({"tools": [{"name": "t"}], "messages": [said]}, at=0)
        other = cache.send({"tools": [{"name": "u"}], "messages": [said]}, at=1)
        assert other["cache_read_input_tokens"] == 0

    def test_cost(self) -> None:
        cache = self.cache()
        used = cache.send({"messages": [user(block("a", mark="1h"), block("b"))]}, at=0)
        written, plain = used["cache_creation_input_tokens"], used["input_tokens"]
        assert cache.cost(used) == pytest.approx((2 * written + plain) * 5 / 1e6)
