"""P7 to P9: ids, names and arguments of calls that a provider accepts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from typing import Literal

from history_curator.entries import ConversationEntry, ToolCall
from history_curator.formats import has_call_ids, has_object_arguments, parse_object, wire_of
from history_curator.rules.base import TOOL, Entries, Finding, Rule, copy_repaired

PORTABLE_ID = r"[A-Za-z0-9_-]{1,40}"
MISTRAL_ID = r"[A-Za-z0-9]{9}"
BEDROCK_ID = r"[a-zA-Z0-9_.:-]{1,64}"
PORTABLE_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
PLAIN_NAME = r"[A-Za-z0-9_-]{1,64}"
LONG_NAME = r"[A-Za-z0-9_-]{1,128}"
GEMINI_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
_is_author = re.compile(r"[^\s<|\\/>]{1,64}").fullmatch
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NO_AUTHOR = re.compile(r"[\s<|\\/>]+")


@dataclass(frozen=True)
class CallIdsAreUnique(Rule):
    """No two calls share an id, and every id fits the provider's alphabet and length.

    OpenAI takes 40 characters at most, Mistral exactly nine letters and digits. Anthropic refuses
    an id that was used before, in earlier turns too.

    Repair: a short hash of the old id and of how often it occurred before, on both sides. A valid
    id is left alone, and so is a call that has none on the wire.

    Args:
        pattern: what an id has to match in full.
        scope: where an id may occur once, in the whole conversation or in one message.
        length: characters of a new id, ``call_`` included unless `bare`.
        bare: a new id is letters and digits only.
    """

    code = "P7"
    pattern: str = PORTABLE_ID
    scope: Literal["conversation", "message"] = "conversation"
    length: int = 21
    bare: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        ids = [call.id for call in entry.tool_calls or () if has_call_ids(call)]
        answered = entry.tool_call_id
        if answered is not None and entry.role is TOOL and wire_of(entry) != "gemini":
            ids.append(answered)  # for Gemini, the call says whether it has an id
        return [
            f"the call id {name!r} does not match {self.pattern}"
            for name in ids
            if not re.fullmatch(self.pattern, name)
        ]

    def check_view(self, entries: Entries) -> list[Finding]:
        ids = [call.id for entry in entries if entry.tool_calls for call in entry.tool_calls]
        if len(set(ids)) == len(ids):
            return []
        found: list[Finding] = []
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            if entry.tool_calls and self.scope == "message":
                seen = set()
            for call in entry.tool_calls or ():
                if has_call_ids(call):
                    if call.id in seen:
                        found.append((index, f"the call id {call.id!r} is used again"))
                    seen.add(call.id)
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Rename on both sides. Expects results right behind their calls."""
        out: list[ConversationEntry] = []
        seen: set[str] = set()
        times: Counter[str] = Counter()
        renamed: list[tuple[str, str]] = []  # the old and the new id of each call before
        for entry in entries:
            changed = entry
            if calls := entry.tool_calls:
                if self.scope == "message":
                    seen, times = set(), Counter()
                new = tuple(self._rename(call, times, seen) for call in calls)
                renamed = [(call.id, one.id) for call, one in zip(calls, new, strict=True)]
                if new != calls:
                    reason = "a call id was used before or is not one the provider takes"
                    changed = copy_repaired(entry, reason, tool_calls=new)
            elif entry.role is TOOL:
                pair = next((pair for pair in renamed if pair[0] == entry.tool_call_id), None)
                if pair is not None:
                    renamed.remove(pair)
                    if pair[0] != pair[1]:
                        reason = "renamed with its call"
                        changed = copy_repaired(entry, reason, tool_call_id=pair[1])
            out.append(changed)
        return out

    def _rename(self, call: ToolCall, times: Counter[str], seen: set[str]) -> ToolCall:
        times[call.id] += 1
        if not has_call_ids(call):
            return call
        if call.id in seen or not re.fullmatch(self.pattern, call.id):
            call = replace(call, id=self._hash_id(call.id, times[call.id], seen))
        seen.add(call.id)
        return call

    def _hash_id(self, old: str, times: int, seen: set[str]) -> str:
        for salt in count():
            digest = sha256(f"{old}\0{times}\0{salt}".encode("utf-8", "surrogatepass")).hexdigest()
            new = f"{'' if self.bare else 'call_'}{digest}"[: self.length]
            if new not in seen:
                break
        return new


