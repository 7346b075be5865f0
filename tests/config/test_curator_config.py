"""The whole pipeline as data."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from history_curator.boundary import HistoryLimits
from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.managers._select import PinManager, is_standing_rule
from history_curator.config import (
    CuratorConfig,
    ManagerConfig,
    RetentionConfig,
    _manager,
    manager_names,
    register_manager,
)

YAML = """
managers:
  - tool_result_truncator: {max_tokens: 2000, keep: both}
  - name: sliding_window
    window_size: 40
  - passthrough
max_tokens: 32000
counter: cl100k_base
provider: anthropic
compact_to: 0.7
reasoning: strip
recall: true
mode: shadow
name: support
preserve_last_n: 4
retention:
  preserve_turns: 3
  persist_tool_invocations: trimmed
limits:
  preset: user_first
  max_messages: 30
"""
TOML = """
max_tokens = 32000
counter = "cl100k_base"
provider = "anthropic"
compact_to = 0.7
reasoning = "strip"
recall = true
mode = "shadow"
name = "support"
preserve_last_n = 4

[[managers]]
name = "tool_result_truncator"
max_tokens = 2000
keep = "both"

[[managers]]
name = "sliding_window"
options = { window_size = 40 }

[[managers]]
name = "passthrough"

[retention]
preserve_turns = 3
persist_tool_invocations = "trimmed"

[limits]
preset = "user_first"
max_messages = 30
"""


class Noting:
    """A user's own manager."""

    def __init__(self, *, note: str, times: int = 1) -> None:
        if times < 0:
            raise ValueError("times must not be negative")
        self.note = note
        self.times = times

    def curate(self, entries: Any, *, context: Any) -> Any:
        return entries


@pytest.fixture(autouse=True)
def _own_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_manager, "_registered", dict(_manager._registered))
    register_manager("noting", Noting)


class TestReading:
    def test_yaml_and_toml_say_the_same(self) -> None:
        assert CuratorConfig.from_yaml(YAML) == CuratorConfig.from_toml(TOML)

    def test_every_setting(self) -> None:
        config = CuratorConfig.from_yaml(YAML)
        assert config.managers == (
            ManagerConfig(
                name="tool_result_truncator", options={"max_tokens": 2000, "keep": "both"}
            ),
            ManagerConfig(name="sliding_window", options={"window_size": 40}),
            ManagerConfig(name="passthrough"),
        )
        assert config.max_tokens == 32_000
        assert config.provider == "anthropic"
        assert config.mode == "shadow"
        assert config.retention == RetentionConfig(
            preserve_turns=3, persist_tool_invocations="trimmed"
        )
        assert config.limits == HistoryLimits.user_first(max_messages=30)

    @pytest.mark.parametrize(
        "spec",
        [
            {"sliding_window": {"window_size": 4}},
            {"name": "sliding_window", "window_size": 4},
            {"name": "sliding_window", "options": {"window_size": 4}},
            {"sliding_window_manager": {"window_size": 4}},
        ],
    )
    def test_forms_of_a_manager(self, spec: Any) -> None:
        before = copy.deepcopy(spec)
        manager = CuratorConfig.from_dict({"managers": [spec]}).build().managers[0]
        assert getattr(manager, "window_size") == 4  # noqa: B009
        assert spec == before

    def test_one_manager_alone(self) -> None:
        assert len(CuratorConfig.from_dict({"managers": "passthrough"}).managers) == 1
        assert CuratorConfig.from_yaml("managers:\n") == CuratorConfig()

    def test_in_a_larger_file(self) -> None:
        config = CuratorConfig.from_dict(
            {
                "curator": {"max_tokens": 9},
                "limits": "stateless",
                "conversation": {"retention": {"persist_tool_invocations": False}},
                "server": {"port": 1},
            }
        )
        assert config.max_tokens == 9
        assert config.limits == HistoryLimits.stateless()
        assert config.retention == RetentionConfig(persist_tool_invocations="none")

    def test_load_takes_whatever_describes_one(self, tmp_path: Path) -> None:
        path = tmp_path / "policy.toml"
        path.write_text(TOML, encoding="utf-8")
        config = CuratorConfig.load(path)
        assert CuratorConfig.load(str(path)) == config
        assert CuratorConfig.load(config) is config
        assert CuratorConfig.load(config.to_dict()) == config

    def test_frozen(self) -> None:
        with pytest.raises(ValidationError):
            CuratorConfig().max_tokens = 1  # type: ignore[misc]


