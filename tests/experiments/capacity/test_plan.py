"""Plans on a real Ray cluster: the smallest number by arithmetic, by trying all, and where more is worse."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from ray_sim.experiments.capacity.evaluation import RunOptions
from ray_sim.experiments.capacity.goal import parse_goal
from ray_sim.experiments.capacity.plan import PLAN_FILE, run_plan
from ray_sim.experiments.capacity.report import PlanReport, answers
from ray_sim.experiments.capacity.request import PlanRequest, parse_choices
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.model.errors import InvalidInputError
from tests.command_line import answer
from tests.small_workloads import stored, write_jobs
from tests.sweeps import RESAMPLED
from tests.worlds import Job

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]

ONE_GPU = "name: c\nservers:\n  - {name: s, count: 1, gpus: 1}\n"
TWO_GPUS = "name: c\nservers:\n  - {name: s, count: 1, gpus: 2}\n"


def question(
    folder: Path,
    jobs: Sequence[Job] | None,
    goal: str,
    vary: Sequence[str],
    price: Sequence[str] = (),
    seeds: int = 1,
    cluster: str = ONE_GPU,
    **scenario: object,
) -> PlanRequest:
    if jobs is not None:
        write_jobs(folder / "jobs.parquet", jobs)
        scenario["workload"] = str(folder / "jobs.parquet")
    (folder / "c.yaml").write_text(cluster)
    content = {"cluster": str(folder / "c.yaml"), **scenario}
    choices = parse_choices(vary, price, str(folder / "c.yaml"))
    return PlanRequest(parse_scenario(content, "test"), parse_goal(goal), choices, seeds)


def mixes(report: PlanReport) -> dict[str, tuple[int, ...] | None]:
    """What each policy needs."""
    return {plan.policy: None if plan.best is None else plan.best.mix for plan in report.plans}


def test_identical_jobs_need_what_arithmetic_says_and_the_bound_needs_no_fewer(tmp_path: Path) -> None:
    # 12 jobs of 10 s at once on n GPUs end in ceil(12 / n) rounds: all within 30 s if n >= 4. With 3 GPUs at
    # most 9 jobs end by then, under any policy.
    ask = question(tmp_path, [Job(0.0, 1.0, 10.0)] * 12, "p100_jct_s<=30", ["s.count=1:20"])
    report = run_plan(ask, tmp_path / "out")
    assert report.ok
    assert mixes(report) == {"fifo": (4,)}
    assert report.least == (4,)
    tried = {point.mix[0]: point.mean for point in report.plans[0].points}
    assert tried == {n: 10.0 * math.ceil(12 / n) for n in tried}
    assert min(tried) == 4  # fewer are excluded, and not run
    rows = dict(answers(report))
    assert rows["bound"] == "excludes what is cheaper than s.count=4, price 4"
    assert str(rows["  search"]).endswith("choices run; assumes more servers help")
    # Had the bound excluded fewer than 3 only, 3 would be left to try.
    loose = dict(answers(replace(report, least=(3,))))
    assert str(loose["  search"]).endswith("assumes more servers help; fewer may suffice")


@pytest.mark.parametrize(("metric", "needed"), [("within_slo.b", 4), ("within_slo", 6)])
def test_the_share_of_jobs_that_wait_within_the_slo_of_their_team(
    metric: str, needed: int, tmp_path: Path
) -> None:
    # On n GPUs job i waits floor(i / n) x 10 s: with 4 none of the first four, with 6 none of 12 above 10 s.
    jobs = [Job(0.0, 1.0, 10.0, "b" if i < 4 else "a") for i in range(12)]
    teams = "teams: {a: {slo_wait_s: 10}, b: {slo_wait_s: 0}, idle: {slo_wait_s: 0}}\n"
    workload = str(stored(tmp_path / "jobs.parquet", jobs))
    ask = question(
        tmp_path, None, f"{metric}>=1", ["s.count=1:9"], cluster=ONE_GPU + teams, workload=workload
    )
    assert mixes(run_plan(ask, tmp_path / "out")) == {"fifo": (needed,)}


@pytest.mark.parametrize(
    ("teams", "said"),
    [("", "its cluster has no teams"), ("teams: {a: {slo_wait_s: 10}}\n", "unknown team with jobs and slo")],
)
def test_a_goal_names_a_team_that_has_an_slo(teams: str, said: str, tmp_path: Path) -> None:
    workload = str(stored(tmp_path / "jobs.parquet", [Job(0, 1, 9, "a")]))
    ask = question(
        tmp_path, None, "within_slo.c>=1", ["s.count=1:2"], cluster=ONE_GPU + teams, workload=workload
    )
    with pytest.raises(InvalidInputError, match=said):
        run_plan(ask, tmp_path / "out")


def test_a_search_says_what_it_ran_and_a_bound_that_it_excludes_nothing(tmp_path: Path) -> None:
    # Two jobs of 10 s end by 20 s on one GPU.
    ask = question(tmp_path, [Job(0.0, 1.0, 10.0)] * 2, "p100_jct_s<=20", ["s.count=1:9"])
    report = run_plan(ask, tmp_path / "out")
    rows = dict(answers(report))
    assert rows["fifo"] == "needs s.count=1, price 1"
    assert rows["  search"] == "6 of 9 choices run; assumes more servers help"
    assert rows["bound"] == "excludes no choice"
    # Had it been stopped before the answer, it would tell the cheapest choice so far.
    [plan] = report.plans
    part = replace(plan, best=None, points=plan.points[2:])
    stopped = replace(report, plans=(part,), complete=False)
    assert dict(answers(stopped))["fifo"] == "needs s.count=3, price 3, or fewer; the search did not end"
    unknown = replace(stopped, plans=(replace(part, points=()),))
    assert dict(answers(unknown))["fifo"] == "not known, the search did not end"


@pytest.mark.long
def test_jobs_at_even_intervals_need_as_many_servers_as_are_busy(tmp_path: Path) -> None:
    # D/D/n: a job of 10 s every 4 s. With n >= 10 / 4 servers no job waits. With 2, a pair comes every
    # 8 s and takes 10 s: job i waits 2 (i // 2) s, a mean of 2 (0 + 1 + ... + 9) / 10 = 9 s over 20 jobs.
    jobs = [Job(4.0 * i, 1.0, 10.0) for i in range(20)]
    report = run_plan(question(tmp_path, jobs, "mean_jct_s<10.5", ["s.count=1:9"]), tmp_path / "out")
    assert mixes(report) == {"fifo": (3,)}
    later = run_plan(question(tmp_path, jobs, "mean_jct_s<19.5", ["s.count=1:9"]), tmp_path / "more")
    assert mixes(later) == {"fifo": (2,)}
    assert next(p.mean for p in later.plans[0].points if p.mix == (2,)) == pytest.approx(19.0)


@pytest.mark.long
def test_the_search_finds_what_trying_every_number_finds(tmp_path: Path) -> None:
    ask = question(
        tmp_path,
        None,
        "p90_jct_s<90000",
        ["s.count=1:12"],
        seeds=5,
        cluster=TWO_GPUS,
        workload=RESAMPLED,
        policy="sjf",
    )
    report = run_plan(ask, tmp_path / "out")
    means: dict[int, float] = {}
    crossing = set()
    for n in range(1, 13):
        runs = [
            prepare(ask.at("sjf", (n,)).model_copy(update={"seed": seed})).run().result for seed in ask.seeds
        ]
        complete = all(run.summary.completed == run.summary.jobs for run in runs)
        sample = np.array([run.summary.jct_s.p90 for run in runs])
        means[n] = float(sample.mean()) if complete else math.inf
        half = scipy.stats.t.ppf(0.975, 4) * sample.std(ddof=1) / math.sqrt(5)
        if complete and abs(math.log(means[n] / 90000)) <= half / means[n]:
            crossing.add(n)
    smallest = next((n for n, mean in means.items() if mean < 90000), None)
    assert smallest == 5
    assert means[6] > 90000 > means[9]  # one server more is worse, as it happens
    assert mixes(report) == {"sjf": (smallest,)}
    for point in report.plans[0].points:
        if math.isfinite(means[point.mix[0]]):
            assert point.mean == pytest.approx(means[point.mix[0]])
        assert point.runs == 5
    assert report.least is not None
    assert report.least <= (smallest,)
    finite = {point.mix[0]: point for point in report.plans[0].points if math.isfinite(means[point.mix[0]])}
    assert {n for n, point in finite.items() if point.in_doubt} == crossing & finite.keys()
    assert "choices, price" in str(dict(answers(report))["  interval reaches across"])


def test_where_more_servers_are_worse_every_number_is_tried(tmp_path: Path) -> None:
    # J1 takes 1 GPU for 10 s, J2 2 GPUs for 1,000 s, and from 1 s on ten jobs take 2 GPUs for 1 s each. sjf
    # does not preempt. On 2 GPUs J2 waits for J1 and then for the ten: (10 + 1020 + 145) / 12 = 98 s.
    # On 3 GPUs J2 starts at once and leaves 1: the ten wait 1,000 s, a mean of 921 s. On 4 they pass J2.
    jobs = [Job(0.0, 1.0, 10.0), Job(0.0, 2.0, 1000.0), *[Job(1.0, 2.0, 1.0)] * 10]
    ask = question(tmp_path, jobs, "mean_jct_s<200", ["s.count=1:8"], policy="sjf")
    report = run_plan(ask, tmp_path / "out")
    (plan,) = report.plans
    assert mixes(report) == {"sjf": (2,)}
    assert plan.best is not None
    assert plan.best.mean == pytest.approx((10 + 1020 + 145) / 12)
    assert plan.contradiction == ((2,), (3,))
    assert [point.mix for point in plan.failing_above] == [(3,)]
    assert plan.not_monotone == ((3,),)
    assert dict(answers(report))["  worse than with fewer servers"] == "s.count=3"


@pytest.mark.long
def test_the_cheapest_mix_is_that_of_trying_all(tmp_path: Path) -> None:
    # Slow servers take twice as long. 8 jobs of 10 s at once within 20 s: a fast server ends two, a slow one.
    two = (
        "name: two\ngpu_types: {a: {speed: 1}, b: {speed: 0.5}}\nservers:\n"
        "  - {name: fast, count: 1, gpus: 1, gpu_type: a}\n  - {name: slow, count: 1, gpus: 1, gpu_type: b}\n"
    )
    vary = ["fast.count=0:5", "slow.count=0:9"]
    for prices, expected in (((3, 1), (0, 8)), ((3, 2), (4, 0))):
        price = [f"fast={prices[0]}", f"slow={prices[1]}"]
        jobs = [Job(0.0, 1.0, 10.0)] * 8
        ask = question(tmp_path, jobs, "p100_jct_s<=20", vary, price, cluster=two)
        report = run_plan(ask, tmp_path / f"out{prices[1]}")
        (plan,) = report.plans
        assert not plan.assumed  # servers differ in speed
        assert mixes(report) == {"fifo": expected}
        assert report.least == (1, 3)  # the bound grants every job the speed of the fastest server
        assert plan.best is not None
        assert plan.best.price == prices[0] * expected[0] + prices[1] * expected[1]


@pytest.mark.long
def test_policies_that_meet_the_goal_come_first(tmp_path: Path) -> None:
    # One GPU, 100 s before three of 1 s: fifo (100 + 101 + 102 + 103) / 4 = 101.5, sjf (1 + 2 + 3 + 103) / 4.
    jobs = [Job(0.0, 1.0, 100.0), *[Job(0.0, 1.0, 1.0)] * 3]
    ask = question(tmp_path, jobs, "mean_jct_s<50", ["policy=fifo,sjf"])
    report = run_plan(ask, tmp_path / "out")
    assert mixes(report) == {"sjf": (), "fifo": None}
    assert [plan.policy for plan in report.plans] == ["sjf", "fifo"]
    assert [point.mean for plan in report.plans for point in plan.points] == [27.25, 101.5]
    needed = replace(ask, choices=parse_choices(["policy=fifo,sjf", "s.count=1:4"], [], ask.scenario.cluster))
    assert mixes(run_plan(needed, tmp_path / "out", RunOptions(resume=True))) == {"sjf": (1,), "fifo": (2,)}


def test_a_plan_needs_servers_of_each_type_that_jobs_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Four jobs of 10 s accept T4, one V100: all end within 20 s on two T4 and a V100.
    lists = ["T4"] * 4 + ["V100"]
    jobs = stored(tmp_path / "jobs.parquet", [Job(0, 1, 10)] * 5, {"gpu_types": lists})
    (tmp_path / "c.yaml").write_text(
        "name: two\ngpu_types: {T4: {speed: 1}, V100: {speed: 1}}\nservers:\n"
        "  - {name: t4, count: 1, gpus: 1, gpu_type: T4}\n"
        "  - {name: v100, count: 1, gpus: 1, gpu_type: V100}\n"
    )
    asked = ["--workload", str(jobs), "--cluster", str(tmp_path / "c.yaml"), "--goal", "p100_jct_s<=20"]
    vary = ["--vary", "t4.count=0:3", "--vary", "v100.count=0:2", "-o", str(tmp_path / "out")]
    told = answer(capsys, "plan", *asked, *vary)
    (plan,) = told["policies"]
    assert plan["best"]["mix"] == [2, 1]
    assert told["least"]["mix"] == [2, 1]  # what has one T4, or no server of a type, is not run
    assert all(t4 >= 2 and v100 >= 1 for t4, v100 in (point["mix"] for point in plan["points"]))


def test_a_goal_that_no_policy_can_meet_needs_no_run(tmp_path: Path) -> None:
    ask = question(tmp_path, [Job(0.0, 1.0, 10.0)] * 2, "mean_jct_s<9", ["s.count=1:3"])
    report = run_plan(ask, tmp_path / "out")
    assert (report.ok, report.complete, report.least) == (False, True, None)
    assert report.plans[0].points == ()
    assert report.sweep is None


@pytest.mark.long
def test_jobs_that_no_server_holds_never_end(tmp_path: Path) -> None:
    # Without the rule, 1 GPU would reject the wide job, end the narrow one in 10 s and be the answer.
    jobs = [Job(0.0, 1.0, 10.0), Job(0.0, 3.0, 10.0)]
    ask = question(tmp_path, jobs, "makespan_s<=20", ["s.count=1:5"])
    report = run_plan(ask, tmp_path / "out")
    assert mixes(report) == {"fifo": (3,)}
    assert report.no_proof == "no bound is known for makespan_s <= 20"


@pytest.mark.long
def test_a_stopped_plan_resumes_and_gives_the_same_answer(tmp_path: Path) -> None:
    ask = question(
        tmp_path,
        None,
        "p90_jct_s<85000",
        ["s.count=1:12"],
        seeds=2,
        cluster=TWO_GPUS,
        workload=RESAMPLED,
        policy="sjf",
    )
    whole = run_plan(ask, tmp_path / "whole")
    seen: list[int] = []
    stopped = run_plan(
        ask,
        tmp_path / "part",
        RunOptions(
            progress=lambda done, total, note="": seen.append(done), stop=lambda: max(seen, default=0) > 2
        ),
    )
    assert not stopped.complete
    assert stopped.sweep is not None
    assert stopped.sweep.stopped == "interrupted"
    with pytest.raises(InvalidInputError, match="earlier plan; go on with --resume"):
        run_plan(ask, tmp_path / "part")
    resumed = run_plan(ask, tmp_path / "part", RunOptions(resume=True))
    assert resumed.plans == whole.plans
    written = json.loads((tmp_path / "part" / PLAN_FILE).read_text())
    assert written == {
        **json.loads((tmp_path / "whole" / PLAN_FILE).read_text()),
        "directory": str(tmp_path / "part"),
    }
    assert len(ResultStore(tmp_path / "part").read_plan()[1]) == 2 * len(whole.plans[0].points)


def test_a_run_that_fails_ends_the_plan_with_its_name(tmp_path: Path) -> None:
    ask = question(tmp_path, [Job(0.0, 1.0, 10.0)], "mean_jct_s<20", ["s.count=1:3"], policy="mine:Broken")
    report = run_plan(ask, tmp_path / "out")
    assert not report.ok
    assert report.plans[0].best is None
    assert report.sweep is not None
    (failure,) = report.sweep.failures
    assert "ZeroDivisionError: no luck" in str(failure.error)
    assert "s.count=" in failure.entry.label


def test_half_of_now_is_that_of_the_given_cluster_and_the_rest_of_the_cluster_has_its_price(
    tmp_path: Path,
) -> None:
    # 12 jobs of 10 s at once wait 10 (0 + 1 + ... + 11) / 12 = 55 s on the one GPU of now, and in pairs
    # 10 (0 + 1 + ... + 5) / 6 = 25 s, at most 27.5 s. The server without GPUs costs 7, the others 2 each.
    two = "name: c\nservers:\n  - {name: s, gpus: 1, price: 2}\n  - {name: disk, gpus: 0, price: 5}\n"
    jobs = [Job(0.0, 1.0, 10.0)] * 12
    ask = question(
        tmp_path, jobs, "mean_queue_s <= 0.5 x now", ["s.count=1:6"], ["disk=7"], seeds=5, cluster=two
    )
    report = run_plan(ask, tmp_path / "out")
    (plan,) = report.plans
    assert plan.best is not None
    assert (plan.best.mix, plan.best.price, plan.best.runs) == ((2,), 2 * 2 + 7, 1)
    assert (plan.best.mean, plan.best.ratio, plan.best.ratio_interval) == (25.0, 25 / 55, None)
    assert (report.request.goal.now, report.request.goal.limit) == ((55.0,), 27.5)
    rows = dict(answers(report))
    assert rows["fifo"] == "needs s.count=2, price 11: 0.4545 x now"
    assert str(rows["now"]).endswith("so the limit is 28 s")
    assert rows["  seeds"] == "nothing here depends on a seed: one run per choice, and no interval"
    assert json.loads((tmp_path / "out" / PLAN_FILE).read_text())["goal"]["factor"] == 0.5
    never = replace(ask, goal=parse_goal("makespan_s < now"))
    stuck = [*jobs, Job(0.0, 9.0, 1.0)]  # 9 GPUs are never there
    write_jobs(tmp_path / "jobs.parquet", stuck)
    with pytest.raises(InvalidInputError, match="found infinite, as jobs do not complete"):
        run_plan(never, tmp_path / "stuck")


@pytest.mark.slow
def test_relative_goals_have_the_answers_of_trying_every_number(tmp_path: Path) -> None:
    ask = question(
        tmp_path,
        None,
        "mean_jct_s <= 0.8 x now",
        ["s.count=1:5"],
        seeds=5,
        cluster=TWO_GPUS.replace("gpus: 2", "gpus: 8"),
        workload=RESAMPLED,
        policy="sjf",
    )
    values = {
        n: np.array(
            [
                prepare(ask.at("sjf", (n,)).model_copy(update={"seed": seed})).run().result.summary.jct_s.mean
                for seed in ask.seeds
            ]
        )
        for n in range(1, 6)
    }
    for factor in (0.9, 0.6):
        goal = parse_goal(f"mean_jct_s <= {factor} x now")
        report = run_plan(replace(ask, goal=goal), tmp_path / "out", RunOptions(resume=True))
        smallest = next((n for n in values if values[n].mean() <= factor * values[1].mean()), None)
        assert mixes(report) == {"sjf": None if smallest is None else (smallest,)}
        for point in report.plans[0].points:
            sample = values[point.mix[0]]
            assert point.ratio == pytest.approx(sample.mean() / values[1].mean())
            assert point.meeting == (sample <= factor * values[1] * (1 + 1e-9)).sum()
            rest = sample - factor * values[1]
            low, high = scipy.stats.ttest_1samp(rest, 0).confidence_interval(0.95)
            assert point.in_doubt == (low <= 0 <= high)
