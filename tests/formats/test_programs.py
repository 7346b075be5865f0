"""Programs of OpenAI Responses: the calls they make, and the outputs between them."""

from __future__ import annotations

from history_curator import check_conversation
from history_curator.formats import ResponsesFormat, read_entries, scattered

ITEMS = [
    {"role": "user", "content": "go"},
    {"type": "program", "id": "p_1", "call_id": "p1", "code": "look()", "fingerprint": "f"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "long"},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": "two"},
    {"type": "program_output", "id": "o_1", "call_id": "p1", "result": "x", "status": "completed"},
    {"type": "function_call", "id": "fc_3", "call_id": "c3", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c3", "output": "three"},
]


def test_a_program_is_one_answer_with_the_results_it_got():
    entries = read_entries(ITEMS, ResponsesFormat())
    assert [entry.role.value for entry in entries] == ["user", "assistant", *["tool"] * 3]
    assert [call.id for call in entries[1].tool_calls or ()] == ["c1", "c2", "c3"]
    assert check_conversation(ITEMS, "openai-responses") == []
    assert scattered(ResponsesFormat().write(entries)) == ITEMS


def test_an_edited_output_stays_behind_its_call():
    entries = read_entries(ITEMS, ResponsesFormat())
    edited = [each.evolve(content="short") if each.content == "long" else each for each in entries]
    expected = [*ITEMS]
    expected[3] = {**ITEMS[3], "output": "short"}
    assert scattered(ResponsesFormat().write(edited)) == expected
