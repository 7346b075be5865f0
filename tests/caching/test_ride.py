from __future__ import annotations

import pytest

from history_curator import Curator
from history_curator.caching import CacheEmulator, apply_anthropic, plan_of, ride_cache


class TestRideCache:
    def test_everything_but_the_instruction_is_read(self) -> None:
        messages = [
            {"role": "user", "content": "look at " + "this text " * 900},
            {"role": "assistant", "content": "I did."},
            {"role": "user", "content": "And?"},
        ]
        curation = Curator(max_tokens=10_000).curate(messages)
        plan = plan_of(curation, pricing="claude-opus-5")
        cache = CacheEmulator("claude-opus-5", count=len)
        request = {**apply_anthropic(curation.messages, plan), "system": "rules"}
        held = cache.send(request, at=0)["cache_creation_input_tokens"]
        asked = ride_cache(curation, "Summarise what was said.")
        used = cache.send(
            {**request, "messages": apply_anthropic(asked[:-1], plan)["messages"] + asked[-1:]},
            at=10,
        )
        assert used["cache_read_input_tokens"] == held > 9_000
        assert used["input_tokens"] < 600

    def test_the_view_is_not_touched(self) -> None:
        said = [{"role": "user", "content": "hi"}]
        asked = ride_cache(said, "Sum up.")
        assert asked[0] is said[0]
        assert len(said) == 1

    @pytest.mark.parametrize("framework", ["langchain_core", "llama_index.core"])
    def test_in_the_format_of_the_view(self, framework: str) -> None:
        pytest.importorskip(framework)
        if framework == "langchain_core":
            from langchain_core.messages import HumanMessage as Message

            import langchain_history_curator  # noqa: F401 - registers the format

            said = [Message("hi")]
        else:
            from llama_index.core.llms import ChatMessage

            import llamaindex_history_curator  # noqa: F401 - registers the format

            said = [ChatMessage("hi")]  # type: ignore[list-item]
        asked = ride_cache(said, "Sum up.")
        assert type(asked[1]) is type(said[0])
        assert asked[1].content == "Sum up."
