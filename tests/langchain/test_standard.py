"""The standard suites of ``langchain-tests``, for what of ours they are about: the recall tool."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_history_curator import recall_tool

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

RECORD = [HumanMessage("The code is 4711."), ToolMessage("rows " * 50, tool_call_id="c1")]


class _Recall:
    @property
    def tool_constructor(self) -> BaseTool:
        return recall_tool(RECORD)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "code"}


class TestRecallUnit(_Recall, ToolsUnitTests):
    pass


class TestRecallIntegration(_Recall, ToolsIntegrationTests):
    pass
