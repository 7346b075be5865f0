"""`CuratorConfig`: the managers and options of a curator as data."""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from history_curator import ConfigurationError, Curator
from history_curator.config import (
    OPTIONS,
    CuratorConfig,
    CuratorFields,
    CuratorOptions,
    RetentionConfig,
    check_names,
    check_options,
)
from history_curator.managers import ComposedManager, PassthroughManager, build_managers

YAML = """
managers:
  - tool_result_truncator: {max_tokens: 2000, keep: both}
  - sliding_window: {window_size: 40}
  - passthrough
max_tokens: 32000
counter: cl100k_base
provider: anthropic
compact_to: 0.7
reasoning: strip
recall_tool: true
mode: shadow
name: support
preserve_last_n: 4
"""
TOML = """
max_tokens = 32000
counter = "cl100k_base"
provider = "anthropic"
compact_to = 0.7
reasoning = "strip"
recall_tool = true
mode = "shadow"
name = "support"
preserve_last_n = 4
managers = [
  { tool_result_truncator = { max_tokens = 2000, keep = "both" } },
  { sliding_window = { window_size = 40 } },
  "passthrough",
]
"""


def write_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


class TestReading:
    def test_yaml_toml_and_json_files_say_the_same(self, tmp_path: Path) -> None:
        config = CuratorConfig.from_dict(yaml.safe_load(YAML))
        files = {
            "a.yml": YAML,
            "a.toml": TOML,
            "a.json": json.dumps(config.model_dump(exclude_defaults=True)),
        }
        for name, text in files.items():
            path = write_file(tmp_path, name, text)
            assert CuratorConfig.load(path) == CuratorConfig.load(str(path)) == config
        assert CuratorConfig.load(config) is config
        assert CuratorConfig.load(config.model_dump(exclude_defaults=True)) == config

    def test_a_block_of_a_larger_file(self) -> None:
        file = {"curator": {"max_tokens": 9}, "limits": "stateless"}
        assert CuratorConfig.from_dict(file) == CuratorConfig(max_tokens=9)


class TestBuilding:
    def test_curator_from_config(self) -> None:
        config = CuratorConfig.from_dict(yaml.safe_load(YAML))
        curator = Curator.from_config(config)
        kinds = [type(manager).__name__ for manager in curator.managers]
        assert kinds == ["ToolResultTruncator", "SlidingWindowManager", "PassthroughManager"]
        assert (curator.max_tokens, curator.mode, curator.name) == (32_000, "shadow", "support")
        assert (curator.profile.name, curator.recall_tool) == ("anthropic", True)
        assert Curator.from_config({}, max_tokens=77).max_tokens == 77

    def test_managers_within_managers_and_objects_with_an_at_sign(self) -> None:
        mine, bus = ComposedManager(()), object()
        observable = {"observable": {"inner": "passthrough", "bus": "@bus"}}
        specs: Any = [{"composed": {"managers": ["@mine", observable]}}]
        before = copy.deepcopy(specs)
        (composed,) = build_managers(specs, {"mine": mine, "bus": bus})
        assert specs == before
        assert composed.managers[0] is mine
        assert composed.managers[1].bus is bus
        assert isinstance(composed.managers[1].inner, PassthroughManager)
        problem = r"managers\[0\]\.managers\[1\]\.bus: no object named 'bus'"
        with pytest.raises(ConfigurationError, match=problem):
            build_managers(specs, {"mine": mine})


class TestErrors:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ({"max_token": 3}, "max_token: unknown setting; did you mean 'max_tokens'"),
            ({"max_tokens": "lots"}, "max_tokens: .*got 'lots'"),
            ({"max_tokens": 0}, "max_tokens: .*at least 1"),
            ({"max_tokens": 10**400}, "max_tokens: .*at most"),
            ({"compact_to": 1.5}, "compact_to: .*at most 1"),
            ({"mode": "try"}, "mode: .*'enforce' or 'shadow'"),
            ({"provider": "acme"}, "'acme'"),
            ({"managers": ["sliding_windo"]}, r"managers\[0\]: .*did you mean 'sliding_window'"),
            ({"managers": [{"sliding_window": {"size": 3}}]}, r"managers\[0\]: .*no option 'size'"),
            ({"managers": [{"sliding_window": {}}]}, r"managers\[0\] .*missing.*'window_size'"),
            ({"managers": [{"observable": 3}]}, r"managers\[0\]: the options of observable must"),
            ({"managers": [{"a": 1, "b": 2}]}, r"managers\[0\]: a manager is written"),
            ({"managers": [3]}, r"managers\[0\]: a manager is written"),
            ({"managers": [{"passthrough": {"x": 1}}]}, "it takes none"),
            (
                {"managers": ["passthrough", {"tool_result_clearer": {"keep": -1}}]},
                r"managers\[1\] \(tool_result_clearer\).*0 or more",
            ),
            ({"managers": "passthrough"}, "managers: should be a list of managers"),
            ({"curator": {"max_tokens": -1}}, r"curator\.max_tokens"),
            ({"curator": 3}, "curator: expected a mapping"),
        ],
    )
    def test_errors_say_where_and_what(self, data: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            Curator.from_config(data)

    def test_every_problem_is_listed_with_the_file(self, tmp_path: Path) -> None:
        path = write_file(tmp_path, "policy.yaml", "max_tokens: x\nmodes: shadow\nmode: 3\n")
        with pytest.raises(ConfigurationError) as caught:
            CuratorConfig.from_file(path)
        for word in ("policy.yaml", "max_tokens", "modes", "mode:"):
            assert word in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("deep.yaml", "[" * 5_000),
            ("deep.json", "[" * 100_000),
            ("deep.toml", "a = " + "[" * 5_000),
            ("digits.yaml", "max_tokens: " + "9" * 5_000),
            ("date.yaml", "max_tokens: 2024-99-99"),
            ("object.yaml", "max_tokens: !!python/object:os.system x"),
            ("list.yaml", "- 1"),
            ("bytes.yaml", "a: \x00"),
            ("policy.ini", "a = 1"),
            ("cycle.yaml", "managers:\n- &a {composed: {managers: [*a]}}"),
        ],
    )
    def test_hostile_files_raise_our_error(self, tmp_path: Path, name: str, text: str) -> None:
        with pytest.raises(ConfigurationError):
            Curator.from_config(write_file(tmp_path, name, text))

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"none\.yaml: cannot be read"):
            CuratorConfig.from_file(tmp_path / "none.yaml")


