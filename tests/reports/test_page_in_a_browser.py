"""Pages of reports in a headless browser: their charts are drawn, and nothing is wider than the window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ray_sim.experiments.explain import facts_of
from ray_sim.reports.across import axis_chart
from ray_sim.reports.curves import Axis, Curves, Point
from ray_sim.reports.findings import compare_places
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import Chart, Page, Section, render
from ray_sim.reports.run_report import run_gantt, run_page
from ray_sim.reports.statistics import ConfidenceInterval
from ray_sim.reports.sweep_report import CONFIGURATIONS_SCHEMA, PLACE_COLUMNS, PlaceData, sweep_page
from ray_sim.reports.tables import RunRow
from tests.chromium import CATCH, answers_of
from tests.worlds import Job, replay, world_of

pytestmark = [pytest.mark.docs, pytest.mark.slow]

PLACE = ("week", "edge", "")
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
PROBE = """
<script>
const figures = () => [...document.querySelectorAll("figure.chart")];
const drawn = () => figures().filter((each) => each.querySelector("[data-drawn]"));
const caption = (figure) => figure.querySelector("figcaption").textContent;
const named = (begin) => figures().find((each) => caption(each).startsWith(begin));
const later = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const click = (figure, x, y) => {
  const picture = figure.querySelector('[role="img"]'), box = picture.getBoundingClientRect();
  picture.setPointerCapture = () => {};
  for (const type of ["pointerdown", "pointerup"]) picture.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 1, clientX: box.left + x, clientY: box.top + y }));
};
const copied = async (figure, kind) => {
  let text = "";
  const value = { writeText: async (each) => { text = each; } };
  Object.defineProperty(navigator, "clipboard", { configurable: true, value });
  [...figure.querySelectorAll(".tools button")].find((each) => each.textContent === kind).click();
  await later();
  return text;
};
const overlaps = () => figures().flatMap((figure) => {
  const boxes = [...figure.querySelectorAll('[role="img"] text')].filter((each) => each.textContent)
    .map((each) => [each.textContent, each.getBoundingClientRect()]);
  const apart = (a, b) => a.right < b.left + 1 || a.bottom < b.top + 3;  // lines of text may touch
  const meet = (a, b) => !apart(a, b) && !apart(b, a);
  return boxes.flatMap(([a, one], i) =>
    boxes.slice(i + 1).filter(([b, two]) => meet(one, two)).map(([b]) => [a, b]));
});
const probe = async () => {
  if (drawn().length < figures().length) { setTimeout(probe, 50); return; }
  const root = document.documentElement, answer = await SCRIPT;
  parent.postMessage([window.name, {
    wide: root.scrollWidth, window: root.clientWidth, drawn: drawn().length, overlaps: overlaps(), answer,
    paper: getComputedStyle(document.body).backgroundColor, errors: window.failures }], "*");
};
probe();
</script>
"""
"""Answers for the whole page, and `answer` of the script that takes the place of SCRIPT."""

CLICK_A_BAR = """(async () => {
  const figure = named("Jobs on servers"), box = figure.querySelector('[role="img"]').getBoundingClientRect();
  click(figure, box.width * 0.3, 32);
  return figure.querySelector(".details").innerText;
})()"""

HIDE_AND_COPY = """(async () => {
  const count = () => document.querySelectorAll('[data-series="sjf"]').length;
  const jct = named("Job completion times"), before = count(), whole = await copied(jct, "CSV");
  document.querySelector('button[data-name="sjf"]').click();
  await later();
  click(jct, 200, 100);
  const servers = figures().filter((each) => each.classList.contains("gantts"));
  return { before, after: count(), whole, rest: await copied(jct, "CSV"), svg: await copied(jct, "SVG"),
    seeds: await copied(named("Difference"), "CSV"), jobs: jct.querySelector(".details").innerText,
    runs: servers.map((each) => each.querySelector("select").value), bars: await copied(servers[1], "CSV"),
    bars_svg: await copied(servers[1], "SVG"),
    y: figures().map((each) => each.querySelector('text[y="12"]').textContent) };
})()"""


def _run() -> Page:
    # J1 holds both GPUs of the first server for 0-100, J2 waits for them.
    world = world_of([Job(0, 2, 100), Job(5, 2, 50)], [2.0], names=[HOSTILE])
    result = replay(world, "fifo")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    return run_page(HOSTILE, HOSTILE * 3, [("workload", HOSTILE)], [], result, explainer)


def _sweep(*policies: str) -> Page:
    """Two jobs under each policy and two seeds: J1 runs for 100 s, J2 waits 95 s, JCTs 100 and 145 s."""
    result = replay(world_of([Job(0, 2, 100), Job(5, 2, 50)], [2.0], names=["gpu-server"]), "fifo")
    rows = [RunRow(*PLACE, policy, seed, result.summary) for policy in policies for seed in (0, 1)]
    done = result.jobs.select(PLACE_COLUMNS)
    jobs = [done.with_columns(policy=pl.lit(each), seed=pl.lit(0, pl.Int64)) for each in policies]
    curves = {policy: result.jobs["jct_s"].to_numpy() for policy in policies}
    timelines: dict[str, dict[int | None, pl.DataFrame]] = {
        policy: {0: result.timeline, 1: result.timeline} for policy in policies
    }
    lines = [(*PLACE, policy, 0, "done", "ab", "runs/ab", None) for policy in policies]
    configurations = pl.DataFrame(lines, schema=CONFIGURATIONS_SCHEMA, orient="row")
    runs = [{"label": policy, **run_gantt(result, None).data} for policy in policies]
    servers = Chart("Jobs on servers", {"kind": "gantts", "runs": runs}, "Other runs.")
    data = PlaceData(curves, pl.concat(jobs), timelines)
    return sweep_page(
        "demo", rows, compare_places(rows), [(PLACE, data)], configurations, (), lambda _: servers
    )


def probed(
    page: Page, browser: str, folder: Path, width: int, script: str = "null", *, dark: bool = False
) -> dict[str, Any]:
    """Answer of the page in a frame; the page's policy for scripts is lifted for it."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', CATCH, render(page).decode())
    (folder / "page.html").write_text(text.replace("</body>", PROBE.replace("SCRIPT", script) + "</body>"))
    frames = {"page": ("page.html", width)}
    return answers_of(browser, folder / "profile", folder, frames, dark=dark)["page"]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_page_is_drawn_and_fits_its_window(kind: str, width: int, browser: str, tmp_path: Path) -> None:
    page = _run() if kind == "run" else _sweep(HOSTILE, "sjf(placement=consolidate,backfill=True)")
    found = probed(page, browser, tmp_path, width)
    assert found["errors"] == []
    assert found["wide"] <= found["window"]
    assert found["drawn"] == sum(len(section.charts) for section in page.sections) + (kind == "sweep")
    assert found["overlaps"] == []
    assert found["paper"] == "rgb(255, 255, 255)"


