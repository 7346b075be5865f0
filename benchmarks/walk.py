"""Which files of the library one new message passes on its way into a view.

    python -m benchmarks.walk

A conversation is viewed twice, one message is added, and every function that the third view calls
is noted with its file. Files are the unit, because files are what a reader has to open. The same
is done through LangChain's middleware, where LangChain is installed.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import history_curator
from benchmarks.data import as_langchain
from history_curator import Curator

_ROOT = Path(history_curator.__file__).parent.parent
_PACKAGES = tuple(
    f"{_ROOT / name}{os.sep}"
    for name in ("history_curator", "langchain_history_curator", "llamaindex_history_curator")
)


def conversation() -> list[dict[str, str]]:
    """Return questions and answers behind a system message, and a new question."""
    messages = [{"role": "system", "content": "Be brief."}]
    for number in range(20):
        messages.append({"role": "user", "content": f"question {number}"})
        messages.append({"role": "assistant", "content": f"answer {number}"})
    return [*messages, {"role": "user", "content": "and now?"}]


def in_core() -> tuple[Callable[[Any], Any], list[Any]]:
    """Return the curator's view, and the conversation."""
    return Curator(max_tokens=8_000).curate, conversation()


def in_middleware() -> tuple[Callable[[Any], Any], list[Any]]:
    """Return the view that LangChain's middleware makes for a model call, and the conversation."""
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage

    from langchain_history_curator import HistoryCuratorMiddleware

    middleware = HistoryCuratorMiddleware(max_tokens=8_000)
    model, answer = FakeListChatModel(responses=["ok"]), ModelResponse(result=[AIMessage("ok")])

    def view(messages: list[Any]) -> Any:
        request = ModelRequest(model=model, messages=messages, state={"messages": messages})
        return middleware.wrap_model_call(request, lambda _: answer)

    return view, as_langchain(conversation())


def walk(view: Callable[[Any], Any], messages: list[Any]) -> dict[str, set[str]]:
    """Return the functions that a warm view with one new message calls, by file."""
    view(messages[:-1])
    view(messages[:-1])
    passed: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(_PACKAGES):
            passed[str(Path(path).relative_to(_ROOT))].add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        view(messages)
    finally:
        sys.setprofile(None)
    return passed


def main() -> None:
    """Print the files, with the number of functions in each."""
    ways = {"core": in_core}
    if find_spec("langchain"):
        ways["LangChain's middleware"] = in_middleware
    for name, make in ways.items():
        passed = walk(*make())
        rules = [path for path in passed if "/rules/" in path]
        print(f"{name}: {len(passed)} files, {len(rules)} of them rules")
        for path in sorted(passed):
            print(f"  {path}: {len(passed[path])} functions")


if __name__ == "__main__":
    main()