class TestOptions:
    def test_curator_and_configuration_have_the_declared_defaults(self) -> None:
        parameters = inspect.signature(Curator.__init__).parameters
        fields = CuratorConfig.model_fields
        for name in CuratorOptions.__annotations__:
            assert parameters[name].default == OPTIONS[name].default, name
            if name not in ("bus", "calibration"):
                assert fields[name].default == OPTIONS[name].default, name
        assert CuratorFields.model_fields.keys() <= CuratorOptions.__annotations__.keys()
        check_options({name: field.default for name, field in OPTIONS.items()})

    @pytest.mark.parametrize(
        ("name", "value", "fix"),
        [
            ("max_tokens", 0, "a whole number, at least 1"),
            ("max_tokens", True, "a whole number"),
            ("max_tokens", 10**400, "at most 1,000"),
            ("compact_to", 0, "above 0, at most 1, or None"),
            ("compact_to", "deep", "above 0, at most 1"),
            ("mode", "try", "'enforce' or 'shadow'"),
            ("recap", 1, "True or False"),
            ("reasoning", "drop", "'strip', 'keep' or None"),
            ("preserve_last_n", -1, "at least 0"),
            ("reserve", None, "a whole number, at least 0"),
            ("tail", "end", "'request', 'history' or None"),
            ("recall_tool", 3, "True, False, or a name for the tool"),
            ("idle", -1, "a number of seconds"),
            ("key", [], "something hashable"),
        ],
    )
    def test_a_wrong_value_is_named_with_its_fix(self, name: str, value: Any, fix: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{name} is .*Fix: .*{fix}"):
            check_options({name: value})

    def test_an_unknown_name_gets_the_closest_known_one(self) -> None:
        with pytest.raises(ConfigurationError, match=r"'max_tokns'.*did you mean 'max_tokens'"):
            check_names("Curator", {"max_tokns": 5}, OPTIONS)
        with pytest.raises(ConfigurationError, match=r"'max_token'.*did you mean 'max_tokens'"):
            Curator(max_token=5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"'mode'. Fix: known: a, b\."):
            check_names("Curator", ["mode"], ["a", "b"])
        with pytest.raises(ConfigurationError, match="Fix: leave it out"):
            check_names("Curator", ["strategy"], OPTIONS, {"strategy": "leave it out"})


RETENTION = """
include_history: true
history_limit: 5
conversation:
  other: 1
  retention:
    preserve_turns: 3
    max_loaded_messages: 40
    persist_tool_invocations: trimmed
    prune_tools_for_llm: false
    preserve_tools_for_latest_turns: false
"""


def test_retention_is_a_block_of_a_larger_file(tmp_path: Path) -> None:
    path = write_file(tmp_path, "llm_config.yaml", RETENTION)
    assert RetentionConfig.from_file(path) == RetentionConfig(
        preserve_turns=3,
        max_loaded_messages=40,
        persist_tool_invocations="trimmed",
        prune_tools_for_llm=False,
        preserve_tools_for_latest_turns=False,
    )


def test_switches_for_tool_persistence() -> None:
    means = {True: "full", False: "none", None: "none", "full": "full", "Trimmed": "trimmed"}
    for written, mode in means.items():
        config = RetentionConfig.from_dict({"persist_tool_invocations": written})
        assert config.persist_tool_invocations == mode


def test_retention_is_read_alone_and_from_an_empty_block() -> None:
    assert RetentionConfig.from_dict({"preserve_turns": 1}).preserve_turns == 1
    assert RetentionConfig.from_dict({"conversation": {"retention": None}}) == RetentionConfig()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"persist_tool_invocations": "some"}, "'full', 'trimmed' or 'none'"),
        ({"preserve_turn": 3}, "did you mean 'preserve_turns'"),
        ({"preserve_turns": -1}, "preserve_turns: .*greater"),
        (
            {"conversation": {"retention": {"preserve_turns": "x"}}},
            r"conversation\.retention\.preserve_turns",
        ),
        ({"conversation": {"retention": 3}}, "expected a mapping"),
    ],
)
def test_errors_of_retention_say_where_and_what(data: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RetentionConfig.from_dict(data)
