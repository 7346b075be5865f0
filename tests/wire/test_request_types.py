"""The official clients' own types of a request take what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from history_curator import BudgetUnsatisfiableError, Curator
from tests.wire.generators import draw

VIEWS = 200
TYPES = {
    "chat": ("openai", "openai.types.chat", "ChatCompletionMessageParam"),
    "responses": ("openai-responses", "openai.types.responses", "ResponseInputItemParam"),
    "anthropic": ("anthropic", "anthropic.types.beta", "BetaMessageParam"),
    "gemini": ("gemini", "google.genai.types", "Content"),
}
"""The provider of a wire, and the type of one message in its client."""


def views(wire, provider):
    """Views of conversations that are valid, or broken in their order, without system prompts."""
    for number in range(VIEWS):
        if number % 3 == 2:
            continue
        budget = (None, 2_000)[number % 2]
        try:
            view = Curator(provider=provider, max_tokens=budget).curate(draw(wire, number)).messages
        except BudgetUnsatisfiableError:
            continue
        beside = ("system",) if wire not in ("chat", "responses") else ()
        yield number, [message for message in view if message.get("role") not in beside]


def refusals(adapter: TypeAdapter[Any], message: Any) -> list[str]:
    """What the types find wrong, in the one member of a union that is closest."""
    try:
        adapter.validate_python(message)
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for each in error.errors():
            found.setdefault(str(each["loc"][0]), []).append(f"{each['loc']}: {each['msg']}")
        return min(found.values(), key=len)
    return []


@pytest.mark.parametrize("wire", TYPES)
def test_every_message_of_a_view(wire):
    provider, module, name = TYPES[wire]
    adapter = TypeAdapter(getattr(pytest.importorskip(module), name))
    for number, view in views(wire, provider):
        for message in view:
            # OpenAI takes answers without ids, which its types do not know.
            is_answer = message.get("role") == "assistant" and isinstance(message["content"], list)
            named = {"id": "msg_1", "status": "completed"}
            item = {**named, **message} if wire == "responses" and is_answer else message
            assert refusals(adapter, item) == [], (number, message)


def test_bedrock_converse():
    session = pytest.importorskip("botocore.session")
    validate = pytest.importorskip("botocore.validate")
    loaded = session.get_session().get_service_model("bedrock-runtime")
    shape = loaded.operation_model("Converse").input_shape
    for number, view in views("bedrock", "bedrock"):
        report = validate.ParamValidator().validate({"modelId": "m", "messages": view}, shape)
        assert not report.has_errors(), f"{number}: {report.generate_report()}"


def test_the_types_do_refuse():
    types = pytest.importorskip("openai.types.chat")
    with pytest.raises(ValidationError):
        TypeAdapter(types.ChatCompletionMessageParam).validate_python({"role": "robot"})
