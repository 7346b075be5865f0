"""What the lines of a store say about branches, also when somebody else wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from history_curator.errors import HistoryCuratorError
from history_curator.record.branches import Branches
from history_curator.record.outbox import WriteBehind


class Rows:
    """A store of texts that can be told to fail."""

    def __init__(self) -> None:
        self.stored: dict[str, list[str]] = {}
        self.fail_on = ""

    def conversation(self, key: str) -> WriteBehind[str]:
        rows = self.stored.setdefault(key, [])

        def append(items: Any) -> None:
            if self.fail_on and self.fail_on in key:
                raise ConnectionError("down")
            rows.extend(items)

        return WriteBehind(lambda: list(rows), append)

    def branches(self, key: str = "ann") -> Branches[WriteBehind[str]]:
        return Branches(key, self.conversation, buffer=lambda one: one, line=str, text=str)


@pytest.fixture
def rows() -> Rows:
    made = Rows()
    made.branches().open().add(["one", "two"])
    return made


@pytest.mark.parametrize("where", [":branches", "ann:"])
def test_a_fork_that_fails_leaves_everything_as_it_was(rows: Rows, where: str) -> None:
    rows.fail_on = where
    with pytest.raises(HistoryCuratorError, match="the store could not be written to"):
        rows.branches().fork("other")
    rows.fail_on = ""
    assert [one.name for one in rows.branches().list()] == ["main"]
    assert rows.branches().fork("other").read() == ["one", "two"]
    assert rows.branches().open("main").read() == ["one", "two"]


def test_no_line_leads_to_another_conversation(rows: Rows) -> None:
    rows.conversation("bob").add(["bob's own"])
    secret = "0" * 32
    rows.stored["ann:branches"] = [
        json.dumps({"fork": made, "name": f"n{place}", "parent": "main", "key": "bob"})
        for place, made in enumerate(("bob", "../bob", f"{secret}:x", 3, None, secret))
    ]
    found = rows.branches().list()
    assert [one.key for one in found] == ["ann", f"ann:{secret}"]


def test_lines_that_make_no_sense_are_passed_over(rows: Rows) -> None:
    made = "a" * 32
    rows.stored["ann:branches"] = [
        "hello",
        "[]",
        json.dumps({"switch": "nowhere"}),
        json.dumps({"switch": ["main"]}),
        json.dumps({"fork": made, "name": "orphan", "parent": "nobody"}),
        json.dumps({"fork": made, "name": {"x": 1}, "parent": "main"}),
        json.dumps({"fork": made[1:], "name": "short", "parent": "main"}),
        json.dumps({"fork": made, "name": "good", "parent": "main", "at": "?", "created_at": 3}),
    ]
    found = rows.branches().list()
    assert [(one.name, one.at, one.current) for one in found] == [
        ("main", 0, True),
        ("good", 0, False),
    ]


def test_two_forks_of_one_name_at_once_are_both_listed(rows: Rows) -> None:
    rows.stored["ann:branches"] = [
        json.dumps({"fork": letter * 32, "name": "wanted", "parent": "main"}) for letter in "abc"
    ]
    found = rows.branches().list()
    assert [one.name for one in found] == ["main", "wanted", "wanted 2", "wanted 3"]
    assert len({one.key for one in found}) == 4


def test_names_given_by_number_are_never_taken_twice(rows: Rows) -> None:
    branches = rows.branches()
    branches.fork("branch 3")
    branches.fork()
    branches.fork()
    names = [one.name for one in branches.list()]
    assert names == ["main", "branch 3", "branch 4", "branch 5"]
