from __future__ import annotations

from typing import Any

import pytest

from history_curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.lab import NoCuration, plot_composition, plot_frontier, plot_tokens, replay
from tests.lab.test_replay import session


@pytest.fixture(scope="module")
def found() -> Any:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is absent")
    matplotlib.use("Agg")
    policies = {"mine": Curator(max_tokens=900), "all": NoCuration(900)}
    return replay([session(30), session(8)], policies, progress=False, executor="serial")


def test_tokens_has_a_line_per_policy_for_the_longest_conversation(found: Any) -> None:
    axes = plot_tokens(found)
    assert [line.get_label() for line in axes.get_lines()] == ["mine", "all"]
    assert len(axes.get_lines()[0].get_ydata()) == 32
    assert max(axes.get_lines()[0].get_ydata()) <= 900


def test_tokens_of_a_conversation_by_id(found: Any) -> None:
    assert len(plot_tokens(found, "conversation 1").get_lines()[0].get_ydata()) == 10
    with pytest.raises(ConfigurationError, match="acme"):
        plot_tokens(found, "acme")


def test_frontier_names_every_policy_and_hollows_the_unsound(found: Any) -> None:
    axes = plot_frontier(found)
    assert {text.get_text() for text in axes.texts} == {"mine", "all"}
    filled = [len(points.get_facecolor()) > 0 for points in axes.collections]
    assert filled == [True, False]


def test_composition_adds_up(found: Any) -> None:
    axes = plot_composition(found)
    widths = sum(bar.get_width() for bar in axes.patches)
    total = sum(sum(each.roles.values()) for each in found.policies.values())
    assert widths == pytest.approx(total / 1e6)


def test_axes_can_be_given(found: Any) -> None:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots()
    assert plot_frontier(found, ax=axes) is axes
