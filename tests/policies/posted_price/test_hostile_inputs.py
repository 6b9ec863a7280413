"""Inputs of posted prices that cannot be, from Python and from the command line: refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.engine.run import run_world
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.policies.posted_price.exact_failure import ExactFailure
from ray_sim.policies.posted_price.failure import MOST_ESTIMATES
from ray_sim.policies.posted_price.menu import MOST_ROUNDS
from tests.command_line import answer, complaint
from tests.figures import welfare_of
from tests.policies.posted_price.engine_runs import Instance, policy_of, run_engine, world_of
from tests.policies.posted_price.naive_mechanism import NANO, Job, Setting
from tests.proofs import quick_first

SETTING = Setting(nodes=6, rounds=9, eps=0.0, max_value=8.0, max_concurrency=2, max_rounds=3, signal="full")
JOB = Job(0, 2, (8 * NANO,) * 6, ((1, 2, 0.5), (4, 1, 0.5)), 1, 2)


@pytest.mark.parametrize(
    ("world", "params", "fault"),
    [
        ({"horizon_s": None}, {}, "plans up to a horizon: give it"),
        ({"horizon_s": 59}, {}, "horizon_s: 59 s hold no round of 60 s .slot_s., so no job can run"),
        ({"slot_s": 3600}, {}, "horizon_s: 540 s hold no round of 3600 s"),
        ({"slot_s": None}, {}, "slot_s: announced jobs run in rounds"),
        ({"horizon_s": 60.0 * (MOST_ROUNDS + 1)}, {}, "horizon_s: prices of 50,000,001 rounds"),
        ({"most_gpus": 6}, {}, "must be > 0, but eps = 0, C = 6 nodes and C_m = 6"),
        ({"most_gpus": 1}, {}, r"reported_gpus: must be at most 1 .* is 2"),
        ({"most_duration_s": 30}, {}, "outlook: must be at most 1 rounds .most_duration_s.*, is 2"),
        ({"most_value": 7}, {}, "value: must be at most 7 .most_value.*, is 8"),
        ({"most_value": 1e9, "most_duration_s": 6000}, {}, "H C_m D_m must be at most 4.61e.09 so that"),
        ({}, {"eps": 7.0}, "must be > 0, but eps = 7, C = 6 nodes and C_m = 2"),
    ],
)
def test_worlds_and_parameters_are_refused_by_name(
    world: Mapping[str, object], params: Mapping[str, float], fault: str
) -> None:
    with pytest.raises(InvalidInputError, match=fault):
        run_world(world_of(Instance((JOB,), (JOB,), SETTING), world), policy_of(SETTING, **params))


def test_no_nodes_are_too_few() -> None:
    with pytest.raises(InvalidScenarioError, match="C = 0 nodes and C_m = 2 nodes per job give -2"):
        run_engine(Instance((JOB,), (JOB,), replace(SETTING, nodes=0)))


def test_no_jobs_give_no_figures() -> None:
    found = welfare_of(run_engine(Instance((), (), SETTING)).result)
    assert (found.welfare, found.revenue, found.eviction_rate) == (0.0, 0.0, None)
    assert set(found.fates.values()) == {0}


def test_the_longest_duration_is_rounded_up_to_rounds_as_durations_are() -> None:
    """Jobs of 90 s last two rounds of 60 s, and are not longer than most_duration_s=90."""
    instance = Instance((JOB,), (JOB,), SETTING)
    found = run_world(world_of(instance, {"most_duration_s": 90}), policy_of(SETTING))
    assert found.jobs["fate"].to_list() == ["completed"]
    with pytest.raises(InvalidInputError, match="at most 1 rounds"):
        world_of(instance, {"most_duration_s": 60})


def test_a_horizon_before_the_first_arrival_leaves_jobs_that_never_came() -> None:
    late = replace(JOB, value=(8 * NANO,) * 8, points=((5, 1, 0.5), (20, 1, 0.5)), arrival=20)
    found = run_engine(Instance((late,), (late,), replace(SETTING, rounds=9)))
    assert found.fates() == [("never_came", None, None, 0)]
    gone = replace(late, points=((20, 1, 1.0),))
    assert run_engine(Instance((gone,), (gone,), SETTING)).fates() == [("not_launched", None, None, 0)]


def test_a_round_longer_than_every_value_launches_nothing() -> None:
    found = run_world(
        world_of(Instance((JOB,), (JOB,), SETTING), {"slot_s": 600, "horizon_s": 6000}), policy_of(SETTING)
    )
    assert found.jobs["fate"].to_list() == ["not_launched"]


def test_too_many_failure_estimates_are_refused_before_they_are_made() -> None:
    oracle = ExactFailure(capacity=1, longest=MOST_ESTIMATES)
    with pytest.raises(
        InvalidScenarioError, match=r"2 rounds in which it may start.*up to 250,000,000 rounds"
    ):
        oracle.failures(0, 2, 1)


def test_too_many_joint_outcomes_are_refused_with_the_job_and_the_mend() -> None:
    """20 jobs of two arrivals have 2^20 outcomes, and the 21st of the same round does not fit beside all."""
    one = replace(JOB, concurrency=1, points=((1, 1, 0.5), (4, 1, 0.5)), duration=1)
    setting = replace(SETTING, nodes=20, max_concurrency=1)
    fits, crowd = (Instance((one,) * jobs, (one,) * jobs, setting) for jobs in (20, 21))
    run_engine(fits)
    fault = "job job-20: .* 1,048,576 joint points of the 20 .*; use failure_oracle=sampled,"
    with pytest.raises(InvalidScenarioError, match=fault):
        run_engine(crowd)
    assert len(run_engine(crowd, failure_oracle="sampled").fates()) == 21


def test_estimates_are_made_for_the_durations_of_the_job_only() -> None:
    """D_m is 10^7 rounds, for one job among short ones that may fail."""
    long = replace(JOB, points=((1, 10**7, 0.5), (1, 1, 0.5)), duration=1)
    setting = replace(SETTING, nodes=5, max_value=4.0, max_rounds=10**7)
    jobs = tuple(replace(one, value=(4 * NANO,) * 6) for one in (long, JOB, JOB, JOB, JOB))
    fates = [what for what, *_ in run_engine(Instance(jobs, jobs, setting)).fates()]
    assert "completed" in fates


@pytest.fixture(scope="module", name="folder")
def folder_with_statements(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the bundled sample and its statements, and a cluster of 40 GPUs."""
    folder = tmp_path_factory.mktemp("announced")
    sample = Path(__file__).parents[3] / "workloads/samples/philly_sample.csv"
    plain, told = folder / "plain.parquet", folder / "announced.parquet"
    assert main(["convert", "philly-csv", str(sample), "-o", str(plain)]) == 0
    assert main(["enrich", str(plain), "-o", str(told), "--profile", "announced"]) == 0
    (folder / "small.yaml").write_text("name: small\nservers:\n  - {name: a, count: 5, gpus: 8}\n")
    return folder


