"""Progress of a stored sweep: counts, and policies ranked over the seeds that all have finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.sweep_info import LiveNote, Standings, SweepInfo, describe_sweep
from ray_sim.model.distribution import Distribution
from ray_sim.model.result import RunResult
from tests.results_by_hand import three_jobs
from tests.stored_sweeps import numbered, scenarios, store_sweep

Given = Mapping[str, Mapping[int, RunResult | None]]
"""Results by policy and seed; None for a run that is not finished."""


def jct(mean_s: float, completed: int = 2) -> RunResult:
    """Result with this mean JCT and number of completed jobs."""
    result = three_jobs(2 * mean_s - 10)
    return replace(result, summary=replace(result.summary, completed=completed))


def stored(tmp_path: Path, given: Given) -> tuple[ResultStore, list[Entry]]:
    """Sweep of the policies with a run for each seed, of which those with a result are finished."""
    (seeds,) = {len(runs) for runs in given.values()}
    plan = numbered(scenarios(given, seeds))
    results = [given[entry.policy][entry.seed or 0] for entry in plan]
    return store_sweep(tmp_path, "study", plan, results=results), list(plan)


def ranking(tmp_path: Path, given: Given) -> str:
    """Line of the ranking of `ray-sim info`."""
    stored(tmp_path, given)
    (line,) = [row for row in describe_sweep(tmp_path).rows() if "mean JCT" in row[0]]
    return f"{line[0]}: {line[1]}"


def seeds(*means_s: float | None) -> dict[int, RunResult | None]:
    """Results of seeds 0, 1, ..., by mean JCT."""
    return {seed: None if each is None else jct(each) for seed, each in enumerate(means_s)}


def test_policies_are_ranked_over_the_seeds_that_all_have_finished(tmp_path: Path) -> None:
    # las is equal to fifo with each seed; its long seed 3 is missing.
    fifo, las = seeds(20.0, 30.0, 40.0, 90.0), seeds(20.0, 30.0, 40.0, None)
    srtf = seeds(25.0, None, 40.0, 90.0)
    assert ranking(tmp_path / "tie", {"fifo": fifo, "las": las}) == (
        "least mean JCT so far: fifo and las, equal: 30 s (too few seeds) over 3 common seeds"
    )
    assert ranking(tmp_path / "three", {"fifo": fifo, "srtf": srtf, "sjf": seeds(10.0, 1.0, 80.0, 1.0)}) == (
        # Seed 1 of srtf is missing: means of 50, 51.67 and 91 / 3 s.
        "least mean JCT so far: sjf: 30.33 s (too few seeds) over 3 common seeds"
    )


def test_five_common_seeds_have_an_interval_above_0(tmp_path: Path) -> None:
    # Mean 113 s, half width 272 s by Student's t: 113 / exp(272 / 113) to 113 exp(272 / 113).
    found = ranking(tmp_path, {"fifo": seeds(15, 15, 15, 15, 505), "las": seeds(*[200] * 5)})
    assert found == "least mean JCT so far: fifo: 113 s (10.17 to 1,255) over 5 common seeds"


@pytest.mark.parametrize(
    ("las", "reason"),
    [
        (seeds(None, None), "1 of 2 policies have no finished run with a completed job: las"),
        ({0: None, 1: jct(5.0)}, "no seed is finished by all policies"),
        (
            dict.fromkeys(
                range(2),
                replace(
                    three_jobs(),
                    summary=replace(
                        three_jobs().summary, completed=0, jct_s=Distribution(None, None, None, None)
                    ),
                ),
            ),
            "1 of 2 policies have no finished run with a completed job: las",
        ),
    ],
)
def test_no_policy_is_the_least_without_a_common_seed(
    tmp_path: Path, las: Mapping[int, RunResult | None], reason: str
) -> None:
    assert (
        ranking(tmp_path, {"fifo": {0: jct(20.0), 1: None}, "las": las})
        == f"mean JCT so far: not ranked, {reason}"
    )


def test_policies_that_complete_different_numbers_of_jobs_are_named(tmp_path: Path) -> None:
    las = {0: jct(5.0, 1), 1: jct(5.0)}
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
    assert main(["info", str(store.root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
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
    lacking = "mean JCT: not ranked, 1 of 2 policies have no finished run with a completed job: srtf"
    assert note.text(2) == f"(2 failed) {lacking}"
    assert last.text(0) == lacking
    (tmp_path / "kept").rename(srtf)
    assert note.text(0) == lacking
    seconds[0] = 5.0
    assert note.text(0) == last.text(0, last=True) == "least mean JCT: srtf: 15 s over 1 common seed"
    assert LiveNote(Standings(ResultStore(tmp_path / "empty"), entries), lambda: 0.0).text(0) == ""
