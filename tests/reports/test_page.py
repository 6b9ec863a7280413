"""Reports say what the frames say, escape what users name, and need nothing but themselves."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.reports.findings import compare_places
from ray_sim.reports.page import Cell, Page, Section, Table, frame_table, render, without_constants
from ray_sim.reports.run_report import run_page
from ray_sim.reports.sweep_report import CONFIGURATIONS_SCHEMA, PlaceData, sweep_page
from ray_sim.reports.tables import RunRow, best_value
from tests.results_by_hand import PLACE, run_rows, three_jobs

HOSTILE = "<script>alert('$a$')</script>"


class _Elements(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[tuple[str | None, str]] = []
        """Type and content of each script element."""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["script"] and self.lasttag == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = kind, text + data

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = ""

    @property
    def charts(self) -> list[dict[str, Any]]:
        """Data of the charts, which the page's script draws."""
        packed = [text for kind, text in self.scripts if kind == "application/octet-stream"]
        return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]


def _run() -> Page:
    return run_page("fifo on edge", "3 jobs of week", [("seed", 0)], [("ray_sim", "0.1.0")], three_jobs())


def _sweep(*policies: str, failed: str = "broken", error: str = "ZeroDivisionError: no luck") -> Page:
    rows = run_rows({policy: [40.0 + n] for n, policy in enumerate(policies)})
    jct_s = {policy: np.array([10.0, 40.0 + n]) for n, policy in enumerate(policies)}
    places = [(PLACE, PlaceData(jct_s))] if policies else []
    lines: list[tuple[object, ...]] = [
        (*PLACE, policy, 0, "done", "ab", "runs/ab", None) for policy in policies
    ]
    lines.append((*PLACE, failed, 0, "failed", "cd", "runs/cd", error))
    configurations = pl.DataFrame(lines, schema=CONFIGURATIONS_SCHEMA, orient="row")
    return sweep_page("demo", rows, compare_places(rows), places, configurations)


def _section(page: Page, heading: str) -> Section:
    return next(section for section in page.sections if section.heading == heading)


def _texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


@pytest.fixture(scope="module", params=["run", "sweep"])
def page(request: pytest.FixtureRequest) -> Page:
    return _run() if request.param == "run" else _sweep("fifo", "sjf")


