"""One model call with a view in place of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from history_curator._drive import Ask, Body
from history_curator.errors import BudgetUnsatisfiableError

if TYPE_CHECKING:
    from history_curator.curator import Curation, Curator


@dataclass(slots=True)
class CuratedCall:
    """Curate, send, and curate again, smaller, when the provider says it was too long.

    `drive` and `adrive` run it; `send` says how a curation is sent, in both forms.

    Attributes:
        curator: decides.
        messages: the whole conversation.
        arguments: those of `Curator.curate`; a budget is needed for `retries`.
        send: what sends a curation.
        too_long: the errors by which a provider says so.
        retries: how often a refused request is repeated with a smaller view.
        shrink: each repeated view has at most this share of the one before.
        curating: opens around each curation, such as a span of a trace.
        usage: what of an answer says what was counted. It is asked after a refusal: the view that
            was accepted is not the one that follows from the conversation, so nobody else knows
            what the report is about.
    """

    curator: Curator
    messages: Sequence[Any]
    arguments: dict[str, Any]
    send: Callable[[Curation], Ask]
    too_long: tuple[type[Exception], ...] = ()
    retries: int = 0
    shrink: float = 0.7
    curating: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)
    usage: Callable[[Any], Any] = lambda answer: answer

    def body(self) -> Body[Any]:
        """Return what the model answered.

        Raises:
            BudgetUnsatisfiableError: when what must be sent does not fit.
        """
        curator, arguments = self.curator, dict(self.arguments)
        left = 0 if curator.mode == "shadow" else self.retries
        refusal: Exception | None = None
        while True:
            ask = Ask(curator.curate, curator.acurate, (self.messages,), arguments)
            try:
                with self.curating() as opened:
                    curation = yield ask
                    if opened is not None:
                        opened(curation)
            except BudgetUnsatisfiableError:
                if refusal is not None:  # nothing smaller is left
                    raise refusal from None
                raise
            try:
                answer = yield self.send(curation)
                if refusal is not None:
                    curation.observe(self.usage(answer))
                return answer
            except self.too_long as error:
                if left <= 0:
                    raise
                left -= 1
                refusal = error
            sent = min(arguments.get("max_tokens") or curation.tokens, curation.tokens)
            arguments["max_tokens"] = max(1, int(sent * self.shrink))
