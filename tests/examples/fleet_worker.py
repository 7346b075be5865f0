"""A worker of the example endpoint, whose model notes in each answer what it was shown."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from functools import reduce
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from operator import add
from typing import Any

import uvicorn
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from examples.fastapi_endpoint import app as example
from examples.fastapi_endpoint.offline import OfflineChatModel

MAX_TOKENS = 600
"""So little that the second turn needs a summary."""
_serial = count()
_gate: list[Event] = []


class Witness(OfflineChatModel):
    """The offline model. An answer carries a digest of the view and the process it comes from.

    No two summaries are alike, so that views only agree where workers find those of each other.
    """

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[Any]:
        for gate in _gate:
            gate.wait(60)
        whole = reduce(add, super()._stream(messages, *args, **kwargs))
        noted = {"view": digest(messages), "worker": str(os.getpid())}
        whole.message.response_metadata.update(noted)
        yield whole

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(messages, *args, **kwargs)
        result.generations[0].message.content = f"Summary {next(_serial)} of {os.getpid()}."
        return result


def digest(messages: list[BaseMessage]) -> str:
    """Name a view by all that a provider is sent of it."""
    fields = [
        [each.type, each.content, getattr(each, "tool_calls", None),
         getattr(each, "tool_call_id", None)]
        for each in messages
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def use(store: str) -> None:
    """Let the example of this process use a database and the witness."""
    example.STORE, example.MAX_TOKENS, example.MODEL = store, MAX_TOKENS, Witness()


def serve(store: str, gate: Event, port: Connection) -> None:
    """Serve until killed, and say on which port; while the gate is closed the model waits."""
    use(store)
    _gate.append(gate)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port.send(listener.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(example.app, log_level="error"))
        server.run(sockets=[listener])
