"""Progress of a stored sweep: counts, and policies ranked over the seeds that all have finished.

Means over different jobs are called so, by every command.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.sweep_info import LiveNote, Standings, SweepInfo, describe_sweep
from ray_sim.model.distribution import Distribution
from ray_sim.model.result import RunResult
from tests.command_line import answer
from tests.results_by_hand import three_jobs
from tests.stored_sweeps import numbered, scenarios, store_results, store_sweep

Given = Mapping[str, Sequence[RunResult | None]]
"""Results of seeds 0, 1, ... by policy; None for a run that is not finished."""


def _run(mean_jct_s: float, completed: int = 2, jobs: int = 3) -> RunResult:
    """A run with a mean JCT over a number of completed jobs, the others unfinished."""
    result = three_jobs(2 * mean_jct_s - 10)
    counts: dict[str, Any] = {"jobs": jobs, "completed": completed, "rejected": 0, "reasons": {}}
    summary = replace(result.summary, **counts, unfinished=jobs - completed)
    return replace(result, summary=summary)


def stored(tmp_path: Path, given: Given) -> tuple[ResultStore, list[Entry]]:
    """Sweep of the policies with a run for each seed, of which those with a result are finished."""
    store = store_results(tmp_path, "study", given)
    return store, store.read_plan()[1]


def ranking(tmp_path: Path, given: Given) -> str:
    """Line of the ranking of `ray-sim info`."""
    stored(tmp_path, given)
    (line,) = [row for row in describe_sweep(tmp_path).rows() if "mean JCT" in row[0]]
    return f"{line[0]}: {line[1]}"


def seeds(*means_s: float | None) -> list[RunResult | None]:
    """Results of seeds 0, 1, ..., by mean JCT."""
    return [None if each is None else _run(each) for each in means_s]


Means = Mapping[str, Sequence[float | None]]
SMALL = "(too few seeds) over 2 common seeds"
UNRANKED = "mean JCT so far: "
LEAST = "least mean JCT so far: "

RANKINGS: dict[str, tuple[Means, str]] = {
    "no seed is common": (
        {"fifo": [10, 20, None, None], "las": [None, None, 6, 7]},
        f"{UNRANKED}compared once every policy has finished the same seed",
    ),
    "no seed is common to all three": (
        {"fifo": [10, 20, None], "las": [None, 20, 30], "sjf": [5, None, 15]},
        f"{UNRANKED}compared once every policy has finished the same seed",
    ),
    "a policy has no run yet": (
        {"fifo": [10, 20], "las": [30, 40], "sjf": [None, None]},
        f"{UNRANKED}compared once every policy has a finished run; none yet: sjf",
    ),
    "equal on the common seeds": (
        {"fifo": [10, 20, 30, 400], "las": [10, 20, None, None]},
        f"{LEAST}fifo and las, equal: 15 s {SMALL}",
    ),
    "equal means, seed by seed different": (
        {"fifo": [10, 30], "las": [30, 10]},
        f"{LEAST}fifo and las, equal: 20 s {SMALL}",
    ),
    "two of three are equal": (
        {"fifo": [10, 12], "sjf": [10, 12], "las": [20, 30]},
        f"{LEAST}fifo and sjf, equal: 11 s {SMALL}",
    ),
    "by the seeds of the slower sweep": (
        {"fifo": [100, 100, 6, 6], "las": [90, 90, None, None]},
        f"{LEAST}las: 1 min 30 s {SMALL}",
    ),
    "by the middle of three": (
        {"fifo": [50, 10, 50], "las": [None, 20, 20], "sjf": [15, 30, None]},
        f"{LEAST}fifo: 10 s over 1 common seed",
    ),
    "though the other has the easy seeds": (
        {"fifo": [None, None, 300, 400], "sjf": [6, 7, 310, 410]},
        f"{LEAST}fifo: 5 min 50 s {SMALL}",
    ),
    # Seed 1 of srtf is missing: means of 50, 51.67 and 91 / 3 s.
    "over three common seeds": (
        {"fifo": [20, 30, 40, 90], "srtf": [25, None, 40, 90], "sjf": [10, 1, 80, 1]},
        f"{LEAST}sjf: 30 s (too few seeds) over 3 common seeds",
    ),
}


@pytest.mark.parametrize("case", RANKINGS)
def test_policies_are_ranked_over_the_seeds_that_all_have_finished(case: str, tmp_path: Path) -> None:
    means, told = RANKINGS[case]
    assert ranking(tmp_path, {policy: seeds(*each) for policy, each in means.items()}) == told


def test_five_common_seeds_have_an_interval_above_0(tmp_path: Path) -> None:
    # Mean 113 s, half width 272 s by Student's t: 113 / exp(272 / 113) to 113 exp(272 / 113).
    found = ranking(tmp_path, {"fifo": seeds(15, 15, 15, 15, 505), "las": seeds(*[200] * 5)})
    assert found == "least mean JCT so far: fifo: 1 min 53 s (10 s to 20 min 55 s) over 5 common seeds"


def test_a_run_without_a_completed_job_has_no_mean(tmp_path: Path) -> None:
    result, none = three_jobs(), Distribution(None, None, None, None)
    empty = replace(result, summary=replace(result.summary, completed=0, jct_s=none))
    assert ranking(tmp_path, {"fifo": seeds(20.0, None), "las": [empty, empty]}) == (
        f"{UNRANKED}not compared, no job completed under las; jobs.parquet has the reasons"
    )


def test_policies_that_complete_different_numbers_of_jobs_are_named(tmp_path: Path) -> None:
    las = [_run(5.0, 1), _run(5.0)]
    assert ranking(tmp_path, {"fifo": seeds(20.0, 30.0), "las": las}) == (
        "least mean JCT so far: fifo: 25 s (too few seeds) over 2 common seeds; different numbers of "
        "completed jobs, on average 1.5 (las) to 2 (fifo); times are over completed jobs only"
    )


def test_json_has_the_best_of_each_place_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = stored(
        tmp_path, {"fifo": seeds(20.0, 30.0), "las": seeds(20.0, None), "sjf": seeds(50.0, 5.0)}
    )
    info = describe_sweep(tmp_path)
    assert isinstance(info, SweepInfo)
    assert (info.runs, info.done, info.failed, info.policies, info.seeds) == (
        6,
        5,
        0,
        ("fifo", "las", "sjf"),
        (0, 1),
    )
    assert [(each.policy, each.runs, each.seeds, each.interval) for each in info.rankings[0].best] == [
        ("fifo", 1, 2, None),
        ("las", 1, 2, None),
    ]
    told = answer(capsys, "info", str(store.root))
    assert [(each["policy"], each["mean_jct_s"]) for each in told["best"]] == [("fifo", 20.0), ("las", 20.0)]
    assert told["remarks"] == {}
    assert main(["info", str(store.root)]) == 0
    assert "5 of 6" in capsys.readouterr().out


def test_the_live_line_is_read_again_every_five_seconds_and_at_the_end(tmp_path: Path) -> None:
    store, entries = stored(tmp_path / "sweep", {"fifo": seeds(20.0), "srtf": seeds(15.0)})
    srtf = store.run_directory(entries[1].content_hash)
    seconds = [0.0]
    note = LiveNote(Standings(store, entries), lambda: seconds[0])
    last = LiveNote(Standings(store, entries), lambda: 0.0)
    srtf.rename(tmp_path / "kept")
    lacking = "mean JCT: compared once every policy has a finished run; none yet: srtf"
    assert note.text(2) == f"(2 failed) {lacking}"
    assert last.text(0) == lacking
    (tmp_path / "kept").rename(srtf)
    assert note.text(0) == lacking
    seconds[0] = 5.0
    assert note.text(0) == last.text(0, last=True) == "least mean JCT: srtf: 15 s over 1 common seed"
    assert LiveNote(Standings(ResultStore(tmp_path / "empty"), entries), lambda: 0.0).text(0) == ""


def _best(root: Path) -> list[dict[str, Any]]:
    best = json.loads(json.dumps(describe_sweep(root).to_dict()))["best"]
    assert isinstance(best, list)
    return best


def _leaders(root: Path) -> list[tuple[str, float, int]]:
    """Policies that info puts first, with mean and number of seeds."""
    return [
        (each["policy"], round(each["mean_jct_s"], 6), each["runs"])
        for each in _best(root)
        if each.get("policy")
    ]


def _printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def test_one_place_may_have_a_leader_while_another_waits_for_a_policy(tmp_path: Path) -> None:
    places = [*scenarios(["fifo", "sjf"], 2, cluster="edge"), *scenarios(["fifo", "sjf"], 2, cluster="pool")]
    entries = numbered(places)
    store = store_sweep(tmp_path / "sweep", "study", entries)
    for entry, scenario in entries.items():
        if (scenario.cluster, scenario.policy) == ("pool", "fifo"):
            shutil.rmtree(store.run_directory(entry.content_hash))
    best = _best(tmp_path / "sweep")
    # Means of (10 + 40 + i) / 2 with i from 0: fifo 25 and 25.5, sjf later.
    assert [(each["cluster"], each["policy"]) for each in best if each.get("policy")] == [("edge", "fifo")]


def test_a_run_that_depends_on_no_seed_is_common_to_all(tmp_path: Path) -> None:
    drawn = scenarios(["fifo"], 2)
    (once,) = scenarios(["sjf"], 1)
    first, second, single = numbered([*drawn, once])
    entries = {first: drawn[0], second: drawn[1], replace(single, seed=None): once}
    store = store_sweep(tmp_path / "sweep", "study", entries, first_s=10.0)
    # Means as stored: fifo 10 and 10.5, sjf 11.
    assert _leaders(tmp_path / "sweep") in ([], [("fifo", 10.25, 2)])
    shutil.rmtree(store.run_directory(second.content_hash))
    assert _leaders(tmp_path / "sweep") in ([], [("fifo", 10.0, 1)])


@pytest.mark.slow
def test_the_report_of_an_unfinished_sweep_calls_no_policy_least_over_seeds_of_its_own(
    tmp_path: Path,
) -> None:
    fifo, las = map(_run, (100, 100, 6, 6)), map(_run, (90, 90))
    store_results(tmp_path / "sweep", "study", {"fifo": [*fifo], "las": [*las, None, None]})
    written = rs.report(tmp_path / "sweep", tmp_path / "page.html")
    assert not any(finding.startswith("fifo has the least") for finding in written.findings.values())


# Completed jobs by seed, of the same jobs under both policies.
DIFFERENT: dict[str, dict[str, list[int]]] = {
    "one policy suspends a job for ever": {"fifo": [3, 3], "optimus": [3, 2]},
    "in one of three seeds": {"fifo": [3, 3, 3], "las": [3, 2, 3]},
    "as many on average": {"fifo": [3, 2], "las": [2, 3]},
    "the leader completes fewer": {"fifo": [1, 1], "las": [3, 3]},
}


def _with_counts(counts: Mapping[str, Sequence[int]], jobs: Sequence[int]) -> dict[str, list[RunResult]]:
    """Runs with a mean JCT of 20 s and more by policy, and with numbers of completed jobs."""
    return {
        policy: [_run(20.0 + 5 * i + seed, done, jobs[seed]) for seed, done in enumerate(each)]
        for i, (policy, each) in enumerate(counts.items())
    }


def _says_so(text: str) -> bool:
    """Whether a text tells of different numbers of completed jobs."""
    return (
        re.search(r"(completes? [\d,.]+ jobs|different (numbers|jobs)|complet\w+ different)", text)
        is not None
    )


def _report_text(sweep: Path, page: Path) -> str:
    rs.report(sweep, page)
    return html.unescape(re.sub(r"<[^>]+>", " ", page.read_text()))


@pytest.mark.parametrize("case", DIFFERENT)
def test_means_over_different_numbers_of_completed_jobs_are_called_so(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _with_counts(DIFFERENT[case], [3, 3, 3])
    store_results(tmp_path / "sweep", "study", runs)
    sweep = str(tmp_path / "sweep")
    assert _says_so(_printed(capsys, "compare", sweep)), "compare"
    assert _says_so(str(rs.compare(runs).to_dict()["groups"])), "notebook"
    capsys.readouterr()
    assert main(["info", sweep]) == 0
    printed = capsys.readouterr()
    assert _says_so(printed.out + printed.err), "info"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "differ"), [({"fifo": [3, 2], "las": [2, 3]}, True), ({"fifo": [2, 3], "las": [2, 3]}, False)]
)
def test_a_report_tells_of_different_numbers_of_completed_jobs_of_the_same_seed(
    counts: dict[str, list[int]], differ: bool, tmp_path: Path
) -> None:
    store_results(tmp_path / "sweep", "study", _with_counts(counts, counts["las"] if not differ else [3, 3]))
    assert _says_so(_report_text(tmp_path / "sweep", tmp_path / "page.html")) == differ


@pytest.mark.parametrize(
    ("counts", "jobs"),
    [
        ({"fifo": [3, 3], "las": [3, 3]}, [3, 3]),
        # One job of each seed never fits, under both.
        ({"fifo": [2, 2], "las": [2, 2]}, [3, 3]),
        # Seeds draw 3 and 5 jobs, which both complete.
        ({"fifo": [3, 5], "las": [3, 5]}, [3, 5]),
    ],
)
def test_means_over_as_many_completed_jobs_seed_by_seed_need_no_word(
    counts: dict[str, list[int]], jobs: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _with_counts(counts, jobs)
    store_results(tmp_path / "sweep", "study", runs)
    assert not _says_so(_printed(capsys, "compare", str(tmp_path / "sweep")))
    assert not _says_so(_printed(capsys, "info", str(tmp_path / "sweep")))


def test_two_results_with_different_numbers_of_completed_jobs_are_compared_with_a_word() -> None:
    told: dict[str, Any] = rs.compare({"fifo": _run(30.0, 3), "optimus": _run(20.0, 2)}).to_dict()
    assert _says_so(str(told["groups"][0]["comparison"]["notes"]))
