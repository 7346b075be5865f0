"""P1 to P5: system first, roles alternate, allowed first and last message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from history_curator.entries import FILLERS, ContentPart, ConversationEntry
from history_curator.formats import join_text, wire_of
from history_curator.formats.base import as_mapping
from history_curator.rules.base import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Entries,
    Finding,
    Rule,
    copy_edited,
    is_blank,
)
from history_curator.rules.tools import awaits_provider

LaterSystem = Literal["hoist", "demote", "stay"]

_CONTINUE, _OPENING, _OPENING_AFTER_A_CUT = FILLERS


class SomeUserSpeaks(Rule):
    """At least one user entry has text or media; most providers refuse a request without one.

    Repair: a neutral user entry at the end.
    """

    code = "P1"
    requests_only = True

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        asked = [_invent_user(_CONTINUE, message) for _, message in self.check_view(entries)]
        return [*entries, *asked]

    def check_view(self, entries: Entries) -> list[Finding]:
        for entry in reversed(entries):
            if entry.role is USER and (not is_blank(entry.content) or entry.has_media):
                return []
        return [(None, "no user message says anything")]


@dataclass(frozen=True)
class OneSystemEntryLeads(Rule):
    """At most one system entry, and it comes first; with `run` several may lead, as blocks.

    Anthropic, Gemini and Bedrock take the instructions beside the messages; Mistral and Qwen's
    template refuse a later one. Repair: later ones are hoisted to the front; ``demote`` makes user
    text of them, which keeps the cached prefix; ``stay`` leaves them between user or result and
    answer, where Claude takes them from Opus 4.8 on, and moves others on to the next such place.
    """

    code = "P2"

    later: LaterSystem = "hoist"
    run: bool = False

    def check_view(self, entries: Entries) -> list[Finding]:
        indexes = [index for index, entry in enumerate(entries) if entry.role is SYSTEM]
        found: list[Finding] = []
        for rank, index in enumerate(indexes):
            if index > rank and not (self.later == "stay" and _may_stay(entries, index)):
                found.append((index, "a system message after others"))
            elif 0 < index == rank and not self.run:
                found.append((index, "a second system message"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        roles = [*(entry.role for entry in entries), None]
        lead = next(index for index, role in enumerate(roles) if role is not SYSTEM)
        leading, rest = list(entries[:lead]), list(entries[lead:])
        if self.later == "stay":
            rest = _move_on(entries, lead)
        elif self.later == "demote":
            rest = [_demote(entry) if entry.role is SYSTEM else entry for entry in rest]
        else:
            late = [entry for entry in rest if entry.role is SYSTEM]
            rest = [entry for entry in rest if entry.role is not SYSTEM]
            if self.run or (not lead and len(late) == 1):
                late = [_move(entry, "the system message has to come first") for entry in late]
            leading += late
        if not self.run and len(leading) > 1:
            reason = "providers take one system message, at the front"
            leading = [_join_entries(leading, reason)]
        return leading + rest


def _may_stay(entries: Entries, index: int) -> bool:
    """Return whether a later system entry stands where some models take one."""
    follows = entries[index - 1].role in (USER, TOOL)
    return follows and (index + 1 == len(entries) or entries[index + 1].role is ASSISTANT)


def _move_on(entries: Entries, start: int) -> list[ConversationEntry]:
    """Return the entries from `start` with system entries at the next place where they may stay."""
    out: list[ConversationEntry] = []
    waiting: list[ConversationEntry] = []
    one = "the model takes one system message here"
    reason = "the model takes system messages behind the user's, before an answer"
    for index, entry in enumerate(entries[start:], start):
        if entry.role is SYSTEM:
            waiting.append(entry if _may_stay(entries, index) else _move(entry, reason))
            continue
        if waiting and entry.role is ASSISTANT and out and out[-1].role in (USER, TOOL):
            out.append(_join_entries(waiting, one))
            waiting = []
        out.append(entry)
    if waiting and out and out[-1].role is ASSISTANT:
        return out + list(map(_demote, waiting))
    return [*out, _join_entries(waiting, one)] if waiting else out


def _move(entry: ConversationEntry, reason: str) -> ConversationEntry:
    return copy_edited(entry, action="moved", reason=reason)


def _demote(entry: ConversationEntry) -> ConversationEntry:
    reason = "a later system message is shown as user text, so the prefix stays"
    return copy_edited(entry, role=USER, origin="note", action="repaired", reason=reason)


class UserSpeaksFirst(Rule):
    """The first entry after the system entry is the user's.

    Anthropic and Bedrock refuse another first message; Gemini and Mistral calls that stand first.
    What a provider compacted may open the list instead. Repair: a marked opening is prepended; it
    tells whether messages were left out. A greeting by the assistant is never dropped.
    """

    code = "P3"

    def check_view(self, entries: Entries) -> list[Finding]:
        for index, entry in enumerate(entries):
            if entry.role is not SYSTEM:
                message = f"the conversation starts with {entry.role.value}"
                opens = entry.role is USER or _is_compacted(entry)
                return [] if opens else [(index, message)]
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = list(entries)
        for index, message in self.check_view(entries):
            place = index or 0
            system = [1 + len((each.metadata or {}).get("merged", ())) for each in entries[:place]]
            is_cut = entries[place].root.sequence > sum(system)
            text = _OPENING_AFTER_A_CUT if is_cut else _OPENING
            out.insert(place, _invent_user(text, message))
        return out


def _is_compacted(entry: ConversationEntry) -> bool:
    return entry.barrier or any(
        as_mapping(part.raw).get("type") == "compaction" and as_mapping(part.raw).get("content")
        for part in entry.parts or ()
    )


class RequestEndsOnUserOrTool(SomeUserSpeaks):
    """A request ends on a user entry or a tool result.

    Newer Anthropic models, Gemini and Mistral answer no request that ends on the assistant, unless
    the provider goes on by itself. A history to which the caller appends may end so. Repair: a
    neutral user entry is appended.
    """

    code = "P4"

    def check_view(self, entries: Entries) -> list[Finding]:
        if entries and entries[-1].role is ASSISTANT and not awaits_provider(entries[-1]):
            return [(len(entries) - 1, "the request ends on the assistant")]
        return []


@dataclass(frozen=True)
class RolesAlternate(Rule):
    """No two user entries and no two assistant entries in a row, and no user after a result.

    Bedrock, where a result counts as the user, and the templates of Gemma 3 and Mistral 3 want
    alternating roles; Gemini refuses a call right after model text. Repair: runs are merged, text
    before a call joins the call; a marked bridge stands between a result and the user.
    """

    code = "P5"

    users: bool = True
    assistants: bool = True
    bridges: bool = True

    def check_view(self, entries: Entries) -> list[Finding]:
        found: list[Finding] = []
        for index, (last, entry) in enumerate(pairwise(entries), 1):
            if last.role is entry.role and self.belongs_together(last, entry):
                found.append((index, f"two {entry.role.value} messages in a row"))
            elif last.role is TOOL and self.needs_bridge(last, entry):
                found.append((index, "a user message right after a tool result"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        runs: list[list[ConversationEntry]] = []
        for entry in entries:
            if runs and self.belongs_together(runs[-1][-1], entry):
                runs[-1].append(entry)
                continue
            if runs and self.needs_bridge(runs[-1][-1], entry):
                runs.append([build_bridge()])
            runs.append([entry])
        reason = "{} {} messages in a row"
        return [_join_entries(run, reason.format(len(run), run[0].role.value)) for run in runs]

    def needs_bridge(self, last: ConversationEntry, entry: ConversationEntry) -> bool:
        """Return whether a bridge has to stand between a result and a user entry."""
        if not self.bridges or last.role is not TOOL or entry.role is not USER:
            return False
        source = last.root.source
        one_message = source is not None and source is entry.root.source
        return not (one_message and wire_of(entry) == "bedrock")  # its results are the user's

    def belongs_together(self, last: ConversationEntry, entry: ConversationEntry) -> bool:
        """Return whether two neighbours have to be one entry."""
        if last.role is not entry.role:
            return False
        if entry.role is USER:
            return self.users
        return entry.role is ASSISTANT and self.assistants and not last.tool_calls


@dataclass(frozen=True)
class AnswersAreWhole(RolesAlternate):
    """Two answers in a row of OpenAI Responses are one entry, as the flat list runs them together.

    The token count and the other rules have to see them as they are sent. Repair: they are merged.
    """

    users: bool = False
    bridges: bool = False

    def check_view(self, entries: Entries) -> list[Finding]:
        found = super().check_view(entries)
        return found if found and any(wire_of(each) == "responses" for each in entries) else []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        return super().repair(entries) if self.check_view(entries) else list(entries)

    def belongs_together(self, last: ConversationEntry, entry: ConversationEntry) -> bool:
        """Return whether two answers, one of which has items with a type, stand side by side."""
        is_run = super().belongs_together(last, entry) and not (last.barrier or entry.barrier)
        return is_run and (_is_typed(last) or _is_typed(entry))


def _is_typed(entry: ConversationEntry) -> bool:
    """Return whether an answer is written as items that have a type, unlike plain messages."""
    is_invented = entry.root.source is None and bool(entry.tool_calls)
    return is_invented or wire_of(entry) == "responses"


def _join_entries(run: Sequence[ConversationEntry], reason: str) -> ConversationEntry:
    """Return a run as an edited copy of its entry with calls, else of the first; one entry as it is.

    It has every word, image and thought; its metadata lists the other entries under ``"merged"``.
    """
    if len(run) == 1:
        return run[0]
    base = next((entry for entry in run if entry.tool_calls), run[0])
    content = "\n\n".join(entry.content for entry in run if entry.content) or None
    parts: tuple[ContentPart, ...] | None = None
    if any(entry.parts for entry in run):
        given = [entry.parts or (ContentPart("text", entry.content),) for entry in run]
        parts = tuple(part for each in given for part in each if part.kind != "text" or part.text)
        content = join_text(parts)
    merged = [entry.root for entry in run if entry is not base]
    merged += [root for entry in run for root in (entry.metadata or {}).get("merged", ())]
    return copy_edited(
        base,
        content=content,
        parts=parts,
        reasoning=tuple(block for entry in run for block in entry.reasoning or ()) or None,
        pinned=any(entry.pinned for entry in run),
        truncated=any(entry.truncated for entry in run),
        barrier=any(entry.barrier for entry in run),
        origin=None if any(entry.origin is None for entry in run) else base.origin,
        metadata={**(base.metadata or {}), "merged": merged},
        action="merged",
        reason=reason,
    )


def build_bridge() -> ConversationEntry:
    """Return an assistant entry to stand between a tool result and the user's next message."""
    return ConversationEntry(
        ASSISTANT,
        "[No reply before the next message.]",
        origin="bridge",
        action="inserted",
        reason="the user spoke before the assistant answered the tool result",
    )


def _invent_user(text: str, reason: str) -> ConversationEntry:
    return ConversationEntry(USER, text, origin="user", action="inserted", reason=reason)
