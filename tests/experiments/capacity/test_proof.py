"""Proofs that no policy meets a goal: never against a schedule that does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ray_sim.experiments.capacity.goal import parse_goal, quantile
from ray_sim.experiments.capacity.proof import Bound, Proofs
from ray_sim.experiments.capacity.request import PlanRequest, parse_choices
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import parse_scenario
from tests.proofs import quick_first
from tests.small_workloads import write_jobs
from tests.worlds import Job


def bound(folder: Path, jobs: Sequence[Job], gpus: int, goal: str, **scenario: object) -> Bound | None:
    if not (folder / "jobs.parquet").exists():
        write_jobs(folder / "jobs.parquet", jobs)
    (folder / "c.yaml").write_text("name: c\nservers:\n  - {name: s, count: 1, gpus: 1}\n")
    content = {"workload": str(folder / "jobs.parquet"), "cluster": str(folder / "c.yaml"), **scenario}
    request = PlanRequest(
        parse_scenario(content, "test"),
        parse_goal(goal),
        parse_choices([f"s.count=1:{gpus}"], [], str(folder / "c.yaml")),
        1,
    )
    return Proofs(request, [0], HashedInputs()).bound((gpus,))


def schedules(jobs: Sequence[Job], gpus: int) -> frozenset[tuple[int, ...]]:
    """JCTs of all schedules that decide anew every second, and leave no job out while it fits."""
    sizes = [int(job.gpus) for job in jobs]

    @cache
    def ends(now: int, left: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
        if not any(left):
            return frozenset({(0,) * len(left)})
        ready = [i for i, rest in enumerate(left) if rest and jobs[i].submit_s <= now]
        found: set[tuple[int, ...]] = set()
        for k in range(len(ready) + 1):
            for chosen in itertools.combinations(ready, k):
                if sum(sizes[i] for i in chosen) > gpus or (k == 0 and ready):
                    continue
                after = tuple(rest - (i in chosen) for i, rest in enumerate(left))
                for later in ends(now + 1, after):
                    done = [now + 1 if i in chosen and not after[i] else later[i] for i in range(len(left))]
                    found.add(tuple(done))
        return frozenset(found)

    work = tuple(int(job.duration_s) for job in jobs)
    return frozenset(
        tuple(int(end - job.submit_s) for end, job in zip(one, jobs, strict=True)) for one in ends(0, work)
    )


def tiny_jobs(seed: int) -> tuple[list[Job], int]:
    draw = np.random.default_rng(seed)
    n, gpus = int(draw.integers(2, 5)), int(draw.integers(2, 4))
    submit = np.sort(draw.integers(0, 3, n))
    submit -= submit[0]
    jobs = [Job(float(at), float(draw.integers(1, gpus + 1)), float(draw.integers(1, 4))) for at in submit]
    return jobs, gpus


SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 40))]


@pytest.mark.parametrize("seed", quick_first(SEEDS, 2))
def test_no_bound_excludes_what_some_schedule_of_a_tiny_world_reaches(seed: int, tmp_path: Path) -> None:
    jobs, gpus = tiny_jobs(seed)
    all_jct = schedules(jobs, gpus)
    for share, limit in ((1.0, 3), (0.5, 2), (0.75, 4)):
        best = max(sum(jct <= limit for jct in one) for one in all_jct)
        found = bound(tmp_path, jobs, gpus, f"p{share * 100:g}_jct_s<={limit}")
        assert found is not None
        assert found.value * len(jobs) >= best - 1e-9
        reached = any(quantile(np.array(one, dtype=float), share) <= limit for one in all_jct)
        assert not (found.excluded and reached)
    least = min(sum(one) for one in all_jct) / len(jobs)
    mean = bound(tmp_path, jobs, gpus, f"mean_jct_s<={least:.9f}1")
    assert mean is not None
    assert mean.value <= least
    assert not mean.excluded


@pytest.mark.slow
def test_the_share_in_time_is_exact_for_jobs_of_one_size(tmp_path: Path) -> None:
    # 12 jobs of 10 s on 3 GPUs: 3 end by 10 s, 6 by 20 s, 9 by 30 s, 12 by 40 s.
    jobs = [Job(0.0, 1.0, 10.0)] * 12
    for limit, in_time in ((10, 3), (20, 6), (30, 9), (40, 12)):
        found = bound(tmp_path, jobs, 3, f"p100_jct_s<={limit}")
        assert found is not None
        assert found.value == pytest.approx(in_time / 12, rel=1e-4)
        assert found.excluded == (in_time < 12)
    # The median of 12 lies between the 6th and the 7th: it is within 20 s only if six are.
    assert bound(tmp_path, jobs, 3, "median_jct_s<=20") == bound(tmp_path, jobs, 3, "p50_jct_s<=20")
    halved = bound(tmp_path, jobs, 3, "median_jct_s<=19.9")
    assert halved is not None
    assert halved.excluded


def test_a_job_that_fits_no_mix_excludes_a_goal_on_the_mean(tmp_path: Path) -> None:
    found = bound(tmp_path, [Job(0.0, 4.0, 10.0), Job(0.0, 1.0, 10.0)], 3, "mean_jct_s<1e9")
    assert found == Bound(np.inf, excluded=True)


def test_a_job_that_cannot_end_by_the_horizon_excludes_a_goal_on_the_mean(tmp_path: Path) -> None:
    jobs = [Job(1000.0, 1.0, 100.0), Job(1010.0, 1.0, 10.0)]
    for horizon_s, excluded in ((99.0, True), (100.0, False)):
        found = bound(tmp_path, jobs, 2, "mean_jct_s<1000", world={"horizon_s": horizon_s})
        assert found is not None
        assert found.excluded == excluded


@pytest.mark.parametrize(
    ("goal", "excluded"),
    quick_first(
        [
            ("mean_jct_s<=7200", False),
            ("mean_jct_s<7200", True),
            ("p100_jct_s<=7200", False),
            ("p100_jct_s<7200", False),  # the bound counts jobs up to the limit, for both relations
            ("p100_jct_s<=7199.9", True),
        ],
        2,
    ),
)
def test_a_time_that_counts_as_the_limit_is_not_excluded(goal: str, excluded: bool, tmp_path: Path) -> None:
    # 5 microseconds over two hours are within the relative difference of 1e-9.
    found = bound(tmp_path, [Job(0.0, 1.0, 7200.000005)], 1, goal)
    assert found is not None
    assert found.excluded == excluded


def test_goals_without_a_bound_say_so(tmp_path: Path) -> None:
    jobs = [Job(0.0, 1.0, 10.0)]
    for goal in ("makespan_s<5", "p50_queue_s<1", "utilisation.gpu>0.5", "mean_jct_s>4"):
        assert bound(tmp_path, jobs, 1, goal) is None


def test_only_jobs_that_count_are_bounded(tmp_path: Path) -> None:
    # The first job, of 100 s, is in the warm-up; the second waits for nothing on 2 GPUs.
    jobs = [Job(0.0, 1.0, 100.0), Job(50.0, 1.0, 10.0)]
    found = bound(tmp_path, jobs, 2, "mean_jct_s<11", trim={"warm_up_s": 10})
    assert found is not None
    assert found.value == pytest.approx(10.0)
    assert not found.excluded
