"""What agents and LLMs share: the settings of their curator, honoured whenever they are set."""

from __future__ import annotations

from typing import Any, ClassVar

from llama_index.core.llms import LLM
from pydantic import BaseModel, Field, PrivateAttr

from history_curator.curator import Curator
from history_curator.settings import CuratorConfig
from llamaindex_history_curator._setup import check_alone, make_curator
from llamaindex_history_curator._view import Viewer


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
    curator: Any = Field(default=None, exclude=True)
    config: Any = Field(default=None, exclude=True)
    objects: Any = Field(default=None, exclude=True)

    _socket: ClassVar[str] = "llm"
    _rides: ClassVar[bool] = True
    """Whether the LLM is sent the view as it is."""
    _watched: ClassVar[frozenset[str]] = frozenset(
        ("token_limit", "managers", "provider", "counter", "mark_cache", "curator", "config",
         "objects")
    )  # fmt: skip
    _viewing: tuple[LLM, Viewer] | None = PrivateAttr(default=None)
    _checked: bool = PrivateAttr(default=False)

    def _check_settings(self) -> None:
        """Refuse what cannot work. The LLM is left out, because it may be exchanged."""
        given = {"token_limit": self.token_limit, "managers": self.managers}
        given |= {"counter": self.counter, "provider": self.provider}
        check_alone(self.curator, config=self.config, objects=self.objects, **given)
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

    def _own_options(self) -> dict[str, Any]:
        """Return further options of the curator."""
        return {}

    def _make_curator(self, llm: LLM | None) -> Curator:
        return make_curator(
            self.managers,
            llm=llm,
            token_limit=self.token_limit,
            provider=self.provider,
            counter=self.counter,
            config=self.config,
            objects=self.objects,
            **self._own_options(),
        )

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
