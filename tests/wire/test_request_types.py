"""The official clients' own types of a request take what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from history_curator import BudgetUnsatisfiableError, Curator
from tests.wire.generators import draw

VIEWS = 200


def views(wire, provider):
    """Views of conversations that are valid, or broken in their order."""
    for number in range(VIEWS):
        if number % 3 == 2:
            continue
        budget = (None, 2_000)[number % 2]
        try:
            view = Curator(provider=provider, max_tokens=budget).curate(draw(wire, number)).messages
        except BudgetUnsatisfiableError:
            continue
        yield number, view


def is_answer(item):
    """Return whether an item is an answer in blocks."""
    return item.get("role") == "assistant" and isinstance(item["content"], list)


def without_system(messages):
    return [message for message in messages if message["role"] != "system"]


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


def test_openai_chat_completions():
    types = pytest.importorskip("openai.types.chat")
    adapter = TypeAdapter(types.ChatCompletionMessageParam)
    for number, view in views("chat", "openai"):
        for message in view:
            assert refusals(adapter, message) == [], (number, message)


def test_openai_responses():
    types = pytest.importorskip("openai.types.responses")
    adapter = TypeAdapter(types.ResponseInputItemParam)
    for number, view in views("responses", "openai-responses"):
        for item in view:
            # The API takes answers without ids, which the types do not know.
            named = {"id": "msg_1", "status": "completed"} if is_answer(item) else {}
            assert refusals(adapter, {**named, **item}) == [], (number, item)


def test_anthropic():
    types = pytest.importorskip("anthropic.types.beta")
    adapter = TypeAdapter(types.BetaMessageParam)
    for number, view in views("anthropic", "anthropic"):
        for message in without_system(view):
            assert refusals(adapter, message) == [], (number, message)


def test_google_genai():
    adapter = TypeAdapter(pytest.importorskip("google.genai.types").Content)
    for number, view in views("gemini", "gemini"):
        for content in without_system(view):
            assert refusals(adapter, content) == [], (number, content)


def test_bedrock_converse():
    session = pytest.importorskip("botocore.session")
    validate = pytest.importorskip("botocore.validate")
    loaded = session.get_session().get_service_model("bedrock-runtime")
    shape = loaded.operation_model("Converse").input_shape
    for number, view in views("bedrock", "bedrock"):
        request = {"modelId": "m", "messages": without_system(view)}
        report = validate.ParamValidator().validate(request, shape)
        assert not report.has_errors(), f"{number}: {report.generate_report()}"


def test_the_types_do_refuse():
    types = pytest.importorskip("openai.types.chat")
    with pytest.raises(ValidationError):
        TypeAdapter(types.ChatCompletionMessageParam).validate_python({"role": "robot"})
