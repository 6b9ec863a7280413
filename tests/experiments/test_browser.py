"""The prepared page of MLflow, opened in a headless browser as `make ui` opens it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_sim.experiments.result_files import encode_result
from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.sweep_file import Entry
from ray_sim.experiments.tracking import log_store
from tests.patience import PATIENCE_S, until
from tests.results_by_hand import three_jobs

pytestmark = [pytest.mark.docs, pytest.mark.slow]

POLICIES = ("fifo", "las(knob=2)")
CHARTS = ("jct_s.mean", "jct_s.p99", "queue_s.mean", "utilisation.gpu", "makespan_s")


@pytest.fixture
def browser() -> str:
    """Path of a Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium; on Debian: apt-get install chromium")
    return found


@pytest.fixture
def charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of the prepared page of a sweep of two policies with two seeds, with a server behind it."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    entries = [
        Entry(f"{row}{seed}" * 32, "week", "edge", "", policy, seed, f"{row}{seed}" * 32)
        for row, policy in zip("ab", POLICIES, strict=True)
        for seed in (0, 1)
    ]
    store = ResultStore(tmp_path / "results")
    with store.writing("study"):
        store.write_plan("study", entries, "numbers")
        for index, entry in enumerate(entries):
            store.put(entry.content_hash, encode_result(three_jobs(40.0 + index), _manifest(entry)))
    logged = log_store(store.root)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", logged.tracking_uri]
    server = subprocess.Popen(
        [*serve, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port), "the server answers")
        yield logged.charts.replace("127.0.0.1:5000", f"127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait()


def test_the_page_shows_a_chart_per_metric_with_a_bar_per_policy(
    charts: str, browser: str, tmp_path: Path
) -> None:
    pages = []

    def drawn() -> bool:
        """Whether each chart has its title and both policies' names; the list of runs has these too."""
        pages.append(_page(charts, browser, tmp_path))
        named = all(pages[-1].count(f">{policy}<") > len(CHARTS) for policy in POLICIES)
        return named and all(f">{metric}<" in pages[-1] for metric in CHARTS)

    until(drawn, f"the charts of {charts} are drawn")
    assert ">2</strong> matching runs" in pages[-1]  # neither the sweep's own run nor its seeds
    assert "fifo seed 0" not in pages[-1]


def _page(address: str, browser: str, folder: Path) -> str:
    """The document after its scripts have run; the browser's clock runs ahead while nothing is loaded."""
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder / 'profile'}", "--window-size=1600,1300"]
    command += ["--virtual-time-budget=90000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _manifest(entry: Entry) -> dict[str, object]:
    return {
        "content_hash": entry.content_hash,
        "inputs": {"workload": {"path": "week.parquet"}, "cluster": "edge"},
        "policy": entry.policy.partition("(")[0],
        "parameters": {},
        "world": {},
        "trim": None,
        "partition": "none",
        "seed": entry.seed,
    }
