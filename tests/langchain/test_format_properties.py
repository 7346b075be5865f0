"""Whatever is done to the calls of a message, all places that list them agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from history_curator.entries import ToolCall
from history_curator.formats import arguments_text
from langchain_history_curator import LangChainFormat

wire = LangChainFormat()

ids = st.text("abc", min_size=1, max_size=3)
arguments = st.dictionaries(
    st.text("xyz", min_size=1, max_size=2), st.integers() | st.text(), max_size=2
)
calls = st.lists(st.tuples(ids, arguments), min_size=1, max_size=5, unique_by=lambda pair: pair[0])
styles = st.sampled_from(["tool_use", "tool_call", "function_call"])


def block(style: str, call_id: str, args: dict[str, Any]) -> dict[str, Any]:
    if style == "function_call":
        rest = {"id": "fc", "call_id": call_id, "arguments": arguments_text(args)}
    else:
        rest = {"id": call_id, "input" if style == "tool_use" else "args": args}
    return {"type": style, "name": "t", **rest}


def beside(call_id: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": "t", "arguments": arguments_text(args)}}


def places(message: AIMessage) -> list[list[str]]:
    return [
        [str(call["id"]) for call in message.tool_calls],
        list(message.additional_kwargs.get("signatures", {})),
    ]


@given(styles, calls, st.data())
def test_every_place_agrees(style: str, given_calls: list[Any], data: st.DataObject) -> None:
    message = AIMessage(
        [{"type": "text", "text": "look"}, *(block(style, i, a) for i, a in given_calls)],
        id="m",
        tool_calls=[{"name": "t", "args": a, "id": i} for i, a in given_calls],
        additional_kwargs={
            "tool_calls": [beside(*each) for each in given_calls],
            "signatures": {i: f"sig-{i}" for i, _ in given_calls},
        },
        response_metadata={"model": "m"},
    )
    before = message.model_dump_json()
    (entry,) = wire.read(message, 0)
    changed: list[ToolCall] = []
    assert len(entry.tool_calls or ()) == len(given_calls)
    for number, call in enumerate(entry.tool_calls or ()):
        action = data.draw(st.sampled_from(["keep", "drop", "rename", "empty"]))
        new = {"rename": {"id": f"new-{number}"}, "empty": {"arguments": "{}"}}
        changed += [] if action == "drop" else [replace(call, **new.get(action, {}))]
    if len(changed) < len(given_calls):  # calls are renamed or removed, never both
        changed = [c for c in changed if not c.id.startswith("new-")]
    (written,) = wire.write([entry.evolve(tool_calls=tuple(changed) or None)])
    assert isinstance(written, AIMessage)
    assert places(written) == [[call.id for call in changed]] * 2
    was_changed = written.tool_calls != message.tool_calls
    assert ("tool_calls" in written.additional_kwargs) is not was_changed
    assert written.content == (message.content[:1] if was_changed else message.content)
    assert (written.id, written.response_metadata) == ("m", {"model": "m"})
    (again,) = wire.read(written, 0)
    assert again.tool_calls == (tuple(changed) or None)
    assert message.model_dump_json() == before
