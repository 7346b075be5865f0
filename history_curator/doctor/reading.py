"""Read the sessions of files in two passes, so that each answer is charged once among all of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from history_curator.doctor.costs import Tally, examine_session
from history_curator.lab import LabConversation
from history_curator.lab.conversations import LoggedCall
from history_curator.lab.files import collect_errors, read_file
from history_curator.lab.logs import read_requests
from history_curator.lab.run_replay import Measurement

SessionIndex = tuple[float, "array[int]"]
"""When a session started, and 8 bytes for each of its answers."""
LeftOut = dict[int, "array[int]"]
"""Hashes of answers that an older session has too, by the number of the session in its file."""
Task = LabConversation | tuple[str, LeftOut]
_BUCKETS = 256


def read_sessions(path: str, problems: list[str]) -> list[LabConversation]:
    """Return the sessions with requests of a file, and list everything unreadable in ``problems``.

    An answer that a session has twice is left out the second time.
    """
    found: list[LabConversation] = []
    with collect_errors(problems, path):
        found = [each for each in read_file(path, problems, read_requests) if each.requests]
        problems += [] if found else [f"{path}: no request with usage in it"]
    for session in found:
        once: dict[str, LoggedCall] = {}
        for call in session.requests:
            once.setdefault(call.id, call)
        session.requests = list(once.values())
    return found


def index_file(path: str) -> list[SessionIndex]:
    """Return the start of each session of a file, and a hash of the id of each of its answers."""
    sessions = read_sessions(path, [])
    return [(each.requests[0].start or 0.0, array("Q", map(_hash_id, each.requests)))
            for each in sessions]  # fmt: skip


def _hash_id(call: LoggedCall) -> int:
    name = call.id.encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")


def find_repeats(files: Sequence[Sequence[SessionIndex]]) -> dict[int, LeftOut]:
    """Return, for each file by its number, the answers that an older session is charged for.

    A resumed session repeats answers: each is charged once, in the oldest session that has it.
    """
    order = sorted(
        (start, file, number)
        for file, sessions in enumerate(files)
        for number, (start, _) in enumerate(sessions)
    )
    # Each bucket holds the answers with some hashes and the places of their sessions, in order: one
    # set at a time is small, however many answers there are.
    buckets = [(array("Q"), array("L")) for _ in range(_BUCKETS)]
    for place, (_, file, number) in enumerate(order):
        for answer in files[file][number][1]:
            answers, places = buckets[answer % _BUCKETS]
            answers.append(answer)
            places.append(place)
    repeats: dict[int, LeftOut] = {}
    for answers, places in buckets:
        charged: set[int] = set()
        for answer, place in zip(answers, places, strict=True):
            if answer in charged:
                _, file, number = order[place]
                repeats.setdefault(file, {}).setdefault(number, array("Q")).append(answer)
            charged.add(answer)
    return repeats


def read_charged(file: tuple[str, LeftOut], problems: list[str]) -> list[LabConversation]:
    """Return the sessions of a file without the answers that it leaves out."""
    path, left_out = file
    sessions = read_sessions(path, problems)
    for number, session in enumerate(sessions):
        gone = set(left_out.get(number, ()))
        session.requests = [call for call in session.requests if _hash_id(call) not in gone]
    return [session for session in sessions if session.requests]


def examine_task(task: Task, measurement: Measurement) -> list[Tally]:
    """Return what could not be read, and the findings in each session of a file, or in one session.

    Whoever adds them up does so session by session, and gets the same sums from any tasks.
    """
    found = Tally()
    if isinstance(task, LabConversation):
        return [examine_session(task, measurement)]
    sessions = read_charged(task, found.problems)
    return [found, *(examine_session(session, measurement) for session in sessions)]
