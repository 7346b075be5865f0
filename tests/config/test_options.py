"""Every option is declared once, and everybody who takes it takes it from there."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from history_curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.config import OPTIONS, CuratorConfig, CuratorOptions, check_options
from history_curator.config._fields import CuratorFields
from history_curator.config._options import check_names


def test_the_curator_takes_what_is_declared_with_the_same_defaults() -> None:
    parameters = inspect.signature(Curator.__init__).parameters
    named = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    declared = {name: OPTIONS[name].default for name in CuratorOptions.__annotations__}
    assert declared.items() <= named.items()


def test_the_configuration_takes_what_text_can_hold() -> None:
    fields = CuratorConfig.model_fields
    for name in CuratorOptions.__annotations__.keys() - {"bus", "calibration"}:
        assert fields[name].default == OPTIONS[name].default, name
        assert fields[name].description, name
    assert CuratorFields.model_fields.keys() <= CuratorOptions.__annotations__.keys()


def test_each_says_what_it_does() -> None:
    for name, option in OPTIONS.items():
        assert option.doc.endswith("."), name
        assert option.check(option.default) is None, name


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("max_tokens", 0, "a whole number, at least 1"),
        ("max_tokens", True, "a whole number"),
        ("max_tokens", "8k", "a whole number"),
        ("compact_to", 1.5, "above 0, at most 1"),
        ("compact_to", "deep", "above 0, at most 1"),
        ("mode", "try", "'enforce' or 'shadow'"),
        ("reasoning", "drop", "'strip', 'keep' or 'refuse', or None"),
        ("preserve_last_n", -1, "at least 0"),
        ("reserve", None, "a whole number, at least 0"),
        ("tail", "end", "'request' or 'history'"),
        ("recall", 3, "True, False, or a name for the tool"),
    ],
)
def test_a_wrong_value_is_named_with_its_fix(name: str, value: Any, fix: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is .*Fix: .*{fix}"):
        check_options({name: value})


def test_an_unknown_name_gets_the_closest_known_one() -> None:
    with pytest.raises(ConfigurationError, match=r"'max_tokns'.*did you mean 'max_tokens'"):
        check_names("Curator", {"max_tokns": 5}, OPTIONS)
