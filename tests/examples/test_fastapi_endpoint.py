"""The example endpoint over real HTTP."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
pytest.importorskip("langchain_core")
pytest.importorskip("langchain_community")

README = Path(__file__).parents[2] / "examples" / "fastapi_endpoint" / "README.md"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The running example: its module, and a client of its address."""
    from examples.fastapi_endpoint import app as example

    example.STORE = f"sqlite:///{tmp_path_factory.mktemp('threads') / 'chat.db'}"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(example.app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        host, port = listener.getsockname()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
            client.example = example
            yield client
        server.should_exit = True
        thread.join(10)
        example.open_database(example.STORE).dispose()


def said(role: str, content: str, **extra: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **extra}


def ask(endpoint: Any, prompt: str, history: Any = None) -> dict[str, Any]:
    body = {"prompt": prompt} | ({} if history is None else {"conversationHistory": history})
    response = endpoint.post("/api/query", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


class TestStateless:
    """The five cases of the document on stateless histories, in its order."""

    def test_1_a_single_message_needs_no_history(self, endpoint: Any) -> None:
        reply = ask(endpoint, "Who owns the Cincinnati service?")
        assert "owned by the update team" in reply["answer"]
        assert (reply["messages_sent"], reply["warnings"]) == (1, [])

    def test_2_and_3_references_to_earlier_messages_work(self, endpoint: Any) -> None:
        question = "Who owns the Cincinnati service?"
        answer = ask(endpoint, question)["answer"]
        history = [said("user", question), said("assistant", answer, thinkingSteps=[1])]
        follow_up = "What about its dependencies?"
        assert ask(endpoint, follow_up, history)["answer"] == "Cincinnati needs Quay and Telemetry."
        assert "Which service?" in ask(endpoint, follow_up)["answer"]
        listed = ask(endpoint, "List all services")["answer"]
        history = [said("user", "List all services"), said("assistant", listed)]
        reply = ask(endpoint, "Tell me more about the first one", history)
        assert reply["answer"].startswith("Cincinnati is owned by")

    def test_4_only_the_last_20_messages_are_sent(self, endpoint: Any) -> None:
        history = [said("assistant" if n % 2 else "user", f"message {n}") for n in range(24)]
        reply = ask(endpoint, "the 25th message", history)
        assert reply["messages_sent"] == 21
        assert [one["index"] for one in reply["dropped"]] == [0, 1, 2, 3]

    @pytest.mark.parametrize("history", ["nonsense", [1, None, {"role": "user"}]])
    def test_5_malformed_history_is_left_out(self, endpoint: Any, history: Any) -> None:
        reply = ask(endpoint, "Who owns Quay?", history)
        assert reply["messages_sent"] == 1
        assert "the registry team" in reply["answer"]
        assert reply["warnings"]


class TestRefusals:
    def test_an_oversized_request_is_refused_with_and_without_a_length(self, endpoint: Any) -> None:
        for content in (b"x" * 200_000, (b"x" * 10_000 for _ in range(20))):
            response = endpoint.post("/api/query", content=content)
            assert response.status_code == 413
            assert "102400 bytes" in response.json()["detail"]

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe"])
    def test_not_json(self, endpoint: Any, body: bytes) -> None:
        response = endpoint.post("/api/query", content=body)
        assert response.status_code == 400
        assert "JSON" in response.json()["detail"]

    @pytest.mark.parametrize("path", ["/api/query", "/api/threads/nobody"])
    @pytest.mark.parametrize("body", [{}, {"prompt": " \n"}, {"prompt": 3}, [], "hello", None])
    def test_a_request_without_a_prompt_reaches_no_model(
        self, endpoint: Any, path: str, body: Any
    ) -> None:
        response = endpoint.post(path, content=json.dumps(body))
        assert response.status_code == 422
        assert response.json()["field"] == "prompt"
        assert endpoint.example.open_thread("nobody").record == []


class TestThreads:
    def stream(self, endpoint: Any, thread: str, prompt: str) -> list[tuple[str, Any]]:
        with endpoint.stream("POST", f"/api/threads/{thread}", json={"prompt": prompt}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            text = response.read().decode()
        blocks = [block.splitlines() for block in text.strip().split("\n\n")]
        return [
            (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
            for name, data in blocks
        ]

    def test_sse_still_streams_correctly_and_final_history_includes_preserved_turns_with_tools(
        self, endpoint: Any
    ) -> None:
        questions = ["Who owns Cincinnati?", "Who owns Quay?", "Who owns Telemetry?"]
        for question in questions:
            events = self.stream(endpoint, "ann", question)
            words = [data["text"] for name, data in events if name == "delta"]
            assert len(words) > 3
            assert "is owned by" in "".join(words)
            assert events[-1] == (
                "done",
                {"tools_used": [{"name": "look_up_service", "status": "success"}]},
            )
        record = endpoint.example.open_thread("ann").record
        assert [message.type for message in record] == ["human", "ai", "tool", "ai"] * 3
        results = [json.loads(message.content) for message in record if message.type == "tool"]
        assert results[0] == {"name": "look_up_service", "status": "success"}
        assert all("log" in result for result in results[1:])
        calls = [message.tool_calls[0]["args"] for message in record[1::4]]
        assert calls == [{}, {"name": "Quay"}, {"name": "Telemetry"}]

    def test_follow_up_needs_no_history_from_the_client(self, endpoint: Any) -> None:
        self.stream(endpoint, "bob", "Who owns Quay?")
        events = self.stream(endpoint, "bob", "And who owns it now?")
        assert "".join(data.get("text", "") for _, data in events).startswith("Quay is owned")
        assert len(endpoint.example.open_thread("eve").record) == 0

    def test_a_request_that_is_sent_again_is_answered_once(self, endpoint: Any) -> None:
        answers = [
            endpoint.post(
                "/api/threads/cat",
                json={"prompt": "Who owns Quay?"},
                headers={"Idempotency-Key": "question 1"},
            ).text
            for _ in range(2)
        ]
        assert "Quay is owned by the registry team." in answers[1]
        assert [answer.count("event: done") for answer in answers] == [1, 1]
        assert len(endpoint.example.open_thread("cat").record) == 4

    @pytest.mark.parametrize("stored", [1, 2, 3])
    def test_a_turn_goes_on_from_the_message_that_was_stored_last(
        self, endpoint: Any, stored: int
    ) -> None:
        key = {"Idempotency-Key": "question 1"}
        ask = {"json": {"prompt": "Who owns Quay?"}, "headers": key}
        endpoint.post(f"/api/threads/whole-{stored}", **ask)
        whole = endpoint.example.open_thread(f"whole-{stored}").record
        endpoint.example.open_thread(f"part-{stored}").add_messages(whole[:stored])
        assert "event: done" in endpoint.post(f"/api/threads/part-{stored}", **ask).text
        record = endpoint.example.open_thread(f"part-{stored}").record
        assert [each.content for each in record] == [each.content for each in whole]


def test_a_worker_says_whether_its_database_answers(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert endpoint.get("/health").json() == {"database": True}
    nowhere = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    monkeypatch.setattr(endpoint.example, "STORE", nowhere)
    response = endpoint.get("/health")
    assert (response.status_code, response.json()) == (503, {"database": False})


def test_readme_answers_are_what_the_endpoint_says(endpoint: Any) -> None:
    text = README.read_text(encoding="utf-8")
    bodies = re.findall(
        r"curl -s localhost:8000/api/query -H [^{]*?-d '(\{.*?\})'\n", text, re.DOTALL
    )
    answers = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    assert len(bodies) == 2
    for body, answer in zip(bodies, answers, strict=False):
        assert endpoint.post("/api/query", content=body).json() == json.loads(answer)
    refused = endpoint.post("/api/query", content=b"x" * 200_000)
    assert refused.json() == json.loads(answers[2])
