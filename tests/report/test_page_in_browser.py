"""The page, opened in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history_curator import Curator
from history_curator.report_page import as_frame, render_html
from tests.report.test_page_text import HOSTILE
from tests.support.messages import assistant, call, result, system, user

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome")
     if (found := shutil.which(name))), None
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is absent: install it to open the page in a browser")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is absent")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless=new", "--disable-gpu"]
        )
        yield opened
        opened.close()


class Opened:
    """A page with its console messages and its requests."""

    def __init__(self, browser: Any, html: str, tmp_path: Path, **options: Any) -> None:
        self.path = tmp_path / "page.html"
        self.path.write_text(html, encoding="utf-8")
        self.page = browser.new_page(**{"viewport": {"width": 1100, "height": 800}, **options})
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.messages.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(self.path.as_uri())

    def assert_clean(self) -> None:
        assert self.messages == []
        assert self.requests == [self.path.as_uri()]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Any:
    return lambda report: Opened(browser, render_html(report), tmp_path)


HOSTILE_TALK = [user(HOSTILE), call("c1", name="<img src=x onerror=hacked=1>", query=HOSTILE),
                result("c1", HOSTILE), assistant(HOSTILE), user("javascript:hacked=1")]  # fmt: skip


def conversation(turns: int, words: int = 60) -> list[dict[str, Any]]:
    messages = [system("You look things up."), user("Find the order.")]
    for turn in range(turns):
        messages += [call(f"c{turn}", name="search", query=f"order {turn}"),
                     result(f"c{turn}", f"result {turn}: " + "detail " * words)]  # fmt: skip
    return [*messages, assistant("Found it."), user("Thanks, and the invoice?")]


def report(turns: int = 20, max_tokens: int = 1_000) -> Any:
    return Curator(max_tokens=max_tokens).curate(conversation(turns)).report


class TestTimeline:
    def test_every_message_has_its_row_decision_and_tokens(self, show: Any) -> None:
        given = report()
        opened = show(given)
        rows = opened.page.locator(".timeline .row")
        assert rows.count() == len(given.decisions)
        badges = opened.page.locator(".timeline .badge").all_text_contents()
        assert badges == [decision.action for decision in given.decisions]
        assert len(set(badges)) > 1
        assert opened.page.locator("#budget-bar span").count() >= 2
        assert given.prefix_entries > 0
        mark = opened.page.locator("#prefix-end").text_content()
        assert f"{given.prefix_tokens:,} tokens" in mark
        opened.assert_clean()

    def test_a_click_opens_the_original(self, show: Any) -> None:
        given = report()
        gone = next(d for d in given.decisions if d.action != "kept" and d.role == "tool")
        opened = show(given)
        opened.page.click(f"#row-{given.decisions.index(gone)}")
        detail = opened.page.locator(".detail")
        assert detail.locator("pre").first.text_content() == given.record[gone.index].content
        assert gone.reason in detail.text_content()
        opened.page.click(f"#row-{given.decisions.index(gone)}")
        assert opened.page.locator(".detail").count() == 0
        opened.assert_clean()


class TestFinding:
    def test_filters_search_and_reset(self, show: Any) -> None:
        given = report()
        opened = show(given)
        opened.page.click('.chip[data-action="kept"]')
        left = opened.page.locator(".timeline .badge").all_text_contents()
        assert left
        assert "kept" not in left
        opened.page.fill("#search", "RESULT 7:")
        assert opened.page.locator(".timeline .row").count() == 1
        opened.page.fill("#search", "no such words")
        assert opened.page.locator("#nothing").is_visible()
        opened.page.click("#reset")
        assert opened.page.locator("#shown").text_content() == f"{len(given.decisions)} rows"


def test_it_opens_at_the_cutoff_with_the_header_in_sight(show: Any) -> None:
    opened = show(report(turns=100, max_tokens=1_500))
    opened.page.wait_for_timeout(150)
    for selector in ("#cut", "h1"):
        assert 0 <= opened.page.locator(selector).bounding_box()["y"] <= 800


def test_the_timeline_works_without_a_mouse(show: Any) -> None:
    given = report()
    opened = show(given)
    page, last = opened.page, f"row-{len(given.decisions) - 1}"
    for key, focused in (("j", "row-1"), ("ArrowDown", "row-2"), ("k", "row-1"), ("G", last),
                         ("/", "search"), ("Escape", last)):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == focused
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    assert page.locator(".detail").is_visible()
    assert page.locator("[aria-expanded=true]").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".detail").count() == 0
    opened.assert_clean()


class TestUntrustedText:
    def test_a_hostile_message_does_nothing(self, show: Any) -> None:
        opened = show(Curator(max_tokens=4_000).curate(HOSTILE_TALK).report)
        for row in range(opened.page.locator(".row").count()):
            opened.page.click(f"#row-{row}")
        opened.page.wait_for_timeout(100)
        assert opened.page.evaluate("typeof window.hacked") == "undefined"
        assert opened.page.locator("main img, main a, main script").count() == 0
        assert HOSTILE in opened.page.locator(".detail pre").first.text_content()
        opened.assert_clean()

    def test_a_script_that_got_in_would_still_not_run(self, show: Any) -> None:
        opened = show(report(2))
        opened.page.evaluate(
            "() => { const s = document.createElement('script');"
            " s.textContent = 'window.hacked = 1'; document.body.append(s); }"
        )
        assert opened.page.evaluate("typeof window.hacked") == "undefined"
        assert any("Content Security Policy" in line for line in opened.messages)

    def test_the_notebook_frame_runs_in_its_own_world(self, browser: Any, tmp_path: Path) -> None:
        cell = as_frame(render_html(Curator(max_tokens=4_000).curate([user(HOSTILE)]).report))
        opened = Opened(browser, f"<!doctype html><body>{cell}</body>", tmp_path)
        frame = opened.page.frame_locator("iframe")
        frame.locator("#row-0").click()
        assert frame.locator(".detail pre").first.text_content() == HOSTILE
        assert opened.page.evaluate("typeof window.hacked") == "undefined"
        opened.page.close()


def test_two_thousand_messages_make_only_the_rows_that_are_seen(show: Any) -> None:
    given = report(turns=998, max_tokens=20_000)
    opened, last = show(given), len(given.decisions) - 1
    assert last >= 1_999
    assert opened.page.locator(".row").count() < 300
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 6_000
    assert opened.page.locator("main pre").count() == 0
    opened.page.keyboard.press("G")
    opened.page.click(f"#row-{last}")
    assert opened.page.locator(f"#detail-{last}").is_visible()
    opened.page.keyboard.press("g")
    opened.page.wait_for_timeout(200)
    assert opened.page.locator("#row-0").is_visible()
    assert opened.page.locator(".row").count() < 400
    assert opened.path.stat().st_size < 1_000_000
    opened.assert_clean()