class TestRoundTrip:
    CONFIGS = (
        {},
        {"managers": ["passthrough"]},
        {"managers": [{"noting": {"note": 'q"uo\\te\n\x7f é', "times": 3}}], "recall": True},
        {"managers": [{"composed": {"managers": ["passthrough", {"noting": {"note": "x"}}]}}]},
        {"retention": {}, "limits": {}},
        {"limits": "stateless", "retention": {"max_loaded_messages": 3}},
    )

    @pytest.mark.parametrize("data", CONFIGS)
    @pytest.mark.parametrize("form", ["dict", "yaml", "toml", "json"])
    def test_reads_back_equal(self, data: dict[str, Any], form: str) -> None:
        config = CuratorConfig.from_dict(data)
        written = getattr(config, f"to_{form}")()
        assert getattr(CuratorConfig, f"from_{form}")(written) == config

    @pytest.mark.parametrize("form", ["dict", "yaml", "toml", "json"])
    def test_every_setting(self, form: str) -> None:
        config = CuratorConfig.from_yaml(YAML)
        written = getattr(config, f"to_{form}")()
        assert getattr(CuratorConfig, f"from_{form}")(written) == config

    @pytest.mark.parametrize("form", ["yaml", "toml"])
    def test_objects_cannot_be_written(self, form: str) -> None:
        config = CuratorConfig.from_dict({"managers": [{"noting": {"note": object()}}]})
        with pytest.raises(ConfigurationError, match="'@name'"):
            getattr(config, f"to_{form}")()


class TestBuilding:
    def test_curator_from_config(self) -> None:
        curator = Curator.from_config(CuratorConfig.from_yaml(YAML))
        assert [type(manager).__name__ for manager in curator.managers] == [
            "ToolResultTruncator",
            "SlidingWindowManager",
            "PassthroughManager",
        ]
        assert curator.max_tokens == 32_000
        assert curator.mode == "shadow"
        assert curator.name == "support"
        assert curator.recall_tool

    def test_policy_changes_the_view(self, tmp_path: Path) -> None:
        said = [{"role": "user", "content": str(number)} for number in range(9)]
        path = tmp_path / "policy.yaml"
        for window in (2, 5):
            path.write_text(f"managers:\n- sliding_window: {{window_size: {window}}}\n")
            view = Curator.from_config(path).curate(said)
            assert view.report.curated_count == window

    def test_shadow_sends_everything(self) -> None:
        said = [{"role": "user", "content": str(number)} for number in range(9)]
        config = {"managers": [{"sliding_window": {"window_size": 2}}], "mode": "shadow"}
        curation = Curator.from_config(config).curate(said)
        assert len(curation.messages) == 9

    def test_nested_managers(self) -> None:
        config = CuratorConfig.from_dict(
            {"managers": [{"composed": {"managers": ["passthrough", {"noting": {"note": "x"}}]}}]}
        )
        inner = config.build().managers[0].managers  # type: ignore[attr-defined]
        assert [type(manager).__name__ for manager in inner] == ["PassthroughManager", "Noting"]

    def test_objects_are_given_when_building(self) -> None:
        config = CuratorConfig.from_yaml("managers:\n- noting: {note: '@words'}\n")
        words = object()
        manager = config.build({"words": words}).managers[0]
        assert manager.note is words  # type: ignore[attr-defined]
        with pytest.raises(ConfigurationError, match=r"managers\[0\]\.note: no object.*'words'"):
            config.build()

    def test_pins_by_default_and_by_a_given_predicate(self) -> None:
        (pin,) = CuratorConfig.from_dict({"managers": ["pin"]}).build().managers
        assert isinstance(pin, PinManager)
        assert pin.predicate is is_standing_rule
        config = CuratorConfig.from_dict({"managers": [{"pin": {"predicate": "@mine"}}]})
        (pin,) = config.build(objects={"mine": bool}).managers
        assert isinstance(pin, PinManager)
        assert pin.predicate is bool

    def test_observable_with_a_bus(self) -> None:
        bus = object()
        config = CuratorConfig.from_dict(
            {"managers": [{"observable": {"inner": "passthrough", "bus": "@bus"}}]}
        )
        manager: Any = config.build({"bus": bus}).managers[0]
        assert manager.bus is bus
        assert type(manager.inner).__name__ == "PassthroughManager"

    def test_overrides(self) -> None:
        assert CuratorConfig().build(max_tokens=77).max_tokens == 77

    def test_refused_values_name_the_manager(self) -> None:
        config = CuratorConfig.from_dict(
            {"managers": ["passthrough", {"noting": {"note": "x", "times": -1}}]}
        )
        with pytest.raises(ConfigurationError, match=r"managers\[1\] \(noting\).*negative"):
            config.build()


