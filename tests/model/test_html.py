"""Tables of notebooks: names are text, numbers stand to the right, no colours."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ray_sim.model.distribution import Distribution
from ray_sim.model.html import facts_html, table_html
from ray_sim.model.readable import duration
from tests.results_by_hand import three_jobs

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(markup: str) -> set[str]:
    """Tags of an element, which are all closed in order."""
    parser = _Tags()
    parser.feed(markup)
    assert parser.open == []
    return parser.seen


def test_names_from_outside_are_only_text() -> None:
    markup = table_html(HOSTILE, [HOSTILE], [[(HOSTILE, False, True)]], HOSTILE) + facts_html(
        "", [(HOSTILE, "1")]
    )
    assert tags_of(markup) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "\x1b" not in markup
    assert "\u202e" not in markup
    assert markup.count("&lt;script&gt;") == 5


def test_a_table_takes_the_colours_of_its_page() -> None:
    markup = table_html("t", ["policy", "JCT"], [[("las", False, False), ("3 s", True, True)]])
    assert set(re.findall(r"color:\w+|background|#[0-9a-f]{3}", markup)) == {"color:inherit"}
    assert re.search(r'<td style="text-align:right;[^"]*"><b>3 s</b></td>', markup)


def test_a_result_shows_times_in_days_and_hours_and_why_jobs_did_not_complete() -> None:
    # 10^7 s are 115 days and 17.8 hours.
    long = Distribution(mean=1e7, median=90.0, p90=None, p99=3661.0)
    result = three_jobs()
    markup = replace(result, summary=replace(result.summary, jct_s=long))._repr_html_()
    cells = re.findall(r">([^<>]+)</td>", markup)
    shown = dict(zip(cells[::2], cells[1::2], strict=True))
    assert shown["mean JCT"] == "115 d 18 h"
    assert (shown["median JCT"], shown["p99 JCT"]) == ("1 min 30 s", "1 h 1 min")
    assert (shown["completed"], shown["not completed, never_fits"]) == ("2", "1")
    assert shown["utilisation, gpu"] == "100.0%"
    assert "000 s" not in markup
    assert repr(result).splitlines()[0].split() == ["jobs", "3"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.5, "0.5 s"), (86_399.9, "1 d"), (-60.0, "-1 min")]
)
def test_durations_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
