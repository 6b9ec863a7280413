"""Size of the report of a run with 100,000 events, and the time of a frame of its picture of jobs on servers.

    python -m benchmarks.report_page

needs Chromium and takes about a minute. Times are those of `performance.now` in the page: the whole run, and
after three zooms.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from ray_sim import load_cluster, simulate
from ray_sim.engine.build_world import build_world
from ray_sim.experiments.explain import facts_of
from ray_sim.experiments.scenario import Value
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import render
from ray_sim.reports.run_report import run_page
from workloads.store import frame_to_table
from workloads.synthetic.synth import synth

JOBS = 22_000
CLUSTER = "pool-368"
_PROBE = """
<script>
const bars = () => document.querySelector("figure.gantt canvas");
const later = (act) => setTimeout(act, 50);
const whole = () => {
  if (!bars() || !bars().dataset.drawMs) { later(whole); return; }
  const button = (title) => document.querySelector(`figure.gantt button[title="${title}"]`);
  const times = [];
  const steps = ["whole run", "zoom in", "zoom in", "zoom in"];
  const next = () => {
    times.push(bars().dataset.drawMs);
    if (!steps.length) { document.title = "FOUND" + times.slice(1).join(" ms, ") + " msDNUOF"; return; }
    button(steps.shift()).click();
    requestAnimationFrame(() => requestAnimationFrame(next));
  };
  next();
};
whole();
</script></body>"""


def _main() -> None:
    cluster = load_cluster(CLUSTER)
    frame, _ = synth("philly", JOBS, seed=0, load_scale=0.5)
    table = frame_to_table(frame, cluster.resources)
    params: dict[str, Value] = {"placement": "consolidate", "backfill": True}
    result = simulate(table, cluster, "srtf", params)
    began = time.perf_counter()
    facts = facts_of(build_world(table, cluster), dict(params))
    explainer = RunExplainer(facts, result.jobs, result.events)
    page = render(run_page("benchmark", f"{JOBS:,} jobs", [], [], result, explainer)).decode()
    made_s = time.perf_counter() - began
    stays = len(explainer.history.holdings)
    print(f"{len(result.events):,} events, {stays:,} stays: {len(page) / 1e6:.2f} MB in {made_s:.1f} s")
    print(f"frames of the whole run and after each of three zooms: {_frames(page)}")


def _frames(page: str) -> str:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return "no Chromium"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(text.replace("</body>", _PROBE))
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
        command += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=60000", "--dump-dom"]
        dom = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, check=True).stdout
    found = re.search("FOUND(.*)DNUOF", dom)
    return found[1] if found else "not drawn"


if __name__ == "__main__":
    _main()