def test_a_page_holds_all_it_needs_and_runs_nothing_but_its_own_script(page: Page) -> None:
    html = render(page)
    elements = _Elements(html)
    assert not {"link", "img", "iframe", "object", "embed"} & set(elements.tags)
    scripts = [text for kind, text in elements.scripts if kind is None]
    assert len(scripts) == any(section.charts for section in page.sections)
    for script in scripts:
        allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
        assert ("content", policy) in elements.attributes
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)|fetch|innerHTML|eval\(", script)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    links = [value for name, value in elements.attributes if name in ("src", "href", "xlink:href")]
    assert bool(links) == any(section.pictures for section in page.sections)  # ticks of the pictures
    assert all(value and value.startswith("#") for value in links)
    assert not re.findall(rb"@import|url\((?!#)", html)


def test_charts_have_the_numbers_of_the_tables() -> None:
    # a holds the GPU for 0-10, b for 10-30; c is rejected at 3.
    bars, queue, _ = _Elements(render(_run())).charts
    assert (bars["servers"], bars["lanes"], bars["bars"]) == (["s0"], [1], [2])
    assert (bars["begin"], bars["length"], bars["job"]) == ([0, 10_000], [10_000, 20_000], [0, 1])
    jobs = three_jobs().jobs
    assert bars["jobs"]["id"] == jobs["job_id"].to_list()
    assert bars["jobs"]["queue_s"] == jobs["queue_s"].to_list()
    timeline = three_jobs().timeline
    waiting, running = queue["series"]
    assert (waiting["x"], waiting["y"]) == (timeline["time_s"].to_list(), timeline["waiting"].to_list())
    assert running["y"] == timeline["running"].to_list()


def test_every_reference_inside_a_page_has_one_target(page: Page) -> None:
    elements = _Elements(render(page))
    ids = [value for name, value in elements.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {f"#{each}" for each in ids} >= {value for name, value in elements.attributes if "href" in name}


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes() -> None:
    assert render(_run()) == render(_run())
    assert render(_sweep("fifo", "sjf")) == render(_sweep("fifo", "sjf"))


def test_names_and_errors_are_shown_as_they_are() -> None:
    html = render(_sweep(HOSTILE, "_mine:Own", failed=HOSTILE, error=HOSTILE))
    assert b"<script>alert" not in html
    # In three tables and the list of configurations; as the best in a heading of the verdicts, their note,
    # the caption of a chart, and twice in the findings; and the failed one's name, its error and its line in
    # the list. Charts name them in their data, which the script shows as text.
    assert html.count(b"$a$") == 12
    assert html.count(b"_mine:Own") == 5


@pytest.mark.slow
def test_characters_that_control_a_terminal_or_turn_a_text_round_are_escaped() -> None:
    frame = pl.DataFrame({"vc": ["\x1b]0;title\x07<b>", "a\u202eb"]})
    section = Section("About", (("seen in\n\x1b[2J", "two\nlines"),), (frame_table(frame, {"vc": "vc"}),))
    html = render(Page("P", "", (section,))).decode()
    assert r"<td>\x1b]0;title\x07&lt;b&gt;</td>" in html
    assert r"<td>a\u202eb</td>" in html
    assert "<dt>seen in\n\\x1b[2J</dt><dd>two\nlines</dd>" in html


def test_the_run_page_repeats_the_summary_and_the_jobs() -> None:
    # JCT of a is 10, of b 40, c is rejected: mean 25.
    page = _run()
    summary = dict(_section(page, "Summary").facts)
    assert (summary["JCT, mean"], summary["not completed, never_fits"]) == ("25 s", "1")
    by_size = _section(page, "Completion times by job size").tables[0]
    assert _texts(by_size) == [
        ["1", "2", "2", "25 s", "25 s", "37 s", "5 s"],
        ["2", "1", "0", "-", "-", "-", "-"],
    ]
    slowest = _section(page, "Slowest jobs").tables[0]
    assert [row[0] for row in _texts(slowest)] == ["b", "a"]


@pytest.mark.slow
@pytest.mark.parametrize(("column", "name"), [("vc", "virtual cluster"), ("user", "user")])
def test_virtual_clusters_and_users_appear_where_there_are_any(column: str, name: str) -> None:
    heading = f"Completion times by {name}"
    assert heading not in [section.heading for section in _run().sections]
    result = three_jobs()
    owned = replace(result, jobs=result.jobs.with_columns(pl.Series(column, ["x", "y", "y"])))
    table = _section(run_page("", "", [], [], owned), heading).tables[0]
    assert [row[:3] for row in _texts(table)] == [["y", "2", "1"], ["x", "1", "1"]]


@pytest.mark.slow
def test_the_sweep_page_shows_what_failed_and_where_the_rest_is() -> None:
    page = _sweep("fifo", "sjf")
    assert page.subtitle == "3 configurations: 2 done, 1 failed"
    assert _texts(_section(page, "Failed configurations").tables[0])[0][-2:] == [
        "0",
        "ZeroDivisionError: no luck",
    ]
    listing = _texts(_section(page, "Configurations").tables[0])
    assert [row[-3:] for row in listing] == [
        ["done", "ab", "runs/ab"],
        ["done", "ab", "runs/ab"],
        ["failed", "cd", "runs/cd"],
    ]


@pytest.mark.slow
def test_pages_begin_with_what_policies_warn_of_and_show_their_figures() -> None:
    result = three_jobs()
    told = replace(
        result.summary, policy_warnings=["prices span too much"], policy_figures={"price_span": 72.8}
    )
    page = run_page("", "", [], [], replace(result, summary=told))
    assert page.sections[0] == Section("Warnings", facts=(("policy", "prices span too much"),))
    assert dict(_section(page, "Summary").facts)["policy, price span"] == "72.8"
    # Of a sweep the first warning of each policy, and means of figures; others have none.
    rows = [RunRow(*PLACE, "pd_ors", seed, told) for seed in (0, 1)]
    rows += [RunRow(*PLACE, "fifo", None, result.summary)]
    places = [(PLACE, PlaceData({"pd_ors": np.array([10.0]), "fifo": np.array([10.0])}))]
    page = sweep_page(
        "demo",
        rows,
        compare_places(rows),
        places,
        pl.DataFrame([], schema=CONFIGURATIONS_SCHEMA, orient="row"),
    )
    [warnings] = [section for section in page.sections if section.heading.startswith("Warnings")]
    assert warnings.facts == (("pd_ors", "prices span too much"),)
    tables = next(section for section in page.sections if section.heading == "week, edge").tables
    [table] = [table for table in tables if "ln(U/L)" in table.columns]
    assert [row[table.columns.index("ln(U/L)")] for row in _texts(table)] == ["72.8", "-"]


@pytest.mark.slow
def test_the_best_of_a_column_is_marked_where_policies_differ() -> None:
    table = _section(_sweep("fifo", "sjf"), "week, edge").tables[1]
    fifo, sjf = ({table.columns[i] for i, cell in enumerate(row) if cell.best} for row in table.rows)
    assert fifo == {"mean JCT", "median", "p90", "p99"}  # its last job is a second earlier
    assert sjf == set()


@pytest.mark.parametrize(
    ("name", "values", "best"),
    [
        ("jct_s.mean", [3.0, 2.0, None], 2.0),
        ("utilisation.gpu", [0.5, 0.7], 0.7),
        ("completed", [10.0, 9.0], 10.0),
        ("makespan_s", [4.0, 4.0], None),
        ("preemptions", [4.0, 5.0], None),
    ],
)
def test_less_time_and_more_use_are_better(name: str, values: list[float], best: float | None) -> None:
    assert best_value(pl.Series(name, values)) == best


def test_a_table_of_no_rows_keeps_its_heading() -> None:
    table = frame_table(pl.DataFrame({"a": []}), {"a": "A", "missing": "M"})
    assert (table.columns, table.rows) == (("A",), ())


def test_a_run_in_which_nothing_happened_has_a_report() -> None:
    result = three_jobs()
    empty = replace(result, jobs=result.jobs.clear(), timeline=result.timeline.clear())
    assert b"</html>" in render(run_page("none", "", [], [], empty))


def test_a_sweep_in_which_all_failed_has_a_report() -> None:
    html = render(_sweep())
    assert b"ZeroDivisionError: no luck" in html


def test_a_column_with_one_text_is_told_in_the_note() -> None:
    def table(*rows: tuple[str, ...]) -> Table:
        cells = tuple(tuple(map(Cell, row)) for row in rows)
        return without_constants(Table(("policy", "seeds", "mean JCT"), cells, "Means over seeds."))

    told = table(("fifo", "3", "2 h"), ("sjf", "3", "1 h"))
    assert (told.columns, _texts(told)) == (("policy", "mean JCT"), [["fifo", "2 h"], ["sjf", "1 h"]])
    assert told.note == "Means over seeds. In all rows: seeds 3."
    assert table(("fifo", "3", "2 h")).columns == ("policy", "seeds", "mean JCT")
