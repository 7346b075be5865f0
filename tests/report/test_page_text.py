from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

from history_curator import Curator
from history_curator.lab import SessionPage, sample_conversation
from history_curator.report_page import as_frame, render_html
from tests.support.messages import assistant, exchange, system, user

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src="http://evil.test/x" onerror="hacked=1">'
    '<a href="javascript:hacked=1">x</a> <!-- @@SCRIPT@@ \u2028'
)


def curated(*messages: dict[str, Any], **options: Any) -> Any:
    return Curator(**{"max_tokens": 400, **options}).curate(list(messages)).report


def embedded(page: str) -> Any:
    found = re.search(
        r'<script type="application/json" id="report">(.*?)</script>', page, re.DOTALL
    )
    assert found
    return json.loads(found.group(1))


class TestTheDataBlock:
    def test_it_holds_every_decision_with_its_texts(self) -> None:
        report = curated(system(), user("find it"), *exchange("a", text="row " * 900), user("and?"))
        rows = embedded(render_html(report))["decisions"]
        assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
        assert rows[3]["before"] == "row " * 900
        assert rows[1]["same"] is True

    def test_nothing_in_a_message_can_end_it(self) -> None:
        page = render_html(curated(user(HOSTILE)))
        assert embedded(page)["decisions"][0]["before"] == HOSTILE
        assert page.count("<script") == 2
        assert "evil.test" not in page.replace(page[page.index('id="report">') :], "")

    def test_names_and_warnings_are_escaped(self) -> None:
        data = curated(user("x")).to_dict()
        page = render_html({**data, "warnings": [HOSTILE], "strategy": HOSTILE})
        assert page.count("<script") == 2
        assert "<img" not in page


class TestThePage:
    def test_it_asks_for_nothing_from_anywhere_and_runs_its_own_script_only(self) -> None:
        page = render_html(curated(user("hi")))
        assert not re.search(r'(src|href)="(?!#)', page)
        assert "@import" not in page
        assert "url(" not in page
        policy = unescape(page.split('Security-Policy" content="')[1].split('"')[0])
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert policy.count("'sha256-") == 2

    def test_the_same_report_gives_the_same_page(self) -> None:
        said = [user("hi"), assistant("hello"), user("more")]
        assert render_html(curated(*said)) == render_html(curated(*said))

    def test_a_missing_budget_shadow_mode_and_an_empty_conversation_are_said_in_words(self) -> None:
        assert "no budget" in render_html(curated(user("hi"), max_tokens=None))
        assert "shadow mode" in render_html(curated(user("hi"), mode="shadow"))
        assert "0 messages" in render_html(curated())


class TestInANotebook:
    def test_the_report_shows_itself_in_a_sandboxed_frame(self) -> None:
        curation = Curator(max_tokens=400).curate([user(HOSTILE)])
        cell = curation._repr_html_()
        assert cell == curation.report._repr_html_()
        assert cell == as_frame(render_html(curated(user(HOSTILE))))
        assert cell.startswith("<iframe")
        assert 'sandbox="allow-scripts"' in cell
        assert "<script" not in cell

    def test_to_html_writes_the_page_and_returns_its_path(self, tmp_path: Any) -> None:
        report = curated(user("hi"))
        path = report.to_html(tmp_path / "page.html")
        assert path.read_text(encoding="utf-8") == render_html(report)


def test_a_curator_that_saw_the_session_before_gives_the_same_page() -> None:
    curator = Curator(max_tokens=12_000)
    first, second = (SessionPage(sample_conversation(), {"mine": curator}) for _ in range(2))
    assert first.data == second.data
