"""P13: reasoning stays with its calls, its prefix and the items of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from history_curator.entries import ConversationEntry, Reasoning
from history_curator.formats import ANONYMOUS, count_trailing_reasoning, item_ids, thinks_late
from history_curator.rules.base import ASSISTANT, TOOL, USER, Entries, Finding, Rule, copy_repaired
from history_curator.tokens.models import is_same_model, model_of

ReasoningMode = Literal["strip", "keep"]
Family = Literal["anthropic", "openai", "gemini", "mistral"]

SKIP_SIGNATURE = "skip_thought_signature_validator"
_SIGNATURE = "thought_signature"


@dataclass(frozen=True)
class ReasoningStaysBound(Rule):
    """Thinking stands with the calls it led to, in a form the provider signed.

    Anthropic checks signatures, and its newest models bind each block to the bytes before it.
    OpenAI Responses binds reasoning to the item behind it. Gemini 3 wants the signature on the
    first call of each step of the current turn. Repair: reasoning that another provider or model
    signed is taken off, for Anthropic also unsigned reasoning; thinking is written before the text
    of a message with calls; a missing Gemini signature gets the documented bypass. After an edited
    prefix, `mode` says whether reasoning is stripped from closed turns, or kept.
    """

    code = "P13"

    mode: ReasoningMode = "strip"
    family: Family | None = None
    model: str | None = None

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        if not entry.reasoning:
            return []
        if entry.role is not ASSISTANT:
            return [f"reasoning in a {entry.role.value} message"]
        message = "unsigned reasoning, or reasoning of another provider or model"
        found = [message for block in entry.reasoning if not self._is_accepted(block, entry)]
        if count_trailing_reasoning(entry):
            found.append("reasoning that nothing follows")
        if thinks_late(entry):
            found.append("text before the thinking of a message with calls")
        return found

    def check_view(self, entries: Entries) -> list[Finding]:
        """Look for Gemini's signature on the first call of each step of the current turn."""
        if self.family != "gemini":
            return []
        steps = [
            (index, calls[0].extra or {})
            for index in range(find_running_turn(entries), len(entries))
            if (calls := entries[index].tool_calls)
        ]
        signs = (self.model or "").rpartition("/")[2].startswith("gemini-3")
        signs = signs or any(_SIGNATURE in extra for _, extra in steps)
        message = "the first call of the step carries no thought signature"
        return [(index, message) for index, extra in steps if signs and not extra.get(_SIGNATURE)]

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        thoughts = entry.reasoning or ()
        if entry.role is not ASSISTANT:
            thoughts = ()
        followed = thoughts[: len(thoughts) - count_trailing_reasoning(entry)]
        own = tuple(block for block in followed if self._is_accepted(block, entry))
        reason = "reasoning stripped: unsigned, of another provider or model, or nothing follows it"
        if own == entry.reasoning:
            reason = "thinking has to come first in a message with calls"
        return _copy_with_reasoning(entry, own, reason)

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = super().repair(entries)
        for index, _ in self.check_view(out):
            first, *rest = out[index or 0].tool_calls or ()
            first = replace(first, extra={**(first.extra or {}), _SIGNATURE: SKIP_SIGNATURE})
            reason = "the step carried no thought signature"
            out[index or 0] = copy_repaired(out[index or 0], reason, tool_calls=(first, *rest))
        return out

    def _is_accepted(self, block: Reasoning, entry: ConversationEntry) -> bool:
        author = find_author(block)
        is_signed = block.encrypted or bool(block.signature)
        is_bound = author == "anthropic" or (author is None and is_signed)
        if is_bound and self.model is not None and self.family != "gemini":
            named = model_of(entry.root.source)
            if named is not None and not is_same_model(named, self.model):
                return False
        if self.family == "anthropic":
            return is_signed and author in ("anthropic", None)
        if author == "anthropic" and self.family in ("gemini", "mistral"):
            # Frameworks give the thoughts of any model this shape.
            return not isinstance(entry.source, Mapping)
        return self.family is None or author in (self.family, None)


class ItemsAreUnique(Rule):
    """Every id of an item of OpenAI Responses is the provider's, and stands once in the list.

    Repair: the answer is written without its ids and its reasoning, which is bound to them; items
    of the provider's own tools, which exist under their id alone, are left out.
    """

    code = "P7"

    def check_view(self, entries: Entries) -> list[Finding]:
        found: list[Finding] = []
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            source = entry.root.source
            if entry.role is not ASSISTANT or (source.__class__ is dict and "type" not in source):
                continue  # a plain message is no item
            found_ids = item_ids(entry)
            ids = [name for name, _ in found_ids]
            if not all(is_own for _, is_own in found_ids):
                found.append((index, "an id that is not of the provider, for an item of this type"))
            elif len({*ids}) < len(ids) or not seen.isdisjoint(ids):
                found.append((index, "an item that is in the list already"))
            seen.update(ids)
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = list(entries)
        for index, _ in self.check_view(entries):
            entry = out[index or 0]
            out[index or 0] = copy_repaired(
                entry,
                "items that are in the list already, or not the provider's: without their ids",
                reasoning=None,
                parts=tuple(part for part in entry.parts or () if part.kind != "other") or None,
                metadata={**(entry.metadata or {}), ANONYMOUS: True},
            )
        return out


def find_author(block: Reasoning) -> Family | None:
    """Return whose model thought a thought, by the form of the block; None where it does not tell."""
    raw = block.raw
    if not isinstance(raw, Mapping):
        return None
    if raw.get("type") in ("thinking", "redacted_thinking"):
        return "mistral" if isinstance(raw.get("thinking"), (list, tuple)) else "anthropic"
    if isinstance(raw.get("reasoningContent"), Mapping):
        return "anthropic"
    if raw.get("thought") is True:
        return "gemini"
    is_openai = "encrypted_content" in raw or str(raw.get("id")).startswith("rs_")
    return "openai" if is_openai else None


def find_running_turn(entries: Entries) -> int:
    """Return where the turn begins whose tool loop is running; the length when none is."""
    if not entries or entries[-1].role is not TOOL:
        return len(entries)
    newest = range(len(entries) - 1, -1, -1)
    return next((index for index in newest if entries[index].role is USER), 0)


def strip_reasoning(entry: ConversationEntry) -> ConversationEntry:
    """Return an entry without its reasoning, or the entry itself when it has none."""
    if not entry.reasoning:
        return entry
    reason = "reasoning stripped: an earlier message was edited or left out"
    return _copy_with_reasoning(entry, (), reason)


def _copy_with_reasoning(
    entry: ConversationEntry, own: tuple[Reasoning, ...], reason: str
) -> ConversationEntry:
    """Return an entry, and the message it was read from, with no other reasoning than this."""
    source: Any = entry.source
    blocks = source.get("content") if isinstance(source, Mapping) else None
    if isinstance(blocks, list):
        removed = {id(each.raw) for each in entry.reasoning or ()} - {id(each.raw) for each in own}
        source = {**source, "content": [block for block in blocks if id(block) not in removed]}
    return copy_repaired(entry, reason, reasoning=own or None, source=source)
