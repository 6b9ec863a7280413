"""The leader of a sweep is named over common seeds only, and means over different jobs are called so."""

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
from ray_sim.experiments.sweep_info import LiveNote, Standings, describe_sweep
from ray_sim.model.result import RunResult
from tests.results_by_hand import three_jobs
from tests.stored_sweeps import numbered, scenarios, store_results, store_sweep

Means = Mapping[str, Sequence[float | None]]

UNRANKED: dict[str, Means] = {
    "no seed is common": {"fifo": [10, 20, None, None], "las": [None, None, 6, 7]},
    "no seed is common to all three": {
        "fifo": [10, 20, None],
        "las": [None, 20, 30],
        "sjf": [5, None, 15],
    },
    "a policy has no run yet": {"fifo": [10, 20], "las": [30, 40], "sjf": [None, None]},
    "only one policy has runs": {"fifo": [10, 20], "las": [None, None]},
    "no run at all": {"fifo": [None, None], "las": [None, None]},
}

# Policies with the least mean over the common seeds, all of which are named.
TIED: dict[str, tuple[Means, set[str]]] = {
    "equal on the common seeds": ({"fifo": [10, 20, 30, 400], "las": [10, 20, None, None]}, {"fifo", "las"}),
    "equal means, seed by seed different": ({"fifo": [10, 30], "las": [30, 10]}, {"fifo", "las"}),
    "two of three": ({"fifo": [10, 12], "sjf": [10, 12], "las": [20, 30]}, {"fifo", "sjf"}),
    "equal on all seeds of a finished sweep": ({"fifo": [10, 20, 30], "las": [10, 20, 30]}, {"fifo", "las"}),
}

# Leader over the common seeds, and its mean over these.
RANKED: dict[str, tuple[Means, str, float]] = {
    "by the seeds of the slower sweep": ({"fifo": [100, 100, 6, 6], "las": [90, 90, None, None]}, "las", 90),
    "by the middle of three": (
        {"fifo": [50, 10, 50], "las": [None, 20, 20], "sjf": [15, 30, None]},
        "fifo",
        10,
    ),
    "though the other has the easy seeds": (
        {"fifo": [None, None, 300, 400], "sjf": [6, 7, 310, 410]},
        "fifo",
        350,
    ),
}


def _run(mean_jct_s: float, completed: int = 2, jobs: int = 3) -> RunResult:
    """A run with a mean JCT over a number of completed jobs, the others unfinished."""
    result = three_jobs(2 * mean_jct_s - 10)
    counts: dict[str, Any] = {
        "jobs": jobs,
        "completed": completed,
        "rejected": 0,
        "unfinished": jobs - completed,
    }
    return replace(result, summary=replace(result.summary, **counts, reasons={}))


def _stored(root: Path, means: Means) -> ResultStore:
    """A sweep of runs by their mean JCT; None is not run yet."""
    runs = {policy: [None if mean is None else _run(mean) for mean in each] for policy, each in means.items()}
    return store_results(root, "study", runs)


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


def _named_least(text: str, policies: Sequence[str]) -> list[str]:
    """Policies that a text calls the one with the least mean."""
    found = []
    for line in text.splitlines():
        _, least, after = line.partition("least mean")
        found += [policy for policy in policies if least and re.search(rf"\b{policy}: [\d,.]+ ", after)]
    return found


def _live_text(store: ResultStore) -> str:
    return LiveNote(Standings(store, store.read_plan()[1]), lambda: 0.0).text(0, last=True)


@pytest.mark.parametrize("case", UNRANKED)
def test_no_policy_leads_without_common_seeds(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    means = UNRANKED[case]
    store = _stored(tmp_path / "sweep", means)
    assert _leaders(tmp_path / "sweep") == []
    assert _named_least(_printed(capsys, "info", str(tmp_path / "sweep")), list(means)) == []
    assert _named_least(_live_text(store), list(means)) == []


@pytest.mark.parametrize("case", TIED)
def test_policies_with_equal_means_are_named_together(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    means, tied = TIED[case]
    store = _stored(tmp_path / "sweep", means)
    assert {policy for policy, _, _ in _leaders(tmp_path / "sweep")} == tied
    for text in (_printed(capsys, "info", str(tmp_path / "sweep")), _live_text(store)):
        assert f"{' and '.join(sorted(tied))}, equal: " in text


@pytest.mark.parametrize("case", RANKED)
def test_the_leader_is_that_of_the_common_seeds(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    means, leader, mean_s = RANKED[case]
    store = _stored(tmp_path / "sweep", means)
    # Not to rank an unfinished sweep is right too, but not another order.
    assert [found[:2] for found in _leaders(tmp_path / "sweep")] in ([], [(leader, mean_s)])
    for text in (_printed(capsys, "info", str(tmp_path / "sweep")), _live_text(store)):
        assert _named_least(text, list(means)) in ([], [leader])


def test_a_finished_sweep_has_the_leader_of_all_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = _stored(tmp_path / "sweep", {"fifo": [10, 20, 33], "las": [11, 30, 13], "sjf": [40, 50, 60]})
    assert _leaders(tmp_path / "sweep") == [("las", 18, 3)]
    assert _named_least(_printed(capsys, "info", str(tmp_path / "sweep")), ["fifo", "las", "sjf"]) == ["las"]
    assert _named_least(_live_text(store), ["fifo", "las", "sjf"]) == ["las"]


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
    _stored(tmp_path / "sweep", {"fifo": [100, 100, 6, 6], "las": [90, 90, None, None]})
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
