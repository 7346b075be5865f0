"""Retention settings, read from the block they live in."""

from __future__ import annotations

from pathlib import Path

import pytest

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError

BLOCK = """
include_history: true
history_limit: 5
conversation:
  other: 1
  retention:
    preserve_turns: 3
    max_loaded_messages: 40
    persist_tool_invocations: trimmed
    prune_tools_for_llm: false
    preserve_tools_for_latest_turns: false
"""


def test_defaults() -> None:
    config = RetentionConfig()
    assert config.preserve_turns == 2
    assert config.persist_tool_invocations == "full"
    assert config.prune_tools_for_llm
    assert config.preserve_tools_for_latest_turns
    assert config.max_loaded_messages is None


def test_the_block_in_a_larger_file(tmp_path: Path) -> None:
    path = tmp_path / "llm_config.yaml"
    path.write_text(BLOCK, encoding="utf-8")
    assert RetentionConfig.from_file(path) == RetentionConfig(
        preserve_turns=3,
        max_loaded_messages=40,
        persist_tool_invocations="trimmed",
        prune_tools_for_llm=False,
        preserve_tools_for_latest_turns=False,
    )


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (True, "full"),
        (False, "none"),
        (None, "none"),
        ("none", "none"),
        ("full", "full"),
        ("Trimmed", "trimmed"),
    ],
)
def test_switches_for_tool_persistence(written: bool | str | None, means: str) -> None:
    config = RetentionConfig.from_dict({"persist_tool_invocations": written})
    assert config.persist_tool_invocations == means


def test_fields_alone_and_empty_block() -> None:
    assert RetentionConfig.from_dict({"preserve_turns": 1}).preserve_turns == 1
    assert RetentionConfig.from_dict({"conversation": {"retention": None}}) == RetentionConfig()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"persist_tool_invocations": "some"}, "'full', 'trimmed' or 'none'"),
        ({"preserve_turn": 3}, "did you mean 'preserve_turns'"),
        ({"preserve_turns": -1}, "preserve_turns: .*greater"),
        (
            {"conversation": {"retention": {"preserve_turns": "x"}}},
            r"conversation\.retention\.preserve_turns",
        ),
        ({"conversation": {"retention": 3}}, "expected a mapping"),
    ],
)
def test_errors_say_where_and_what(data: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RetentionConfig.from_dict(data)
