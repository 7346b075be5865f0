"""The examples run, offline, and say what they claim."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("langchain_agent", "The state still holds all 62 messages."),
        ("langchain_chain", "402 messages -> "),
        ("langchain_chat_history", "the code is 4711"),
        ("langchain_handoff", "The Albatross, in Cork."),
    ],
)
def test_example(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in ("langchain_agent", "langchain_handoff"):
        pytest.importorskip("langchain.agents")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert says in capsys.readouterr().out
