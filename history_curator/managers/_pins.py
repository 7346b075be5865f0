"""`PinManager`: rules the user gave once, and whatever else a predicate finds, are never lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from history_curator.errors import ConfigurationError
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole

_RULE = re.compile(
    r"(?:^|[.!?\n]\s*)(?:please\s+)?(?:always|never|from now on|remember(?: that| to)|"
    r"(?:do not|don't) ever|make sure (?:you|to) (?:always|never)|I (?:always )?prefer)\b",
    re.IGNORECASE,
)
_LONGEST_RULE = 2_000


def is_standing_rule(entry: ConversationEntry) -> bool:
    """Whether the user states a rule meant to last: always, never, I prefer.

    A guess from the words of short messages; give `PinManager` a predicate that knows better.

    Examples:
        >>> is_standing_rule(ConversationEntry(MessageRole.USER, "Always answer in French."))
        True
        >>> is_standing_rule(ConversationEntry(MessageRole.USER, "Have you always been there?"))
        False
    """
    text = entry.content
    if entry.role is not MessageRole.USER or entry.origin is not None or not text:
        return False
    return len(text) <= _LONGEST_RULE and _RULE.search(text) is not None


class PinManager:
    """Pins entries that a predicate finds, so that every later step keeps them whole.

    Put it first. Guaranteed: text is not changed; at most ``max_tokens`` tokens are pinned, the
    newest first, so that pins cannot eat the budget; pins made by the caller are left as they are.

    Args:
        predicate: says which entries to pin; by default rules found in what the user says.
        max_tokens: the most all pins of this manager may cost. None: a quarter of the budget.

    Examples:
        >>> from history_curator.tokens import get_counter
        >>> said = [ConversationEntry(MessageRole.USER, "Never call me before noon.")]
        >>> context = CurationContext(get_counter("heuristic"), max_tokens=1_000)
        >>> PinManager().curate(said, context=context)[0].pinned
        True
    """

    def __init__(
        self,
        predicate: Callable[[ConversationEntry], bool] = is_standing_rule,
        *,
        max_tokens: int | None = None,
    ) -> None:
        if not callable(predicate):
            raise ConfigurationError(f"predicate is {predicate!r}. Fix: a function of an entry.")
        self.predicate = predicate
        self.max_tokens = max_tokens

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries, some of them pinned."""
        left = self.max_tokens
        if left is None and context.max_tokens is not None:
            left = context.max_tokens // 4
        result = list(entries)
        for position in range(len(result) - 1, -1, -1):
            entry = result[position]
            if entry.pinned or entry.role is MessageRole.SYSTEM or not self.predicate(entry):
                continue
            cost = context.counter.count_entry(entry)
            if left is not None:
                if cost > left:
                    continue
                left -= cost
            result[position] = entry.evolve(pinned=True, reason="pinned by a rule")
        return result
