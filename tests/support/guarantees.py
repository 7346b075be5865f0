"""The guarantees of a view, as one function that any test can hold a curation against."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

from history_curator import BudgetUnsatisfiableError, Curation, Curator, check_conversation
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.formats import detect
from history_curator.tokens import count_tokens

Tail = Literal["request", "history"]


def curate_and_check(
    messages: list[Any],
    *,
    curator: Curator,
    tail: Tail = "request",
    idempotent: bool = True,
    tight: bool = False,
) -> Curation | None:
    """Curate and assert every guarantee; None when the budget was rightly refused.

    A manager that is not idempotent by itself cannot be made so: then pass ``idempotent=False``.
    Neither can one that counts messages, where the provider insists on an invented one, nor a
    `tight` one, whose limit is shorter than the seal's own ``[image removed]`` or ``[cleared: …]``.
    """
    before = copy.deepcopy(messages)
    try:
        curation = curator.curate(messages, tail=tail)
    except BudgetUnsatisfiableError as error:
        refusal: BudgetUnsatisfiableError | None = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.needed > refusal.max_tokens
        assert messages == before
        return None
    assert messages == before, "the input was changed"
    assert_guarantees(messages, curation, curator=curator, tail=tail)
    invented = bool(curator.managers) and any(entry.origin for entry in curation.entries)
    if idempotent and not invented and not (tight and _sealed_with_words(curation)):
        again = curator.curate(curation.messages, tail=tail)
        assert again.messages == curation.messages, "not idempotent"
    fresh = Curator(
        *curator.managers,
        max_tokens=curator.max_tokens,
        counter=curator.counter,
        provider=curator.profile.name,
        compact_to=curator.compact_to,
        recall_tool=curator.recall_tool,
    )
    assert fresh.curate(messages, tail=tail).messages == curation.messages, "not deterministic"
    return curation


def _sealed_with_words(curation: Curation) -> bool:
    return any(
        decision.manager in {"rules", "budget"}
        and decision.action not in {"kept", "dropped", "moved"}
        for decision in curation.report.decisions
    )


def assert_guarantees(
    messages: Sequence[Any], curation: Curation, *, curator: Curator, tail: Tail = "request"
) -> None:
    """Assert that the view fits, conforms, keeps what must be kept, and touches nothing else."""
    if curator.max_tokens is not None:
        counted = count_tokens(curation.messages, counter=curator.counter)
        assert counted == curation.tokens, "the count in the report is not the view's"
        assert counted <= curator.max_tokens, "over budget"
    if messages:  # an empty history stays empty
        violations = check_conversation(curation.messages, provider=curator.profile.name, tail=tail)
        assert not violations, violations[:3]
    record = _read(messages)
    view = curation.entries
    _assert_kept(record, view)
    _assert_order(record, view)
    _assert_identity(messages, curation)


def _read(messages: Sequence[Any]) -> list[ConversationEntry]:
    format = detect(messages)
    return [entry for at, message in enumerate(messages) for entry in format.read(message, at)]


def _assert_kept(record: list[ConversationEntry], view: Sequence[ConversationEntry]) -> None:
    shown = "\n".join(entry.content or "" for entry in view if entry.role is MessageRole.SYSTEM)
    for entry in record:
        if entry.role is MessageRole.SYSTEM:
            assert all(text in shown for text in _texts(entry)), "a system message is gone"
    latest = next((entry for entry in reversed(record) if entry.is_real_user), None)
    if latest is not None and latest.content:
        said = [entry.content or "" for entry in view if entry.role is MessageRole.USER]
        for block in _texts(latest):
            assert any(block in text for text in said), "the latest question is gone"


def _texts(entry: ConversationEntry) -> list[str]:
    """What an entry says, block by block; blank blocks say nothing."""
    if entry.parts is None:
        return [(entry.content or "").strip()]
    return [part.text.strip() for part in entry.parts if part.text and part.text.strip()]


def _assert_order(record: list[ConversationEntry], view: Sequence[ConversationEntry]) -> None:
    """Speakers keep their order; only a late result may move up to its call."""
    spoken = [
        entry.root.sequence
        for entry in view
        if entry.role in (MessageRole.USER, MessageRole.ASSISTANT) and entry.origin is None
    ]
    assert spoken == sorted(spoken), "chronological order is broken"
    for entry in view:
        if entry.origin is not None:
            assert entry.source is None, "an invention with a source"
            assert entry.action, "an unmarked invention"


def _assert_identity(messages: Sequence[Any], curation: Curation) -> None:
    untouched = {
        id(messages[entry.sequence])
        for entry in curation.entries
        if entry.original is None and entry.source is not None and entry.span is None
    }
    returned = {id(message) for message in curation.messages}
    assert untouched <= returned, "an untouched message came back as another object"