def test_a_click_on_a_bar_explains_its_job_and_dark_pages_are_dark(browser: str, tmp_path: Path) -> None:
    found = probed(_run(), browser, tmp_path, 1400, CLICK_A_BAR, dark=True)
    assert found["errors"] == []
    assert "Job J1" in found["answer"]
    assert "first start: 0 s" in found["answer"]
    assert found["paper"] == "rgb(21, 24, 27)"


def test_a_policy_is_hidden_in_all_charts_and_numbers_are_those_of_the_charts(
    browser: str, tmp_path: Path
) -> None:
    found = probed(_sweep("fifo", "sjf"), browser, tmp_path, 1400, HIDE_AND_COPY)
    answer = found["answer"]
    assert found["errors"] == []
    assert answer["before"] > 5
    assert answer["after"] == 0
    head = "name,seed,completion time,share of completed jobs\n"
    assert answer["rest"] == head + "fifo,,100,0.5\nfifo,,145,1\n"
    assert answer["whole"] == answer["rest"] + "sjf,,100,0.5\nsjf,,145,1\n"
    assert "fifo" in answer["svg"]
    assert "sjf" not in answer["svg"]
    assert answer["seeds"] == 'name,what,"mean JCT minus that of fifo, s"\n'  # sjf, the only other, is hidden
    assert "J2\t0\t2 min 25 s\t5 s\t50 s\t1 min 35 s" in answer["jobs"]
    assert answer["runs"] == ["fifo", "sjf"]
    assert answer["bars"].splitlines()[1:] == [
        "gpu-server,J1,2,worker,0,100,finished",
        "gpu-server,J2,2,worker,100,150,finished",
    ]
    assert "gpu-server" in answer["bars_svg"]
    assert answer["bars_svg"].count("<rect") >= 3
    assert all(answer["y"])
    assert {"jobs", "share of completed jobs", "server"} < {*answer["y"]}


def test_a_chart_over_an_axis_has_its_means_and_intervals(browser: str, tmp_path: Path) -> None:
    ends = ConfidenceInterval(2.0, 4.5)
    points = (Point("las", 1.0, 9, 3.0, ends, None), Point("las", 2.0, 1, 1.5, None, None))
    chart = axis_chart("wait", Curves(Axis("servers"), Axis("wait", "hours"), (1.0, 2.0), ("las",), points))
    script = """(async () => { const figure = named("wait"), picture = figure.querySelector('[role="img"]');
      const { left, top } = picture.getBoundingClientRect();
      picture.dispatchEvent(new PointerEvent("pointermove", { clientX: left + 60, clientY: top + 50 }));
      return [figure.querySelector(".readout").textContent, await copied(figure, "CSV")]; })()"""
    page = Page("t", "", (Section("Across cluster", charts=(chart,)),))
    found = probed(page, browser, tmp_path, 400, script)
    assert (found["errors"], found["overlaps"], found["wide"] <= found["window"]) == ([], [], True)
    assert found["answer"][0] == "1 · las 3 (2 to 4.5)"
    rows = "las,,1,3,2,4.5\nlas,,2,1.5,,\n"
    assert found["answer"][1] == "name,seed,servers,wait (hours),95 % low,95 % high\n" + rows
