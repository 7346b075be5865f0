"""The page of a session, opened in headless Chromium."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from history_curator import Curator
from history_curator.lab import SessionPage, named_policy
from history_curator.report_page import render_session
from tests.report.test_page_in_browser import HOSTILE_TALK, Opened, browser, conversation  # noqa: F401
from tests.report.test_page_text import HOSTILE
from tests.support.messages import assistant, call, result


def repeated_order(turns: int = 30) -> list[dict[str, Any]]:
    """A tool loop that asks for its first order again at the end."""
    return [*conversation(turns)[:-2], call("z", name="search", query="order 0"),
            result("z", "again"), assistant("Found it.")]  # fmt: skip


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Any:  # noqa: F811
    def open_page(messages: Any = None, policies: Any = None, **options: Any) -> Opened:
        page = SessionPage(
            repeated_order() if messages is None else messages,
            policies or {"mine": Curator(max_tokens=1_000), "all": "no curation"},
        )
        opened = Opened(browser, render_session(page.data), tmp_path, **options)
        opened.data = page.data  # type: ignore[attr-defined]
        return opened

    return open_page


def slide(opened: Opened, call_number: int) -> None:
    opened.page.evaluate(
        "n => { const s = document.getElementById('call'); s.value = n;"
        " s.dispatchEvent(new Event('input')); }", call_number,
    )  # fmt: skip


class TestTheSlider:
    def test_every_call_shows_its_view_tokens_and_cost(self, show: Any) -> None:
        opened = show()
        views = opened.data["policies"][0]["views"]
        cost = 0.0
        for number, view in enumerate(views, 1):
            slide(opened, number)
            cost += view["cost"]
            row = opened.page.locator("#numbers tr").first.locator("td").all_text_contents()
            assert row[0].startswith(f"{view['tokens']:,} of 1,000")
            assert row[1].startswith(f"{view['cached']:,} ")
            assert float(row[3]) == pytest.approx(cost, abs=0.001)
        opened.assert_clean()

    def test_compactions_are_marked_and_reached(self, show: Any) -> None:
        opened = show()
        numbered = enumerate(opened.data["policies"][0]["views"], 1)
        compactions = [number for number, view in numbered if view["compacted"]]
        ticks = opened.page.locator(".chart").first.locator(".compaction").count()
        assert ticks == len(compactions) > 0
        slide(opened, 1)
        opened.page.click("#compaction-on")
        assert opened.page.locator("#call").input_value() == str(compactions[0])
        assert "the view was compacted" in opened.page.locator("#call-name").text_content()
        opened.page.keyboard.press("]")
        assert opened.page.locator("#call").input_value() == str((compactions + compactions[:1])[1])


class TestComparing:
    def test_what_changed_between_two_calls(self, show: Any) -> None:
        opened = show()
        numbered = enumerate(opened.data["policies"][0]["views"], 1)
        first = next(number for number, view in numbered if view["compacted"])
        slide(opened, first)
        opened.page.fill("#since", str(first - 1))
        opened.page.locator("#since").dispatch_event("change")
        chips = opened.page.locator("#filters .chip")
        actions = {chips.nth(n).get_attribute("data-action") for n in range(chips.count())}
        assert {"left", "entered"} <= actions
        assert actions <= {"left", "entered", "rewritten", "same"}
        shown = opened.page.locator(".timeline .badge").all_text_contents()
        assert "left" in shown
        assert "same" not in shown  # until it is asked for

    def test_a_faulty_request_says_so(self, show: Any) -> None:
        opened = show(
            policies={"mine": Curator(max_tokens=1_000), "all": named_policy("no curation", 1_000)}
        )
        rows = opened.page.locator("#numbers tr")
        assert rows.nth(0).locator("td").last.text_content() == "0"
        over = sum("fault" in view for view in opened.data["policies"][1]["views"])
        assert over > 0
        assert rows.nth(1).locator("td").last.text_content() == str(over)
        number = int(opened.page.locator("#call").input_value()) - 1
        faulty = ["fault" in policy["views"][number] for policy in opened.data["policies"]]
        assert faulty == [False, True], "it opens where one policy is at fault"
        story = opened.page.locator("#story").text_content()
        assert "all is invalid (over the budget), while mine holds the question" in story
        assert f"{over} of {len(opened.data['calls'])} calls of all are at fault (" in story

    def test_it_opens_where_another_policy_dropped_the_question(self, show: Any) -> None:
        newest = named_policy("newest that fit", 1_000)
        opened = show(policies={"mine": Curator(max_tokens=1_000), "newest": newest})
        story = opened.page.locator("#story").text_content()
        assert re.match(r"Call \d+: newest leaves out the question \(message 1\)", story)
        assert opened.page.locator("#row-1").is_visible()

    def test_what_left_and_was_needed_later_is_listed_and_reached(self, show: Any) -> None:
        opened = show()
        lost = opened.data["policies"][0]["lost"]
        assert lost
        assert opened.data["policies"][1]["lost"] == []
        opened.page.click("#lost-title")
        opened.page.locator("#lost-list button").last.click()
        assert opened.page.locator("#call").input_value() == str(lost[-1]["call"] + 1)
        assert opened.page.locator(".badge.needed").count() >= 1
        assert opened.page.locator(".detail").is_visible()
        opened.assert_clean()


class TestUntrustedText:
    def test_a_hostile_session_does_nothing(self, show: Any) -> None:
        opened = show(HOSTILE_TALK, {HOSTILE: Curator(max_tokens=4_000)})
        opened.page.keyboard.press("g")
        for row in range(opened.page.locator(".row").count()):
            opened.page.click(f"#row-{row}")
        assert opened.page.evaluate("typeof window.hacked") == "undefined"
        assert opened.page.locator("main img, main a, main script").count() == 0
        opened.assert_clean()


class TestLooks:
    def test_a_phone_shows_messages_on_its_first_screen(self, show: Any) -> None:
        opened = show(viewport={"width": 390, "height": 844})
        assert not opened.page.locator("#numbers").is_visible()
        box = opened.page.locator(".row").nth(2).bounding_box()
        assert box
        assert box["y"] + box["height"] < 844

    @pytest.mark.parametrize("width", [390, 1280])
    def test_it_fits(self, show: Any, width: int) -> None:
        opened = show()
        opened.page.set_viewport_size({"width": width, "height": 800})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width

    def test_large_sessions_are_compressed_and_open(self, show: Any) -> None:
        opened = show(conversation(300, words=300), {"mine": Curator(max_tokens=20_000)})
        text = opened.path.read_text(encoding="utf-8")
        assert ' data-encoding="gzip"' in text
        assert len(text) < 400_000
        assert opened.page.locator(".row").count() < 300
        opened.assert_clean()


def test_more_than_two_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="one policy or two"):
        SessionPage(repeated_order(2), dict.fromkeys("abc", "no curation"))
