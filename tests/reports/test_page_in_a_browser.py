"""Pages of reports in a headless browser: their charts are drawn, and nothing is wider than the window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ray_sim.experiments.explain import facts_of
from ray_sim.reports.findings import compare_places
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import Page, render
from ray_sim.reports.run_report import run_page
from ray_sim.reports.sweep_report import CONFIGURATIONS_SCHEMA, PlaceData, sweep_page
from ray_sim.reports.tables import RunRow
from tests.chromium import CATCH, answers_of
from tests.worlds import Job, replay, world_of

pytestmark = [pytest.mark.docs, pytest.mark.slow]

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
PROBE = """
<script>
const drawn = () => [...document.querySelectorAll("canvas")].filter((each) => each.dataset.drawMs);
const probe = () => {
  if (drawn().length < document.querySelectorAll("figure.chart").length) { setTimeout(probe, 50); return; }
  const canvas = drawn()[0], box = canvas.getBoundingClientRect(), root = document.documentElement;
  canvas.setPointerCapture = () => {};
  for (const type of ["pointerdown", "pointerup"]) canvas.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 1, clientX: box.left + box.width * 0.3, clientY: box.top + 32 }));
  parent.postMessage([window.name, {
    wide: root.scrollWidth, window: root.clientWidth, drawn: drawn().length,
    details: (document.querySelector(".details") || {}).innerText,
    paper: getComputedStyle(document.body).backgroundColor, errors: window.failures }], "*");
};
probe();
</script>
"""


def _run() -> Page:
    # J1 holds both GPUs of the first server for 0-100, J2 waits for them.
    world = world_of([Job(0, 2, 100), Job(5, 2, 50)], [2.0], names=[HOSTILE])
    result = replay(world, "fifo")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    return run_page(HOSTILE, HOSTILE * 3, [("workload", HOSTILE)], [], result, explainer)


def _sweep() -> Page:
    result = replay(world_of([Job(0, 2, 100), Job(5, 2, 50)], [2.0]), "fifo")
    policies = [HOSTILE, "sjf(placement=consolidate,backfill=True)"]
    rows = [RunRow("week", "edge", "", policy, 0, result.summary) for policy in policies]
    curves = {policy: result.jobs["jct_s"].to_numpy() for policy in policies}
    data = PlaceData(curves, None, dict.fromkeys(policies, result.timeline))
    lines = [("week", "edge", "", policy, 0, "done", "ab", "runs/ab", None) for policy in policies]
    configurations = pl.DataFrame(lines, schema=CONFIGURATIONS_SCHEMA, orient="row")
    return sweep_page("demo", rows, compare_places(rows), [(("week", "edge", ""), data)], configurations)


def probed(page: Page, browser: str, folder: Path, width: int, *, dark: bool = False) -> dict[str, Any]:
    """Answer of the page in a frame; the page's policy for scripts is lifted for it."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', CATCH, render(page).decode())
    (folder / "page.html").write_text(text.replace("</body>", PROBE + "</body>"))
    frames = {"page": ("page.html", width)}
    return answers_of(browser, folder / "profile", folder, frames, dark=dark)["page"]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_page_is_drawn_and_fits_its_window(kind: str, width: int, browser: str, tmp_path: Path) -> None:
    page = _run() if kind == "run" else _sweep()
    found = probed(page, browser, tmp_path, width)
    assert found["errors"] == []
    assert found["wide"] <= found["window"]
    assert found["drawn"] == sum(len(section.charts) for section in page.sections)
    assert found["paper"] == "rgb(255, 255, 255)"


def test_a_click_on_a_bar_explains_its_job_and_dark_pages_are_dark(browser: str, tmp_path: Path) -> None:
    found = probed(_run(), browser, tmp_path, 1400, dark=True)
    assert found["errors"] == []
    assert "Job J1" in found["details"]
    assert "first start: 0 s" in found["details"]
    assert found["paper"] == "rgb(21, 24, 27)"
