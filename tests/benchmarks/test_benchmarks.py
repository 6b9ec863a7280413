"""The benchmarks themselves, small: they report what the page on performance says they do."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch

import pytest

from benchmarks import loop
from benchmarks.own_policy import OneWorkerEach
from benchmarks.processes import peak_mb, python
from ray_sim.cli import bench
from ray_sim.engine.run import run_world
from ray_sim.model.errors import RunFailedError
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "performance.md"


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_every_figure_of_the_page_is_reported_with_its_budget() -> None:
    report = bench._measured(bench.NAMES, "--small")
    assert {name for name, each in report["benchmarks"].items() if each["failed"]} == set()
    budgets = {f"{name}.{row['key']}": row["budget"] for name, row in bench._rows(report)}
    told = re.findall(r"^\|[^|]*\| `([^`]+)`[^|]*\| *([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    assert len(told) > 30
    for figure, limit in told:
        numbers = re.findall(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?(?:e-\d+)?", limit)
        found = {budget for key, budget in budgets.items() if fnmatch(key, figure)}
        assert found == {float(number.replace(",", "")) for number in numbers}, figure


@pytest.mark.slow
def test_the_crowded_servers_have_500_running_jobs_most_of_the_time() -> None:
    # 100 servers of 20 cores: five jobs each, whose worker and parameter server take two cores apiece.
    world = loop.crowded_world(loop.ELASTIC_JOBS, loop.CROWDS[1])
    running = run_world(world, OneWorkerEach()).timeline["running"]
    assert running.max() == running.median() == 100 * 20 // 4


def test_the_peak_of_a_child_is_its_own_and_not_its_parents() -> None:
    # 300 MB in the parent, written to; a child that only starts takes less than 100 MB.
    programme = (
        "held = bytearray(b'x') * 300_000_000\n"
        "from benchmarks.processes import python\n"
        "from benchmarks.processes import peak_mb\n"
        "told = python('-c', 'from benchmarks.processes import peak_mb; print(peak_mb())')[1]\n"
        "print(peak_mb(), told)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", programme],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    parent, child = map(float, ended.stdout.split())
    assert parent > 300
    assert child < 100
    assert peak_mb() > 10


def test_a_child_that_fails_says_what_it_said() -> None:
    with pytest.raises(RunFailedError, match="exit code 3: out of tune"):
        python("-c", "import sys; sys.stderr.write('out of tune'); sys.exit(3)")
