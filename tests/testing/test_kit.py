"""The kit as somebody with a trimmer of their own meets it."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, settings

from history_curator.rules import PROVIDERS, check_conversation, repair_conversation
from history_curator.testing import SEQUENCES, assert_conformant, parse, try_trimmer
from tests.support.strategies import broken_conversations


def last_two(messages):
    return messages[-2:]


class TestAssertConformant:
    def test_names_every_broken_rule(self):
        with pytest.raises(AssertionError) as caught:
            assert_conformant(parse("U A(c1) U S"), provider="anthropic")
        text = str(caught.value)
        assert text.startswith("anthropic refuses U A(c1) U S")
        assert "messages[1] P6" in text
        assert "messages[3] P2" in text

    def test_a_history_may_end_on_the_assistant(self):
        assert_conformant(parse("U A"), tail="history")
        with pytest.raises(AssertionError, match="P4"):
            assert_conformant(parse("U A"))


class TestTryTrimmer:
    def test_failures_name_what_was_returned_and_the_rules(self):
        given = [parse("U A(c1) T(c1) U"), parse("U A(c1) T(c1) A U"), parse("U A")]
        failures = try_trimmer(last_two, given)
        assert [each.returned for each in failures] == ["T(c1) U", "U A"]
        assert [each.violations[0].rule for each in failures] == ["P6", "P4"]

    def test_a_trimmer_that_raises_is_a_finding(self):
        def explode(messages):
            raise KeyError("content")

        (failure,) = try_trimmer(explode, [parse("U")])
        assert failure.error == "KeyError: 'content'"

    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_our_own_repair_has_no_findings(self, provider):
        given = [parse(sequence) for sequence, _ in SEQUENCES]
        assert not try_trimmer(
            lambda messages: repair_conversation(messages, provider), given, provider
        )


class TestStrategies:
    @pytest.mark.parametrize("rule", [f"P{number}" for number in range(1, 13)])
    def test_broken_ones_break_every_rule(self, rule):
        def breaks(messages):
            return any(each.rule == rule for each in check_conversation(messages, "portable"))

        quick = settings(phases=[Phase.generate], max_examples=2_000, database=None)
        assert find(broken_conversations(), breaks, settings=quick) is not None
