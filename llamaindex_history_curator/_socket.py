"""What agents, LLMs and memories share: the step from messages to their view, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM
from pydantic import BaseModel, Field, PrivateAttr

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from history_curator.managers.summaries import Live, Sent, riding
from history_curator.rules import ProviderProfile
from history_curator.config import CuratorConfig
from history_curator.integrations import Ask, Body, adrive, drive
from llamaindex_history_curator._cache import mark_curation, marks_for
from llamaindex_history_curator._format import DIALECT
from llamaindex_history_curator._events import publish
from llamaindex_history_curator._llm_messages import Wire
from llamaindex_history_curator._models import tool_schemas
from llamaindex_history_curator._options import check_alone, make_curator
from llamaindex_history_curator._view import Request, View


def limit_of(curator: Curator) -> int:
    """Return the budget of a curator.

    Raises:
        ConfigurationError: when it has none.
    """
    if curator.max_tokens is None:
        raise ConfigurationError(
            "curator: it has no budget. Fix: give the Curator max_tokens, or pass managers and "
            "token_limit instead of a curator."
        )
    return curator.max_tokens


def check_reserve(reserve: int, limit: int) -> None:
    """Refuse to keep all of a budget free.

    Raises:
        ConfigurationError: when nothing is left of it.
    """
    if reserve >= limit:
        raise ConfigurationError(
            f"reserve is {reserve}, which leaves nothing of {limit} tokens. "
            "Fix: a smaller reserve, or a larger token_limit."
        )


class Viewer:
    """Turns messages into their view, marks the cache and publishes the event.

    Args:
        curator: decides.
        socket: what events call the place it happens.
        mark_cache: put a `CachePoint` wherever the cache plan says.
        llm: the LLM that gets the view; one that takes no cache points gets no mark.
        copy: returns a copy of a message, for a socket that gives out copies.
        rides: whether the LLM is sent the view as it is, so that a summary may go behind it.
    """

    def __init__(
        self,
        curator: Curator,
        socket: str,
        *,
        mark_cache: bool = False,
        llm: LLM | None = None,
        copy: Callable[[ChatMessage], ChatMessage] | None = None,
        rides: bool = False,
    ) -> None:
        self.curator = curator
        self._rides = None
        if rides and llm is not None and curator.managers:
            self._rides = Rides(llm, curator.profile)
        self.socket = socket
        self._llm = llm
        self._marks = marks_for(llm, mark_cache)
        self._wire = Wire(curator.profile.name, llm)
        self._copy = copy

    def view(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[Any] | None = None, **options: Any
    ) -> View:
        """Return the view of the messages, to be sent unless the options of `curate` differ."""
        return drive(self._view(messages, tools, options))

    async def aview(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[Any] | None = None, **options: Any
    ) -> View:
        """Return the view of the messages; see `view`."""
        return await adrive(self._view(messages, tools, options))

    def _view(
        self, messages: Sequence[ChatMessage], tools: Sequence[Any] | None, options: dict[str, Any]
    ) -> Body[View]:
        usual = {"tail": "request", "tools": tool_schemas(tools), "format": DIALECT}
        asked = Request(self, list(messages), tools, {**usual, **options})
        curator = self.curator
        with self.riding(asked):
            curation = yield Ask(curator.curate, curator.acurate, (asked.messages,), asked.options)
        return self.finished(curation, asked)

    @property
    def model(self) -> str | None:
        """Who is asked, where it is known."""
        return None if self._llm is None else self._llm.metadata.model_name

    def riding(self, asked: Request) -> AbstractContextManager[None]:
        """Open around a curation: a summary may go behind the request that was sent last."""
        rides = self._rides
        return riding(None if rides is None else rides.live(asked.options.get("key"), asked.tools))

    def finished(self, curation: Curation, asked: Request) -> View:
        """Return a curation as it is sent."""
        publish(curation, self.socket)
        messages = curation.messages
        if self._copy is not None:
            messages = list(map(self._copy, messages))
        if self.curator.mode != "shadow":
            messages = self._wire(messages)
            if self._marks:
                messages = self._wire(mark_curation(messages, curation, self.model))
        if self._rides is not None:
            self._rides.note(asked.options.get("key"), curation, messages, asked.tools)
        return View(messages, curation, asked)


class Socket(BaseModel):
    """Settings of a curator on a model with an LLM.

    A setting that is assigned holds from the next call on; one that cannot work is refused and
    changes nothing. The LLM can be exchanged: budget, counter and provider follow it.
    """

    token_limit: int | None = Field(default=None, gt=0)
    managers: Any = Field(default=(), exclude=True)
    provider: str = "auto"
    counter: Any = Field(default=None, exclude=True)
    mark_cache: bool = False
    retrieve: bool | None = None
    curator: Any = Field(default=None, exclude=True)
    config: Any = Field(default=None, exclude=True)
    objects: Any = Field(default=None, exclude=True)

    _socket: ClassVar[str] = "llm"
    _rides: ClassVar[bool] = True
    """Whether the LLM is sent the view as it is."""
    _watched: ClassVar[frozenset[str]] = frozenset()
    """The settings that are looked at when they are assigned: the fields above."""
    _viewing: tuple[LLM, Viewer] | None = PrivateAttr(default=None)
    _checked: bool = PrivateAttr(default=False)

    def _check_settings(self) -> None:
        """Refuse what cannot work. The LLM is left out, because it may be exchanged."""
        check_alone(self.curator, **self._made_of(), retrieve=self.retrieve)
        if self.config is not None:
            self.__dict__["config"] = CuratorConfig.load(self.config)
        if self.curator is None:
            self._make_curator(None)
        self._checked, self._viewing = True, None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._watched or not self._checked:
            super().__setattr__(name, value)
            return
        before = self.__dict__[name]
        super().__setattr__(name, value)
        try:
            self._check_settings()
        except Exception:
            self.__dict__[name] = before
            raise

    def _made_of(self) -> dict[str, Any]:
        names = ("token_limit", "managers", "provider", "counter", "config", "objects")
        return {name: getattr(self, name) for name in names}

    def _own_options(self) -> dict[str, Any]:
        """Return further options of the curator."""
        return {} if self.retrieve is None else {"retrieve": self.retrieve}

    def _make_curator(self, llm: LLM | None) -> Curator:
        return make_curator(llm=llm, **self._made_of(), **self._own_options())

    def _viewer(self) -> Viewer:
        # Made on first use, and again when the LLM is exchanged.
        llm: LLM = self.llm  # type: ignore[attr-defined]
        if self._viewing is None or self._viewing[0] is not llm:
            curator: Curator = self.curator or self._make_curator(llm)
            viewer = Viewer(
                curator, self._socket, mark_cache=self.mark_cache, llm=llm, rides=self._rides
            )
            self._viewing = (llm, viewer)
        return self._viewing[1]


Socket._watched = frozenset(Socket.model_fields)


class Rides:
    """What an LLM was sent last, to be sent again with one instruction behind it.

    Args:
        llm: the LLM that gets the views.
        profile: whose rules they follow.
    """

    def __init__(self, llm: LLM, profile: ProviderProfile) -> None:
        self._llm = llm
        self._profile = profile
        self._sent = Sent()

    def note(
        self, key: Any, curation: Curation, messages: Sequence[ChatMessage], tools: Any
    ) -> None:
        """Remember what is about to be sent."""
        self._sent.note(key, curation.entries, (list(messages), list(tools or ())))

    def live(self, key: Any, tools: Any) -> Live | None:
        """Return the last request, where the next one has the same tools."""
        sent = self._sent.last(key, self._profile)
        if sent is None:
            return None
        entries, (messages, bound) = sent
        if list(tools or ()) != bound or any(isinstance(tool, dict) for tool in bound):
            return None
        llm: Any = self._llm

        def asking(instruction: str) -> Body[Any]:
            said = [*messages, ChatMessage(role="user", content=instruction)]
            if bound:
                history = {"chat_history": said}
                answer = yield Ask(llm.chat_with_tools, llm.achat_with_tools, (bound,), history)
            else:
                answer = yield Ask(llm.chat, llm.achat, (said,))
            return answer.message

        return Live(
            entries,
            self._serves,
            lambda instruction: drive(asking(instruction)),
            lambda instruction: adrive(asking(instruction)),
        )

    def _serves(self, summarizer: Any) -> bool:
        if summarizer is self._llm:
            return True
        named = getattr(getattr(summarizer, "metadata", None), "model_name", None)
        known = self._llm.metadata.model_name
        return type(summarizer) is type(self._llm) and named == known not in (None, "", "unknown")
