"""The files of the studies that the documentation reports: sound, and named there."""

from __future__ import annotations

import gzip
import re
import runpy
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

from ray_sim.cli import main
from ray_sim.experiments.figures.file import bundled_figures
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.layer_file import load_announcement_draws, names_announcement_profile
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.run import simulate
from ray_sim.experiments.scenario import Value
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.learning.training_plan import read_plan
from ray_sim.policies.harmony.policy import BUNDLED
from tests.command_line import python
from tests.conftest import REPOSITORY
from tests.figures import welfare_of

STUDIES = REPOSITORY / "docs" / "studies"
WRITERS = ("alike", "example")
"""Scripts of studies that write CSV workloads; others read results."""

DAYS = [f"philly_day_{day}" for day in (22, 55, 77, 93)]
"""Days of Philly that the study of posted prices drew."""

FILES = sorted(path.relative_to(STUDIES) for path in STUDIES.glob("*/*.yaml"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The studies, each with its jobs; synthetic ones stand in for traces, one network for those trained."""
    desk = tmp_path_factory.mktemp("studies") / "studies"
    shutil.copytree(STUDIES, desk)
    jobs_of_philly = desk / "philly.parquet"
    assert main(["synth", "philly", "-n", "50", "-o", str(jobs_of_philly)]) == 0
    for study in (path for path in desk.iterdir() if path.is_dir()):
        for writer in (path for path in study.glob("*.py") if path.stem in WRITERS):
            python(writer.name, cwd=study)
        for jobs in study.glob("*.csv"):
            assert main(["convert", "csv", str(jobs), "-o", str(jobs.with_suffix(".parquet"))]) == 0
        for trace in ("google", "google_tasks", "philly", "philly_day", *DAYS, "week"):
            shutil.copy(jobs_of_philly, study / f"{trace}.parquet")
    _give_priorities(desk / "real_delays" / "google.parquet")
    machines = "name: google-2011\nservers: [{name: a, gpus: 0, cpu_norm: 1, memory_norm: 1}]\n"
    (desk / "real_delays" / "google-machines.yaml").write_text(machines, encoding="utf-8")
    for network in sorted(_networks(desk / "harmony")):
        (desk / "harmony" / network).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BUNDLED, desk / "harmony" / network)
    return desk


def _give_priorities(trace: Path) -> None:
    """Give the jobs of a workload priorities from 0 to 11, as Google's have."""
    jobs = pl.read_parquet(trace).select("job_id", "submit_s", "num_gpus", "duration_s")
    table = trace.with_suffix(".csv")
    jobs.with_row_index("priority").with_columns(pl.col("priority") % 12).write_csv(table)
    assert main(["convert", "csv", str(table), "-o", str(trace)]) == 0


def _networks(study: Path) -> set[str]:
    """Networks that the sweeps of a study name."""
    text = "".join(path.read_text(encoding="utf-8") for path in study.glob("*.yaml"))
    return set(re.findall(r"trained/[\w-]+/[\w.]+", text))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_a_study_is_sound(file: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir((desk / file).parent)
    text = Path(file.name).read_text(encoding="utf-8")
    if "maskable_agent:" in text:
        pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    content = yaml.safe_load(text)
    if "policies" in content:
        assert read_sweep(Path(file.name)).name == content["name"]
        page = (STUDIES / f"{file.parent}.md").read_text(encoding="utf-8")
        assert f"| `{file.name}` |" in page
    elif "servers" in content:
        assert load_cluster(Path(file.name)).name == content["name"]
    elif names_announcement_profile(Path(file.name)):
        assert load_announcement_draws(Path(file.name)).name == content["name"]
    else:
        assert load_training_draws(Path(file.name)).name == content["name"]


def test_trainings_of_the_study_of_harmony_are_sound_and_in_its_sweeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = STUDIES / "harmony"
    monkeypatch.chdir(folder)
    names = runpy.run_path("trainings.py")
    trained = {f"trained/main-{seed}/checkpoint.npz" for seed in names["MAIN_SEEDS"]}
    for setting in names["SETTINGS"]:
        for seed in names["SEEDS"]:
            plan = read_plan(names["PLAN"], names["changes_of"](setting, seed))
            assert plan.seed == seed
            trained.add(f"trained/{setting}-{seed}/checkpoint.npz")
    trained |= {f"trained/maskable-{seed}/network.zip" for seed in names["SEEDS"]}
    assert _networks(folder) == trained


@pytest.mark.slow
def test_a_job_of_the_papers_example_earns_9_on_demand(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sum over k < 10 of 2^(k - 10) x 2^(10 - k) = 9, and 2^-9 for the arrival at 10.
    monkeypatch.chdir(desk / "posted_price")
    world: dict[str, Value] = {"truth": "announced", "slot_s": 600, "horizon_s": 90000}
    demand, reserved = (
        welfare_of(simulate("example.parquet", "pool-10.yaml", policy, world=world))
        for policy in ("announced_fifo", "reservation")
    )
    assert demand.welfare == 512 * (9 + 2.0**-9)
    assert reserved.welfare < demand.welfare / 3


@pytest.mark.long
@pytest.mark.slow
def test_scripts_of_the_posted_price_study_report_its_results(desk: Path, tmp_path: Path) -> None:
    study = desk / "posted_price"
    rigid = {
        "workload": {"path": "google_like.parquet", "enrich": "per-job.yaml"},
        "cluster": "pool-100.yaml",
    }
    rounds = {"truth": "announced", "slot_s": 3600, "horizon_s": 400000, "most_value": 1024}
    honest = {**rigid, "policy": "announced_fifo", "world": rounds}
    for name, scenario in {"rigid": rigid, "honest": honest}.items():
        (study / f"{name}-run.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
        python("-m", "ray_sim.cli", "run", f"{name}-run.yaml", "-o", str(tmp_path / name), cwd=study)
    table = python("tables.py", str(tmp_path / "rigid"), str(tmp_path / "honest"), cwd=study)
    assert "| fifo |" in table
    assert "| announced_fifo |" in table
    assert "| 1 to 1 |" not in python("payments.py", str(tmp_path / "honest"), cwd=study)  # nobody pays


OPTIMUS = STUDIES / "optimus"


def test_the_jobs_of_the_figures_are_the_converted_csv_file() -> None:
    jobs = pl.read_parquet(bundled_figures()["optimus/main"].with_name("jobs.parquet"))
    written = pl.read_csv(OPTIMUS / "jobs.csv")
    as_floats = pl.col("submit_s", "num_gpus", "duration_s").cast(pl.Float64)
    assert jobs.select(as_floats).equals(written.select(as_floats))
    # 30 of them in 12,000 s ask for 25.3 workers at a time; with a parameter server each, 5.5 cores of 160 a
    # pair.
    worker_s = (written["num_gpus"] * written["duration_s"]).mean()
    assert isinstance(worker_s, float)
    assert 30 * worker_s / 12_000 * 5.5 / 160 == pytest.approx(0.8698, abs=5e-5)


def test_google_s_submissions_of_seven_hours_are_taken_at_equal_distances(tmp_path: Path) -> None:
    # One submission every 100 s for seven hours makes 252; a later one and other events do not count.
    start_us, step_us = 600_000_000, 100_000_000
    lines = [f"{start_us + number * step_us},,{number},0,u,0,n,l" for number in range(253)]
    others = ["0,,900,0,u,0,n,l", f"{start_us + 5},,901,1,u,0,n,l"]
    with gzip.open(tmp_path / "part-00000-of-00500.csv.gz", "wt") as part:
        part.write("\n".join([*others, *lines]) + "\n")
    out = tmp_path / "jobs.csv"
    told = python(str(OPTIMUS / "google_arrivals.py"), str(tmp_path), "-o", str(out), cwd=tmp_path)
    assert told == "126 of 252 submissions\n"
    jobs, own = pl.read_csv(out), pl.read_csv(OPTIMUS / "jobs.csv")
    assert jobs["submit_s"].to_list() == [200.0 * number for number in range(126)]
    assert jobs["duration_s"].to_list() == [own["duration_s"][number % 60] for number in range(126)]
