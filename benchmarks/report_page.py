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
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote

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
    const told = times.slice(1).join(" ms, ") + " ms";
    if (!steps.length) { fetch("http://127.0.0.1:PORT/?" + told, { mode: "no-cors" }); return; }
    button(steps.shift()).click();
    later(next);
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
    """Milliseconds of each frame. The page sends them to this process, as they need a real clock."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return "no Chromium"
    told: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(unquote(self.path.partition("?")[2]))
            self.send_response(204)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    with tempfile.TemporaryDirectory() as folder, HTTPServer(("127.0.0.1", 0), Answer) as server:
        path = Path(folder) / "page.html"
        path.write_text(text.replace("</body>", _PROBE.replace("PORT", str(server.server_port))))
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
        command += [f"--user-data-dir={folder}/profile", "--remote-debugging-port=0", path.as_uri()]
        server.timeout = 60
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.handle_request()
        finally:
            process.terminate()
            process.wait()
    return told[0] if told else "not drawn"


if __name__ == "__main__":
    _main()
