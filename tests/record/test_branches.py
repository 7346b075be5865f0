"""What the lines of a store say about branches, also when somebody else wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.record.branches import Branches
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import run_sync


class Rows:
    """A store of texts that can be told to fail."""

    def __init__(self) -> None:
        self.stored: dict[str, list[str]] = {}
        self.fail_on = ""
        self.before_line: Any = None

    def conversation(self, key: str) -> WriteBehind[str]:
        rows = self.stored.setdefault(key, [])

        def append(items: Any) -> None:
            if self.fail_on and self.fail_on in key:
                raise ConnectionError("down")
            if self.before_line and key.endswith(":branches"):
                happen, self.before_line = self.before_line, None
                happen()
            rows.extend(items)

        return WriteBehind(lambda: list(rows), append)

    def branches(self, key: str = "ann") -> Branches[WriteBehind[str]]:
        return Branches(key, self.conversation, buffer=lambda one: one, line=str, text=str)


@pytest.fixture
def rows() -> Rows:
    made = Rows()
    run_sync(made.branches().open().add(["one", "two"]))
    return made


@pytest.mark.parametrize("where", [":branches", "ann:"])
def test_a_fork_that_fails_leaves_everything_as_it_was(rows: Rows, where: str) -> None:
    rows.fail_on = where
    with pytest.raises(HistoryCuratorError, match="the store could not be written to"):
        rows.branches().fork("other")
    rows.fail_on = ""
    assert [one.name for one in rows.branches().list()] == ["main"]
    assert run_sync(rows.branches().fork("other").read()) == ["one", "two"]
    assert run_sync(rows.branches().open("main").read()) == ["one", "two"]


def test_a_branch_or_a_place_that_is_not_there_is_an_error_that_says_what_is(rows: Rows) -> None:
    branches = rows.branches()
    with pytest.raises(
        ConfigurationError, match=r"at: 3 is outside this conversation of 2.*-2 to 2"
    ):
        branches.fork("other", at=3)
    with pytest.raises(ConfigurationError, match=r"no branch 'other'\. Fix: use one of main"):
        branches.switch("other")
    with pytest.raises(ConfigurationError, match="'main' is taken"):
        branches.fork("main")
    with pytest.raises(ConfigurationError, match="is empty"):
        branches.fork(" ")
    assert [one.name for one in branches.list()] == ["main"]


def test_no_line_leads_to_another_conversation(rows: Rows) -> None:
    run_sync(rows.conversation("bob").add(["bob's own"]))
    secret = "0" * 32
    rows.stored["ann:branches"] = [
        json.dumps({"fork": made, "name": f"n{place}", "parent": "main", "at": 0, "key": "bob"})
        for place, made in enumerate(("bob", "../bob", f"{secret}:x", 3, None, secret))
    ]
    found = rows.branches().list()
    assert [one.key for one in found] == ["ann", f"ann:{secret}"]


def test_lines_that_make_no_sense_are_passed_over(rows: Rows) -> None:
    made = "a" * 32
    fork = {"fork": made, "parent": "main", "at": 0}
    lines: list[Any] = [
        *([], {"switch": "nowhere"}, {"switch": ["main"]}, {**fork, "name": {"x": 1}}),
        {**fork, "name": "orphan", "parent": "nobody"},
        {**fork, "name": "short", "fork": made[1:]},
        {**fork, "name": "no place", "at": "?"},
        {**fork, "name": "good", "at": 1, "created_at": 3},
    ]
    rows.stored["ann:branches"] = ["hello", *map(json.dumps, lines)]
    found = rows.branches().list()
    assert [(one.name, one.at, one.current) for one in found] == [
        ("main", 0, False),
        ("good", 1, True),
    ]


def test_the_second_of_two_forks_that_take_one_name_is_refused(rows: Rows) -> None:
    branches = rows.branches()
    rows.before_line = lambda: run_sync(rows.branches().fork("wanted", at=1).add(["first"]))
    with pytest.raises(ConfigurationError, match="'wanted' is taken"):
        branches.fork("wanted")
    assert [one.name for one in branches.list()] == ["main", "wanted"]
    assert run_sync(branches.open("wanted").read()) == ["one", "first"]
