"""A stored conversation driven by chance, beside a simple model of what must be in it.

The model knows what was said, in order, and nothing about stores, formats or pairing by ids.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from history_curator.config import RetentionConfig
from history_curator.record.prune import prune_store

DEFAULT = settings.default or settings()
RUN = settings(
    max_examples=max(10, DEFAULT.max_examples // 10),
    stateful_step_count=8,
    deadline=None,
    # What fails is small already; shrinking it through a database takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=DEFAULT.suppress_health_check,
)

pytestmark = pytest.mark.timeout(600)

SHAPES = ("ua", "uCra", "udrra", "uDrrcra", "ucura", "uCuura", "uc", "ra", "UCra", "uPra", "uPura")
"""Turns: u asks (U pinned), c calls (C with words, d and D twice at once, P pinned), r is a result,
a answers. Some leave a call open, some answer one from before."""
Kind = Literal["user", "call", "result", "answer"]


@dataclass(frozen=True)
class Item:
    """One message: who spoke, what it says, and which calls it makes or answers."""

    kind: Kind
    text: str
    calls: tuple[str, ...] = ()
    pinned: bool = False
    whole: bool = True  # calls only: with their arguments


def bare(item: Item) -> Item:
    """Return an item without its pin, which is not compared."""
    return replace(item, pinned=False)


def exchanges(said: list[Item]) -> list[tuple[list[int], bool]]:
    """Return each call with its results, by their places, and whether none is missing."""
    found = []
    for place, item in enumerate(said):
        if item.kind == "call":
            answers = [at for at, one in enumerate(said) if one.kind == "result"]
            results = [at for at in answers if said[at].calls[0] in item.calls]
            found.append(([place, *results], len(results) == len(item.calls)))
    return found


def preserved_from(said: list[Item], turns: int) -> int:
    users = [place for place, item in enumerate(said) if item.kind == "user"]
    return users[-turns] if len(users) >= turns else 0


def must_stay(said: list[Item], turns: int) -> set[int]:
    """Return the places whose message is stored as it was said, whatever happens."""
    start = preserved_from(said, turns)
    kept = {place for place in range(len(said)) if place >= start or said[place].pinned}
    for places, is_done in exchanges(said):
        if not is_done or kept.intersection(places):
            kept.update(places)
    return kept | {place for place, item in enumerate(said) if item.kind == "user"}


class Talk:
    """A branch of a conversation in SQLite, read back as items."""

    def __init__(self, folder: Path, config: RetentionConfig) -> None:
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine

        from langchain_history_curator import ChatHistoryBranches

        self.path = folder / "talk.db"
        self.engine = create_engine(f"sqlite:///{self.path}")
        self.branches: Any = ChatHistoryBranches(
            "ann",
            lambda key: SQLChatMessageHistory(key, connection=self.engine),
            max_tokens=2_000,
            retention=config,
        )
        self.conversation: Any = self.branches.open()

    def items(self, name: str | None = None) -> list[Item]:
        """Return what a branch holds, by default the one that goes on."""
        conversation = self.branches.open(name) if name else self.conversation
        return [read_item(message) for message in conversation.record]


def write_message(item: Item) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from langchain_history_curator import pin

    if item.kind == "user":
        message: Any = HumanMessage(item.text)
    elif item.kind == "result":
        message = ToolMessage(item.text, tool_call_id=item.calls[0], name="find")
    else:
        calls = [{"name": "find", "args": {"of": one}, "id": one} for one in item.calls]
        message = AIMessage(item.text, tool_calls=calls)
    return pin([message])[0] if item.pinned else message


def read_item(message: Any) -> Item:
    pinned = bool(message.additional_kwargs.get("pinned"))
    if message.type == "human":
        return Item("user", message.text, pinned=pinned)
    if message.type == "tool":
        return Item("result", message.text, (message.tool_call_id,), pinned)
    calls = tuple(call["id"] for call in message.tool_calls)
    whole = all(call["args"] for call in message.tool_calls)
    return Item("call" if calls else "answer", message.text, calls, pinned, whole)


class StoredConversation(RuleBasedStateMachine):
    """Record, retention, fork, switch, restart and prune, in any order."""

    mode: str = "trimmed"
    turns: int = 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine"))
        self.config = RetentionConfig.from_dict(
            {"persist_tool_invocations": self.mode, "preserve_turns": self.turns}
        )
        self.talk = Talk(self.folder, self.config)
        self.said: dict[str, list[Item]] = {"main": []}
        self.branch = "main"
        self.count = 0

    def teardown(self) -> None:
        self.talk.engine.dispose()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What may happen.

    @rule(shapes=st.lists(st.sampled_from(SHAPES), min_size=2, max_size=4))
    def talk_on(self, shapes: list[str]) -> None:
        """Say a few turns, a message at a time."""
        for letter in "".join(shapes):
            item = self.next_item(letter)
            if item is not None:
                self.say(item)

    @rule()
    def read(self) -> None:
        """A host that reads also shows the adapter what was missed."""
        assert isinstance(self.talk.conversation.messages, list)

    @rule()
    def restart(self) -> None:
        self.talk.engine.dispose()
        self.talk = Talk(self.folder, self.config)
        self.branches_are_listed()

    @rule(share=st.floats(0, 1))
    def fork(self, share: float) -> None:
        before = self.talk.items()
        at = round(share * len(before))
        name = self.words("branch")
        self.talk.conversation = self.talk.branches.fork(name, at=at)
        self.said[name] = self.talk.items()
        assert self.said[name] == before[:at]
        self.branch = name
        self.branches_are_listed()

    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        self.branch = data.draw(st.sampled_from(sorted(self.said)))
        self.talk.conversation = self.talk.branches.switch(self.branch)
        self.branches_are_listed()

    @precondition(lambda self: self.talk.path.exists() and any(self.said.values()))
    @rule()
    def prune(self) -> None:
        before = self.all_stored()
        prune_store(f"sqlite:///{self.talk.path}", config=self.config)
        assert self.all_stored() == before
        prune_store(f"sqlite:///{self.talk.path}", config=self.config, apply=True)
        again = prune_store(f"sqlite:///{self.talk.path}", config=self.config)
        assert not any(one.trimmed or one.removed for one in again)
        for name, said in self.said.items():
            self.everything_old_is_gone(name, said)

    # What must hold.

    @invariant()
    def words_stay_and_nothing_is_invented(self) -> None:
        said = self.said[self.branch]
        stored = self.talk.items()
        text = "\n".join(item.text for item in stored if item.kind != "result")
        at = 0
        for item in said:
            if item.kind != "result" and item.text:
                at = text.index(item.text, at)  # there, and in order
        whole = [bare(said[place]) for place in sorted(must_stay(said, self.turns))]
        left = map(bare, stored)
        assert all(item in left for item in whole)  # there, and in order
        latest = said[preserved_from(said, self.turns) :]
        assert [*map(bare, stored[len(stored) - len(latest) :])] == [*map(bare, latest)]
        known = {item.text for item in said}
        for item in stored:
            if item.kind == "result" and item.text not in known:
                assert set(json.loads(item.text)) == {"name", "status"}
            else:
                assert item.text in known

    def branches_are_listed(self) -> None:
        found = self.talk.branches.list()
        assert {one.name for one in found} == set(self.said)
        assert [one.name for one in found if one.current] == [self.branch]

    # Inside.

    def everything_old_is_gone(self, name: str, said: list[Item]) -> None:
        stored = self.talk.items(name)
        texts = {item.text for item in stored}
        stay = must_stay(said, self.turns)
        for places, is_done in exchanges(said):
            if is_done and not stay.intersection(places):
                full = [said[place].text for place in places[1:] if "row" in said[place].text]
                assert not texts.intersection(full)
        if self.mode == "trimmed":
            assert len(stored) == len(said)

    def say(self, item: Item) -> None:
        self.said[self.branch].append(item)
        self.talk.conversation.add_messages([write_message(item)])

    def next_item(self, letter: str) -> Item | None:
        """Return what a letter of a shape stands for, or None where it makes no sense."""
        if letter in "uU":
            return Item("user", self.words("question"), pinned=letter == "U")
        if letter == "a":
            return Item("answer", self.words("answer")) if self.said[self.branch] else None
        if letter == "r":
            wanted = self.open_calls()
            text = self.words("found") + " row" * 9
            return Item("result", text, (wanted[-1],)) if wanted else None
        text = self.words("looking") if letter in "CDP" else ""
        self.count += 1
        ids = tuple(f"c{self.count}x{number}" for number in range(2 if letter in "dD" else 1))
        return Item("call", text, ids, letter == "P")

    def words(self, kind: str) -> str:
        self.count += 1
        return f"{kind} {self.count}."

    def open_calls(self) -> list[str]:
        said = self.said[self.branch]
        answered = {item.calls[0] for item in said if item.kind == "result"}
        made = [one for item in said if item.kind == "call" for one in item.calls]
        return [one for one in made if one not in answered]

    def all_stored(self) -> dict[str, list[Item]]:
        return {name: self.talk.items(name) for name in self.said}


@pytest.mark.parametrize(("mode", "turns"), [("trimmed", 1), ("none", 2)])
def test_any_order_of_events(mode: str, turns: int) -> None:
    pytest.importorskip("langchain_community.chat_message_histories")
    members = {"mode": mode, "turns": turns}
    run_state_machine_as_test(type("Machine", (StoredConversation,), members), settings=RUN)
