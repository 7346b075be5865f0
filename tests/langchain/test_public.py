"""The public face of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import langchain_history_curator as package


def test_all_is_sorted_and_pinned() -> None:
    names = (
        "EVENT_NAME Budget ChatHistoryBranches CuratedChatMessageHistory HistoryCurator "
        "HistoryCuratorMiddleware LangChainFormat budget_for_model fold_back handoff_view "
        "model_node pin pre_model_hook recall_tool"
    )
    assert " ".join(package.__all__) == names
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        package.Nothing  # noqa: B018


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_only_langchain_core_is_needed() -> None:
    code = """
import sys
for name in ("langchain", "langgraph", "langchain.agents"):
    sys.modules[name] = None
import langchain_history_curator as package
from langchain_core.messages import HumanMessage
assert package.HistoryCurator(max_tokens=100).invoke("hi") == [HumanMessage("hi")]
for use in (lambda: package.HistoryCuratorMiddleware, package.recall_tool):
    try:
        use()
    except ImportError as error:
        print("pip install 'history-curator[agents]'" in str(error))
"""
    assert run(code) == "True\nTrue"


def test_importing_loads_no_agent_framework() -> None:
    code = """
import sys, langchain_history_curator
print([name for name in ("langchain", "langgraph", "llama_index") if name in sys.modules])
"""
    assert run(code) == "[]"
