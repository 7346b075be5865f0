"""One model call with a view in place of the conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from history_curator._drive import Ask, Body
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.tokens import read_usage

if TYPE_CHECKING:
    from history_curator.curator import Curation, Curator

RETRIES = 2
"""How often a refused request is repeated with a smaller view."""
SHRINK = 0.55
"""Share of a refused view that its repetition has at most: one that is counted 1.7 times fits."""
_LESS = 0.9
"""Less than this share of what was foretold is a surprise."""
_SURE = 0.97
"""Of what a refusal says would have fitted."""
_NEAR = 4
"""Numbers further from ours than this many times are about something else."""
_NUMBER = re.compile(r"\b\d{1,3}(?:,\d{3})+\b|\b\d{3,}\b")
_REFUSAL = re.compile(
    r"context[_ ]length[_ ]exceeded"
    r"|(?:maximum|max|model's) context (?:length|window|limit|size)"
    r"|(?:exceed\w*|longer than|larger than) (?:the |this )?(?:available |model's )?context"
    r"|exceed\w* the maximum number of (?:input )?tokens"
    r"|token count .{0,60}exceed"
    r"|input tokens exceed"
    r"|(?:prompt|input|request|conversation) is too long"
    r"|prompt contains \d+ tokens.{0,60}too large",
    re.IGNORECASE,
)
_LIMITED = 429
"""The status of a request that came too soon, whatever it says about tokens."""


def is_too_long(error: Exception) -> bool:
    """Return whether a provider says by an error that the request was too long for its model.

    LangChain has an error for it. Others are known by what they say, as OpenAI, Anthropic, Gemini,
    Bedrock, Mistral and servers of open models word it.

    Examples:
        >>> is_too_long(ValueError("prompt is too long: 214532 tokens > 200000 maximum"))
        True
        >>> is_too_long(ValueError("the tool timed out"))
        False
    """
    if any(kind.__name__ == "ContextOverflowError" for kind in type(error).__mro__):
        return True
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return status != _LIMITED and _REFUSAL.search(str(error)) is not None


@dataclass(slots=True)
class CuratedCall:
    """Curate, send, and curate again, smaller, when the provider says it was too long.

    `drive` and `adrive` run it; `send` says how a curation is sent, in both forms.

    Attributes:
        curator: decides.
        messages: the whole conversation.
        arguments: those of `Curator.curate`; a budget is needed for `retries`.
        send: what sends a curation.
        too_long: tells the errors by which a provider says so.
        retries: how often a refused request is repeated with a smaller view.
        shrink: each repeated view has at most this share of the one before, unless the first
            refusal says by how much it was too long.
        curating: opens around each curation, such as a span of a trace.
        first: what to send first, where it was curated before.
        usage: what of an answer says what was counted. The curation is told where its message does
            not say enough: after a refusal, because the view that was accepted is not the one that
            follows from the conversation; and where something else was counted than was foretold,
            because anybody else would have to doubt that the report is about this view.
    """

    curator: Curator
    messages: Sequence[Any]
    arguments: dict[str, Any]
    send: Callable[[Curation], Ask]
    too_long: Callable[[Exception], bool] = is_too_long
    retries: int = RETRIES
    shrink: float = SHRINK
    curating: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)
    first: Curation | None = None
    usage: Callable[[Any], Any] = lambda answer: answer

    def body(self) -> Body[Any]:
        """Return what the model answered.

        Raises:
            BudgetUnsatisfiableError: when what must be sent does not fit.
        """
        curator, arguments = self.curator, dict(self.arguments)
        left = 0 if curator.mode == "shadow" else self.retries
        refusal: Exception | None = None
        curation = self.first
        while True:
            ask = Ask(curator.curate, curator.acurate, (self.messages,), arguments)
            try:
                if curation is None:
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
            except Exception as error:
                if left <= 0 or not self.too_long(error):
                    raise
                share = None if refusal else _fitting(error, curation.tokens)
                left, refusal = left - 1, error
            else:
                said = self.usage(answer)
                if refusal is not None or _surprises(curation, said):
                    curation.observe(said)
                return answer
            # Kept free, because another budget would be another cut with other reports.
            limit = arguments.get("max_tokens") or curator.max_tokens or curation.tokens
            most = int(min(limit, curation.tokens) * (share or self.shrink))
            arguments |= {"max_tokens": limit, "reserve": limit - max(1, most)}
            curation = None


def _surprises(curation: Curation, answer: Any) -> bool:
    """Whether the provider counted something else than was foretold."""
    usage, tokens = read_usage(answer), curation.tokens
    most = tokens + (curation.error or 0)
    return usage is not None and not _LESS * tokens <= usage.input <= most


def _fitting(error: Exception, tokens: int) -> float | None:
    """Return the share of a refused request that fits, where the refusal has both numbers.

    Such as ``prompt is too long: 214532 tokens > 200000 maximum``.
    """
    numbers = {int(each.replace(",", "")) for each in _NUMBER.findall(str(error))}
    near = sorted(each for each in numbers if tokens / _NEAR <= each <= tokens * _NEAR)
    return _SURE * near[-2] / near[-1] if len(near) > 1 else None
