"""P2: instructions stand at the front, once."""

from __future__ import annotations

from typing import ClassVar, Literal

from history_curator.entries import ConversationEntry
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)
from history_curator.rules._joining import join_entries

LaterSystem = Literal["hoist", "demote", "stay"]


class OneSystemEntryLeads(Invariant):
    """At most one system entry, and it comes first.

    Anthropic, Gemini and Bedrock take the instructions beside the messages, so only one block at
    the front can be lifted out; Qwen's template stops with ``System message must be at the
    beginning.``; Mistral refuses a system message after the assistant.

    Repair: the leading run is merged, later system entries are hoisted into it. With
    ``later="demote"`` they become user text where they stand, which keeps the cached prefix; with
    ``later="stay"`` they stand where they are, for models that take them there, such as Claude
    from Opus 4.8 on: behind a word of the user or a tool result, at the end or before an answer.
    Those that stand elsewhere move on to the next such place, or become user text where none
    follows; several in one place are merged.

    Args:
        later: what becomes of system entries behind the first other one.
        run: several system entries may lead, where the provider takes a list of blocks.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(OneSystemEntryLeads().repair(parse_entries("S U A S U")))
        'S U A U'
    """

    code = "P2"
    about = has.SYSTEM
    errors: ClassVar[Errors] = {
        "late": {
            "portable": "System message must be at the beginning.",
            "anthropic": 'messages: Unexpected role "system". The Messages API accepts a '
            'top-level `system` parameter, not "system" as an input message role.',
            "mistral": "Unexpected role 'system' after role 'assistant'",
        }
    }

    def __init__(self, later: LaterSystem = "hoist", *, run: bool = False) -> None:
        self.later = later
        self.run = run

    def look_across(self, entries: Entries) -> list[Finding]:
        """Every system entry that is not where the instructions belong."""
        places = [index for index, entry in enumerate(entries) if entry.role is SYSTEM]
        found: list[Finding] = []
        for rank, index in enumerate(places):
            if index > rank and not (self.later == "stay" and _is_taken(entries, index)):
                found.append((index, "late", "a system message after others"))
            elif 0 < index == rank and not self.run:
                found.append((index, "late", "a second system message"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Merge the leading run and move the rest out of the way."""
        if not self.look_across(entries):
            return list(entries)
        lead = 0
        while lead < len(entries) and entries[lead].role is SYSTEM:
            lead += 1
        leading = list(entries[:lead])
        if self.later == "stay":
            rest = _moved_on(entries, lead)
        elif self.later == "demote":
            rest = [_demoted(each) if each.role is SYSTEM else each for each in entries[lead:]]
        else:
            rest = [entry for entry in entries[lead:] if entry.role is not SYSTEM]
            late = [entry for entry in entries[lead:] if entry.role is SYSTEM]
            leading += map(_hoisted, late) if self.run else late
        if self.run:
            return leading + rest
        if len(leading) > 1:
            leading = [join_entries(leading, "providers take one system message, at the front")]
        elif leading and lead == 0:
            leading = [_hoisted(leading[0])]
        return leading + rest


def _is_taken(entries: Entries, index: int) -> bool:
    """Whether a system entry stands where models take one that take them later than first."""
    follows = entries[index - 1].role in (USER, TOOL)
    return follows and (index + 1 == len(entries) or entries[index + 1].role is ASSISTANT)


def _moved_on(entries: Entries, start: int) -> list[ConversationEntry]:
    """Entries with each system entry at the next place where it is taken."""
    out: list[ConversationEntry] = []
    waiting: list[ConversationEntry] = []
    for index in range(start, len(entries)):
        entry = entries[index]
        if entry.role is SYSTEM:
            waiting.append(entry if _is_taken(entries, index) else _moved(entry))
            continue
        if waiting and entry.role is ASSISTANT and out and out[-1].role in (USER, TOOL):
            out.append(_one_of(waiting))
            waiting = []
        out.append(entry)
    if waiting and out and out[-1].role is ASSISTANT:
        return out + list(map(_demoted, waiting))
    return [*out, _one_of(waiting)] if waiting else out


def _one_of(run: list[ConversationEntry]) -> ConversationEntry:
    return run[0] if len(run) == 1 else join_entries(run, "the model takes one system message here")


def _moved(entry: ConversationEntry) -> ConversationEntry:
    reason = "the model takes system messages behind the user's, before an answer"
    return remembered(entry, "moved on", lambda: edit(entry, action="moved", reason=reason))


def _hoisted(entry: ConversationEntry) -> ConversationEntry:
    return remembered(
        entry,
        "hoisted",
        lambda: edit(entry, action="moved", reason="the system message has to come first"),
    )


def _demoted(entry: ConversationEntry) -> ConversationEntry:
    return remembered(
        entry,
        "demoted",
        lambda: edit(
            entry,
            role=USER,
            origin="note",
            action="repaired",
            reason="a later system message is shown as user text, so the prefix stays",
        ),
    )
