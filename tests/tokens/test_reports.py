"""Reports kept by conversation, and what is saved of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from history_curator import ConfigurationError
from history_curator.tokens import Calibration, Report, Usage
from history_curator.tokens._reports import Reports


def everything(_at: int) -> int:
    return 7


class TestReports:
    def test_conversations_are_apart(self) -> None:
        reports = Reports()
        reports.add("a", (2, 7), Report(Usage(10), 9))
        reports.add("b", (2, 7), Report(Usage(20), 9))
        assert reports.of("a", everything)[0][2].usage.input == 10
        assert reports.of("c", everything) == ({}, [], {})

    def test_two_under_one_name_keep_theirs(self) -> None:
        reports = Reports()
        reports.add(None, (2, 7), Report(Usage(10)))
        reports.add(None, (2, 8), Report(Usage(20)))
        assert reports.of(None, everything)[0][2].usage.input == 10
        assert reports.of(None, lambda _at: 8)[0][2].usage.input == 20

    def test_the_last_report_for_a_view_counts(self) -> None:
        reports = Reports()
        for tokens in (10, 20):
            reports.add("a", (2, 7), Report(Usage(tokens)))
        assert reports.of("a", everything)[0][2].usage.input == 20

    def test_where_it_was_cold(self) -> None:
        reports = Reports()
        reports.add_cold("a", (3, 7))
        assert reports.of("a", everything) == ({}, [3], {})

    def test_a_shorter_view_is_remembered_until_a_usual_one_takes_its_place(self):
        reports = Reports()
        reports.add_shorter("a", (3, 7), 900)
        assert reports.of("a", everything).shorter == {3: 900}
        reports.add_shorter("a", (3, 7), None)
        assert reports.of("a", everything).shorter == {}
        for at in range(200):
            reports.add_shorter("a", (at, 7), at)
        assert len(reports.of("a", everything).shorter) == 64

    def test_they_do_not_pile_up(self) -> None:
        reports = Reports()
        for key in range(5_000):
            reports.add(key, (1, 7), Report(Usage(10)))
        assert len(reports) == 4_096
        for at in range(3_000):
            reports.add("long", (at, 7), Report(Usage(10)))
        assert len(reports.of("long", everything)[0]) == 2_048


class TestSaved:
    def test_what_was_reported_comes_back(self, tmp_path: Path) -> None:
        calibration = Calibration()
        calibration.reports.add("a", (2, 7), Report(Usage(10, 1, 2, 3, 1), 9, "m"))
        calibration.reports.add("a", (4, 7), Report(Usage(30)))
        calibration.reports.add_shorter("a", (6, 7), 25)
        calibration.reports.add_cold("a", (3, 7))
        calibration.reports.add(("not", "text"), (2, 7), Report(Usage(10)))
        calibration.save(tmp_path / "learned.json")
        again = Calibration.load(tmp_path / "learned.json")
        assert again.to_dict() == calibration.to_dict()
        assert again.reports.of("a", everything) == calibration.reports.of("a", everything)
        assert len(again.reports) == 1

    def test_what_is_known_is_what_was_loaded(self) -> None:
        calibration = Calibration()
        start = calibration.known("claude-opus-4-5").ratio
        for counted in range(1_000, 40_000, 1_000):
            calibration.observe("claude-opus-4-5", counted, Usage(round(counted * 1.7)))
        assert calibration.known("claude-opus-4-5").ratio == start
        again = Calibration.from_dict(calibration.to_dict())
        assert again.known("claude-opus-4-5").ratio == pytest.approx(1.7, rel=0.02)

    def test_a_counter_of_a_family_starts_at_one(self) -> None:
        assert Calibration("claude-sonnet-4-5").known().ratio == 1.0
        assert Calibration().known().ratio == pytest.approx(1.3)

    @pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}'])
    def test_odd_files_are_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "learned.json"
        path.write_text(text)
        with pytest.raises(ConfigurationError, match="calibration"):
            Calibration.load(path)

    def test_odd_conversations_are_refused(self) -> None:
        data = json.loads(json.dumps(Calibration().to_dict()))
        data["conversations"] = [{"key": "a", "reports": [[1]], "cold": []}]
        with pytest.raises(ConfigurationError, match="conversations"):
            Calibration.from_dict(data)