@dataclass(frozen=True)
class ArgumentsAreObjects(Rule):
    """The arguments of every call are the text of a JSON object.

    All but OpenAI parse the arguments; most malformed ones were cut off at a token limit. With
    `texts=False` arguments that are sent as text may be anything.

    Repair: the arguments become ``{}``.
    """

    code = "P9"

    texts: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        return [
            f"the arguments of {call.name!r} are not a JSON object"
            for call in entry.tool_calls or ()
            if not self._accepts(call)
        ]

    def _accepts(self, call: ToolCall) -> bool:
        if call.arguments == "{}" or not (self.texts or has_object_arguments(call)):
            return True
        return parse_object(call.arguments) is not None

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        calls = tuple(
            call if self._accepts(call) else replace(call, arguments="{}")
            for call in entry.tool_calls or ()
        )
        reason = "the arguments of a call were not a JSON object"
        return copy_repaired(entry, reason, tool_calls=calls)


@dataclass(frozen=True)
class ToolNamesAreAccepted(Rule):
    """Tool names match the provider's pattern, and a result carries the name of its call.

    OpenAI, Bedrock and Mistral take ``[a-zA-Z0-9_-]{1,64}``; Gemini wants a letter or an
    underscore first; OpenAI also refuses white space in the author's ``name``, which is checked
    with `authors`.

    Repair: odd characters become underscores, on both sides; a result's name follows its call.
    """

    code = "P8"
    within_units = True

    pattern: str = PORTABLE_NAME
    authors: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        names = [call.name for call in entry.tool_calls or ()]
        if entry.tool_name is not None and entry.role is TOOL:
            names.append(entry.tool_name)
        found = [
            f"the tool name {name!r} does not match {self.pattern}"
            for name in names
            if not re.fullmatch(self.pattern, name)
        ]
        if self._is_odd_author(entry.name):
            found.append(f"the name {entry.name!r} is empty, long or has a space")
        return found

    def _is_odd_author(self, name: str | None) -> bool:
        return name is not None and self.authors and not _is_author(name)

    def check_view(self, entries: Entries) -> list[Finding]:
        return [
            (index, f"the result is named {entries[index].tool_name!r}, its call {name!r}")
            for index, name in _find_misnamed(entries)
        ]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = super().repair(entries)
        for index, name in _find_misnamed(out):
            reason = "a result carries the name of its call"
            out[index] = copy_repaired(out[index], reason, tool_name=name)
        return out

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        calls, tool_name, name = entry.tool_calls, entry.tool_name, entry.name
        if name is not None and self._is_odd_author(name):
            name = _NO_AUTHOR.sub("_", name)[:64] or None
        return copy_repaired(
            entry,
            "a name had characters the provider refuses",
            tool_calls=calls and tuple(replace(c, name=self._clean_name(c.name)) for c in calls),
            tool_name=None if tool_name is None else self._clean_name(tool_name),
            name=name,
        )

    def _clean_name(self, name: str) -> str:
        plain = _NO_NAME.sub("_", name) or "unknown_tool"
        for candidate in (name, plain, plain[:64], f"_{plain}"[:64]):
            if re.fullmatch(self.pattern, candidate):
                return candidate
        return "unknown_tool"


def _find_misnamed(entries: Entries) -> list[tuple[int, str]]:
    """Return the index of every result that is not named as its call, and the call's name."""
    found: list[tuple[int, str]] = []
    names: dict[str | None, str] = {}
    for index, entry in enumerate(entries):
        if entry.tool_calls:
            names = {call.id: call.name for call in entry.tool_calls}
        elif entry.tool_name is not None and entry.role is TOOL:
            name = names.get(entry.tool_call_id, entry.tool_name)
            if name != entry.tool_name:
                found.append((index, name))
    return found