ROUNDS = ("-w", "slot_s=3600")
HORIZON = ("-w", "horizon_s=720000")
CUT = ("-w", "clip_statements=true", "-w", "most_duration_s=3300000")


def command(folder: Path, out: Path, options: Sequence[str], cluster: str = "philly") -> list[str]:
    told = ["--workload", str(folder / "announced.parquet"), "--cluster", cluster, "-o", str(out)]
    return ["run", "--policy", "posted_price", "-w", "truth=announced", *told, *options]


@pytest.mark.slow
def test_the_bundled_sample_runs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, *command(folder, tmp_path / "out", [*ROUNDS, *HORIZON, *CUT]))
    fates = pl.read_parquet(tmp_path / "out/jobs.parquet")["fate"].value_counts()
    assert dict(fates.rows())["completed"] > 300


@pytest.mark.parametrize(
    ("options", "fault"),
    quick_first(
        [
            (
                (*ROUNDS, *HORIZON, "-w", "most_value=2"),
                "value: must be at most 2.*clip_statements=true cuts them",
            ),
            ((*ROUNDS, *HORIZON, "-w", "most_value=1e9"), "H C_m D_m must be at most.*cut statements by"),
            ((*ROUNDS, *HORIZON, *CUT, "-p", "eps=9.5"), "eps: must be at least 0, at most 9"),
            ((*ROUNDS, *HORIZON, *CUT, "-p", "mu=0"), "mu: must be at least 0.0001"),
            ((*ROUNDS, *HORIZON, *CUT, "-p", "menu=free"), "menu"),
            ((*ROUNDS, *HORIZON, *CUT, "-p", "threshold=perhaps"), "threshold"),
        ],
        2,
    ),
)
def test_the_command_line_complains_without_a_traceback(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], fault: str
) -> None:
    complained = complaint(capsys, *command(folder, tmp_path / "out", options))
    assert re.search(fault, " ".join(complained.split())), complained


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cluster", "options", "fault"),
    [
        ("toy", (), "C = 8 nodes and C_m = 32 nodes per job"),
        ("small.yaml", ("-w", "signal=full", "-p", "failure_oracle=exact"), "use failure_oracle=sampled,"),
    ],
)
def test_the_command_line_tells_what_a_cluster_is_too_small_for(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cluster: str,
    options: tuple[str, ...],
    fault: str,
) -> None:
    named = str(folder / cluster) if cluster.endswith(".yaml") else cluster
    given = command(folder, tmp_path / "out", [*ROUNDS, *HORIZON, *CUT, *options], named)
    assert fault in " ".join(complaint(capsys, *given).split())
