"""P13: thinking stays with its calls, and with the prefix it was thought after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from history_curator.formats import is_same_model, model_of, sent_parts, unfollowed
from history_curator.errors import HistoryCuratorError
from history_curator.entries import ConversationEntry, Reasoning
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)

ReasoningMode = Literal["strip", "keep", "refuse"]
Family = Literal["anthropic", "openai", "gemini", "mistral"]

SKIP_SIGNATURE = "skip_thought_signature_validator"
_SIGNATURE = "thought_signature"
_ANTHROPIC_BLOCKS = {"thinking", "redacted_thinking"}


class ReasoningBoundError(HistoryCuratorError):
    """A message was edited or left out although later reasoning is bound to it."""

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(
            f"messages[{index}].reasoning: an earlier message was edited or left out, and this "
            'reasoning is bound to it. Fix: use reasoning="strip" or "keep", or a larger budget.'
        )

    def __reduce__(self) -> tuple[type[ReasoningBoundError], tuple[int]]:
        return (ReasoningBoundError, (self.index,))


class ReasoningStaysBound(Invariant):
    """Thinking stands with the calls it led to, in a form the provider signed.

    Anthropic: ``Expected thinking or redacted_thinking, but found tool_use``, ``Invalid signature
    in thinking block``; newest models bind each block to the bytes before it. OpenAI Responses:
    ``Item of type 'reasoning' was provided without its required following item``. Gemini 3 wants
    the signature on the first call of each step of the current turn.

    Reasoning is a field of the entry that carries the calls, so the two cannot part. What is
    left to repair: what another provider signed is taken off, for Anthropic also what nobody did; a
    missing Gemini signature gets the documented bypass. `settle` answers an edit of the prefix.

    Args:
        mode: what to do with reasoning after an edited prefix: ``strip`` it from closed turns,
            ``keep`` it, or ``refuse`` the edit.
        family: whose reasoning is taken; None takes any.
        model: the model that is asked, where it is known. What another one signed goes where its
            message names the other: a signature of Anthropic is good for the model that gave it.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole, Reasoning
        >>> thought = ConversationEntry(MessageRole.ASSISTANT, "42", reasoning=(Reasoning("hm"),))
        >>> ReasoningStaysBound(family="anthropic").repair([thought])[0].reasoning is None
        True
    """

    code = "P13"
    about = has.REASONING
    errors: ClassVar[Errors] = {
        "foreign": {
            "anthropic": "Invalid `signature` in `thinking` block",
            "openai": "Invalid value: 'thinking'. Supported values are: 'text' and 'refusal'.",
        },
        "unfollowed": {
            "openai": "Item of type 'reasoning' was provided without its required following item."
        },
        "misplaced": {"anthropic": "thinking blocks may only be in `assistant` messages"},
        "unsigned": {
            "gemini": "Function call is missing a thought_signature in functionCall parts"
        },
    }

    def __init__(
        self,
        mode: ReasoningMode = "strip",
        *,
        family: Family | None = None,
        model: str | None = None,
    ) -> None:
        self.mode = mode
        self.family = family
        if family == "gemini":
            self.about |= has.CALLS  # they carry the signatures
        self.model = model

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Look for reasoning nobody could have signed."""
        if not entry.reasoning:
            return []
        if entry.role is not ASSISTANT:
            return [("misplaced", f"reasoning in a {entry.role.value} message")]
        found = [
            ("foreign", "unsigned reasoning, or reasoning of another provider or model")
            for block in entry.reasoning
            if not self._is_own(block, entry)
        ]
        if unfollowed(entry):
            found.append(("unfollowed", "reasoning that nothing follows"))
        return found

    def look_across(self, entries: Entries) -> list[Finding]:
        """Gemini: look for the first call of each step of the current turn."""
        if self.family != "gemini":
            return []
        steps = [
            (index, entries[index].tool_calls[0].extra or {})  # type: ignore[index]
            for index in range(running_turn(entries), len(entries))
            if entries[index].tool_calls
        ]
        if not any(_SIGNATURE in extra for _, extra in steps):
            return []  # Not a model that signs.
        return [
            (index, "unsigned", "the first call of the step carries no thought signature")
            for index, extra in steps
            if not extra.get(_SIGNATURE)
        ]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Take off what no provider would take, sign what may be signed."""
        out = [
            remembered(entry, ("own", self.family, self.model), partial(self._own, entry))
            if self.look_at(entry)
            else entry
            for entry in entries
        ]
        for index, _, _ in self.look_across(out):
            if index is not None:
                out[index] = remembered(out[index], "signed", partial(_signed, out[index]))
        return out

    def settle(self, entries: Entries, since: int = 0) -> list[ConversationEntry]:
        """Answer an edit at or before `since`: strip, keep or refuse.

        Reasoning of the turn whose tool loop is running always stays: providers ask for it.

        Raises:
            ReasoningBoundError: in mode ``refuse``, when reasoning follows the edit.
        """
        if self.mode == "keep":
            return list(entries)
        end = running_turn(entries)
        out = list(entries)
        for index in range(since, end):
            entry = entries[index]
            if entry.reasoning:
                if self.mode == "refuse":
                    raise ReasoningBoundError(index)
                out[index] = remembered(entry, "stripped", partial(_stripped, entry))
        return out

    def _is_own(self, block: Reasoning, entry: ConversationEntry) -> bool:
        author = author_of(block)
        signed = block.encrypted or bool(block.signature)
        bound = author == "anthropic" or (author is None and signed)
        if bound and self._is_of_another_model(entry):
            return False
        if self.family is None:
            return True
        if self.family == "anthropic":
            return signed and author in ("anthropic", None)
        if author == "anthropic" and self.family in ("gemini", "mistral"):
            # Frameworks give the thoughts of any model this shape.
            return not isinstance(entry.source, Mapping)
        return author in (self.family, None)

    def _is_of_another_model(self, entry: ConversationEntry) -> bool:
        named = None if self.model is None else model_of(entry.root.source)
        return named is not None and not is_same_model(named, self.model or "")

    def _own(self, entry: ConversationEntry) -> ConversationEntry:
        kept: tuple[Reasoning, ...] = ()
        if entry.role is ASSISTANT:
            thoughts = entry.reasoning or ()
            thoughts = thoughts[: len(thoughts) - unfollowed(entry)]
            kept = tuple(block for block in thoughts if self._is_own(block, entry))
        return edit(
            entry,
            reasoning=kept or None,
            source=_source_with(entry, kept),
            action=entry.action or "repaired",
            reason="reasoning stripped: unsigned, of another provider or model, or nothing follows it",
        )


def author_of(block: Reasoning) -> Family | None:
    """Whose model thought a thought, as the form of the block tells; None where it does not.

    Examples:
        >>> author_of(Reasoning("hm", "sig", {"type": "thinking", "thinking": "hm"}))
        'anthropic'
    """
    raw = block.raw
    if not isinstance(raw, Mapping):
        return None
    if raw.get("type") in _ANTHROPIC_BLOCKS:
        return "mistral" if isinstance(raw.get("thinking"), (list, tuple)) else "anthropic"
    if isinstance(raw.get("reasoningContent"), Mapping):
        return "anthropic"
    if raw.get("thought") is True:
        return "gemini"
    name = raw.get("id")
    if (isinstance(name, str) and name.startswith("rs_")) or "encrypted_content" in raw:
        return "openai"
    return None


def running_turn(entries: Entries) -> int:
    """Where the turn begins whose tool loop is running; the length when none is."""
    if not entries or entries[-1].role is not TOOL:
        return len(entries)
    for index in range(len(entries) - 1, -1, -1):
        if entries[index].role is USER:
            return index
    return 0


def _source_with(entry: ConversationEntry, kept: tuple[Reasoning, ...]) -> Any:
    """The message an entry was read from, without the blocks of the reasoning taken off."""
    source = entry.source
    blocks = source.get("content") if isinstance(source, Mapping) else None
    if not isinstance(blocks, list):
        return source
    gone = {id(each.raw) for each in entry.reasoning or ()} - {id(each.raw) for each in kept}
    return {**source, "content": [block for block in blocks if id(block) not in gone]}


def _stripped(entry: ConversationEntry) -> ConversationEntry:
    return edit(
        entry,
        reasoning=None,
        parts=sent_parts(edit(entry, reasoning=None)),
        source=_source_with(entry, ()),
        action=entry.action or "repaired",
        reason="reasoning stripped: an earlier message was edited or left out",
    )


def _signed(entry: ConversationEntry) -> ConversationEntry:
    first, *rest = entry.tool_calls or ()
    extra = {**(first.extra or {}), _SIGNATURE: SKIP_SIGNATURE}
    return edit(
        entry,
        tool_calls=(replace(first, extra=extra), *rest),
        action=entry.action or "repaired",
        reason="the step carried no thought signature",
    )
