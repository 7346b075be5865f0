"""Mistral's own validator takes what we repair."""

from __future__ import annotations

import pytest
from hypothesis import given

from history_curator.rules import repair_conversation
from history_curator.testing import SEQUENCES, parse
from tests.support.strategies import broken_conversations

pytest.importorskip("mistral_common", reason="mistral_common is not installed")

from mistral_common.protocol.instruct.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall
from mistral_common.protocol.instruct.validator import (
    ValidationMode,
    get_validator,
)
from mistral_common.tokens.tokenizers.base import TokenizerVersion

VERSIONS = ["v7", "v11", "v13"]
CASES = [pytest.param(given, id=str(number)) for number, (given, _) in enumerate(SEQUENCES, 1)]


def to_mistral(message):
    role, content = message["role"], message["content"]
    if isinstance(content, list):
        content = "\n".join(block.get("text") or "[image]" for block in content)
    if role == "system":
        return SystemMessage(content=content)
    if role == "user":
        return UserMessage(content=content)
    if role == "tool":
        return ToolMessage(
            content=content, tool_call_id=message["tool_call_id"], name=message.get("name")
        )
    calls = [
        ToolCall(id=call["id"], function=FunctionCall(**call["function"]))
        for call in message.get("tool_calls", ())
    ]
    return AssistantMessage(content=content, tool_calls=calls or None)


def validate(messages, version):
    validator = get_validator(TokenizerVersion(version), ValidationMode.serving)
    validator.validate_messages([to_mistral(message) for message in messages])


@pytest.mark.parametrize("sequence", CASES)
def test_every_repaired_sequence_is_taken(sequence):
    for version in VERSIONS:
        validate(repair_conversation(parse(sequence), "mistral"), version)
    # Portable ids are longer than nine characters, which only the newest tokenizer takes.
    validate(repair_conversation(parse(sequence), "portable"), "v13")


@given(messages=broken_conversations())
def test_every_repaired_conversation_is_taken(messages):
    for version in VERSIONS:
        validate(repair_conversation(messages, "mistral"), version)
    validate(repair_conversation(messages, "portable"), "v13")


def test_the_validator_does_refuse():
    with pytest.raises(Exception, match="function calls and responses"):
        validate(parse("U A(callnum01) U"), "v11")
