"""A folder of finished conversations, so that a long replay can be stopped and taken up again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.lab._conversation import LabConversation
from history_curator.lab._measure import Settings, Tally, tally_to_dict
from history_curator.lab._policies import Policy
from history_curator.model import write_private


class FinishedFolder:
    """One JSON file per finished conversation, and one that says how they were measured.

    A conversation is known by its content, so files may be added, removed or reordered between
    two runs. The folder belongs to one set of policies and settings; another set is refused. What
    is compared are the policies' names, kinds and budgets: a manager's options are not seen.
    """

    def __init__(
        self, path: str | Path, policies: Mapping[str, Policy], settings: Settings
    ) -> None:
        self._folder = Path(path)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check(_described(policies, settings))

    def _check(self, wanted: dict[str, Any]) -> None:
        manifest = self._folder / "run.json"
        if not manifest.exists():
            _write(manifest, wanted)
            return
        found = json.loads(manifest.read_text(encoding="utf-8"))
        for key, value in wanted.items():
            if found.get(key) != value:
                raise ConfigurationError(
                    f"{self._folder} holds a run with {key} {found.get(key)!r}, not {value!r}. "
                    "Fix: take up the same run, or pass another folder."
                )

    def read(self, conversation: LabConversation) -> dict[str, Tally] | None:
        """Return what was measured of a conversation, or None when it is not finished."""
        path = self._path(conversation)
        if not path.exists():
            return None
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {name: Tally(**row) for name, row in rows.items()}

    def write(self, conversation: LabConversation, tallies: Mapping[str, Tally]) -> None:
        """Keep what was measured; a file is there whole or not at all."""
        rows = {name: tally_to_dict(tally) for name, tally in tallies.items()}
        _write(self._path(conversation), rows)

    def _path(self, conversation: LabConversation) -> Path:
        said = json.dumps(
            [conversation.id, conversation.messages, conversation.questions, conversation.tools],
            default=str, sort_keys=True,
        )  # fmt: skip
        return self._folder / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"


def _described(policies: Mapping[str, Policy], settings: Settings) -> dict[str, Any]:
    return {
        "policies": [
            [name, type(policy).__name__, policy.max_tokens] for name, policy in policies.items()
        ],
        "counter": settings.counter.name,
        "provider": settings.provider,
        "prices": [repr(sheet) for sheet in settings.prices],
        "max_calls": settings.max_calls,
    }


def _write(path: Path, data: Any) -> None:
    write_private(path, json.dumps(data))