class TestErrors:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ({"max_token": 3}, "max_token: unknown setting; did you mean 'max_tokens'"),
            ({"max_tokens": "lots"}, "max_tokens: .*got 'lots'"),
            ({"max_tokens": 0}, "max_tokens: .*at least 1"),
            ({"compact_to": 1.5}, "compact_to: .*at most 1"),
            ({"mode": "try"}, "mode: .*'enforce' or 'shadow'"),
            ({"provider": "acme"}, "provider: .*'acme'"),
            ({"managers": ["sliding_windo"]}, r"managers\[0\]: .*did you mean 'sliding_window'"),
            ({"managers": [{"sliding_window": {"size": 3}}]}, r"managers\[0\]: .*no option 'size'"),
            ({"managers": [{"noting": {}}]}, r"managers\[0\]: noting needs 'note'"),
            ({"managers": [{"noting": 3}]}, r"managers\[0\]: the options of noting must be"),
            ({"managers": [{"a": 1, "b": 2}]}, r"managers\[0\]: a manager is written"),
            ({"managers": [{"passthrough": {"x": 1}}]}, "it takes none"),
            ({"managers": 3}, "managers: "),
            ({"retention": {"preserve_turns": -2}}, "retention: preserve_turns: .*greater"),
            ({"limits": "fast"}, "limits: There is no preset 'fast'"),
            ({"limits": {"max_messages": 0}}, "limits.*max_messages"),
            ({"limits": {"max_mesages": 3}}, r"limits\.max_mesages: .*mean 'max_messages'"),
            ({"retention": {"preserve_turn": 3}}, "preserve_turn: .*mean 'preserve_turns'"),
            ({"curator": {"max_tokens": -1}}, r"curator\.max_tokens"),
        ],
    )
    def test_say_where_and_what(self, data: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            CuratorConfig.from_dict(data)

    def test_every_problem_at_once_with_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "policy.yaml"
        path.write_text("max_tokens: x\nmodes: shadow\nmanagers: [nothing]\n")
        with pytest.raises(ConfigurationError) as caught:
            CuratorConfig.from_file(path)
        text = str(caught.value)
        assert "policy.yaml" in text
        assert all(word in text for word in ("max_tokens", "modes", "managers[0]"))


class TestRegistry:
    def test_names(self) -> None:
        assert {"sliding_window", "tool_result_clearer", "token_budget", "noting"} <= set(
            manager_names()
        )

    def test_every_name_is_a_manager(self) -> None:
        for name in manager_names():
            assert callable(getattr(_manager.find_manager(name), "curate", None)) or callable(
                getattr(_manager.find_manager(name), "acurate", None)
            ), name

    def test_names_are_not_taken_twice(self) -> None:
        with pytest.raises(ConfigurationError, match="There is a manager named 'passthrough'"):
            register_manager("passthrough", Noting)
        with pytest.raises(ConfigurationError, match="named 'noting'"):
            register_manager("noting", Noting)
        register_manager("noting", Noting, replace=True)

    def test_names_are_snake_case(self) -> None:
        with pytest.raises(ConfigurationError, match="such as 'last_ten'"):
            register_manager("LastTenManager", Noting)
