"""Results found in directories: each once, what is missing counted, one meaning per label."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ray_sim.experiments.results.result_directories import write_files
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.results.stored_runs import SOURCE, differing_versions, find_runs, present_versions
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.metrics import Trim
from tests import stored_by_hand
from tests.results_by_hand import three_jobs

INPUTS = {
    "workload": {"path": "week.parquet", "resample": "days"},
    "cluster": "small.yaml",
    "workload_sha256": "a1" * 32,
    "cluster_sha256": "c1" * 32,
}


def manifest(
    policy: str = "fifo",
    params: Mapping[str, object] | None = None,
    version: str = "1",
    versions: Mapping[str, str] | None = None,
    inputs: Mapping[str, object] | None = None,
    **given: object,
) -> dict[str, object]:
    """What says where a run comes from, with a hash that differs as its parts do."""
    own = {"inputs": {**INPUTS, **(inputs or {})}, "parameters": dict(params or {}), "seed": None, **given}
    return stored_by_hand.manifest(
        _sha256([policy, own, version]),
        policy,
        **own,
        scenario_hash=_sha256([policy, own]),
        code={"code_sha256": _sha256(version), "policy_source_sha256": None},
        versions={"numpy": "2.0", **dict(versions or {})},
    )


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _run(directory: Path, about: dict[str, object]) -> str:
    write_files(directory, encode_result(three_jobs(), about))
    return str(directory)


def _entry(about: dict[str, object], policy: str = "fifo", seed: int | None = None) -> Entry:
    return Entry(
        str(about["content_hash"]), "week/days", "small.yaml", "", policy, seed, str(about["scenario_hash"])
    )


def _planned(root: Path, entries: Sequence[Entry]) -> ResultStore:
    """A store of these runs, of which none is done."""
    (root / "runs").mkdir(parents=True)
    store = ResultStore(root)
    store.write_plan("study", entries)
    return store


def test_a_single_run_has_the_labels_a_sweep_would_give_it(tmp_path: Path) -> None:
    about = manifest("las", {"knob": 2}, seed=3, world={"restart_cost_s": 30})
    (run,), missing = find_runs([_run(tmp_path / "run", about)])
    assert run.entry == Entry(
        str(about["content_hash"]),
        "week/days",
        "small.yaml",
        "restart_cost_s=30",
        "las(knob=2)",
        3,
        str(about["scenario_hash"]),
    )
    assert run.entry.label == "week/days, small.yaml, restart_cost_s=30, las(knob=2), seed 3"
    assert missing == []


def test_a_label_names_a_policy_in_all_of_its_runs_and_no_two_policies(tmp_path: Path) -> None:
    def names(*abouts: dict[str, object]) -> list[str]:
        directories = [tmp_path / str(about["content_hash"]) for about in abouts]
        runs, _ = find_runs([_run(each, about) for each, about in zip(directories, abouts, strict=True)])
        return sorted(run.entry.policy for run in runs)

    short = [manifest("las", {"knob": knob}, seed=knob, label="short") for knob in (1, 2)]
    assert names(short[0]) == ["short"]
    assert names(short[0], manifest("las", {"knob": 1}, seed=2)) == ["short", "short"]
    assert names(*short) == ["short [las(knob=1)]", "short [las(knob=2)]"]


def test_a_trimmed_run_is_no_match_for_a_whole_one(tmp_path: Path) -> None:
    trim = {"warm_up_s": 60.0, "cool_down_s": 0.0}
    abouts = {"whole": manifest(), "trimmed": manifest(trim=trim)}
    runs, _ = find_runs([_run(tmp_path / name, about) for name, about in abouts.items()])
    trimmed, whole = sorted(runs, key=lambda run: run.trim is None)
    assert trimmed.place != whole.place
    assert (trimmed.trim, whole.trim) == (Trim(warm_up_s=60), None)
    assert (trimmed.entry.setting, whole.entry.setting) == ("warm_up_s=60.0, cool_down_s=0.0", "")


def test_a_run_found_twice_counts_once(tmp_path: Path) -> None:
    sources = [_run(tmp_path / name, manifest()) for name in ("a", "b")]
    assert len(find_runs([*sources, sources[0]])[0]) == 1


def test_failed_and_missing_configurations_are_told_unless_another_source_has_them(tmp_path: Path) -> None:
    abouts = [manifest(seed=seed) for seed in range(4)]
    entries = [_entry(about, seed=seed) for seed, about in enumerate(abouts)]
    store = _planned(tmp_path / "sweep", entries)
    store.put(entries[0].content_hash, encode_result(three_jobs(), abouts[0]))
    store.write_failures([ConfigurationOutcome(entries[1], "no luck")])
    runs, missing = find_runs([str(tmp_path / "sweep"), _run(tmp_path / "third", abouts[3])])
    assert [run.entry.seed for run in runs] == [0, 3]
    assert [(each.entry.seed, each.error) for each in missing] == [(1, "no luck"), (2, None)]


def test_runs_of_policies_with_worlds_of_their_own_stand_in_the_place_of_their_sweep(tmp_path: Path) -> None:
    shared: dict[str, object] = {"truth": "placement", "slot_s": 600}
    owns: dict[str, dict[str, object]] = {
        "drf": {},
        "a_online": {"truth": "a_online", "slot_s": "60"},
        "pd_ors": {"horizon_s": 7200},
    }
    abouts = {policy: manifest(policy, world={**shared, **own}) for policy, own in owns.items()}
    text = json.dumps(shared)
    entries = [
        replace(_entry(about, policy), setting="here", shared_world=text if owns[policy] else None)
        for policy, about in abouts.items()
    ]
    store = _planned(tmp_path / "sweep", entries)
    for about in abouts.values():
        store.put(str(about["content_hash"]), encode_result(three_jobs(), about))
    runs, _ = find_runs([str(tmp_path / "sweep")])
    assert len({run.place for run in runs}) == 1
    assert [run.policy for run in runs] == [
        "drf",
        "a_online{slot_s=60, truth=a_online}",
        "pd_ors{horizon_s=7200}",
    ]
    alone, _ = find_runs([_run(tmp_path / "alone", abouts["a_online"])])
    assert alone[0].place not in {run.place for run in runs}


def test_one_name_for_two_workloads_is_told_apart_by_content(tmp_path: Path) -> None:
    other = manifest(inputs={"workload_sha256": "b2" * 32})
    runs, _ = find_runs([_run(tmp_path / "a", manifest()), _run(tmp_path / "b", other)])
    assert [run.entry.workload for run in runs] == ["week/days [a1a1a1a1]", "week/days [b2b2b2b2]"]
    assert len({run.place for run in runs}) == 2


def test_one_name_for_two_training_profiles_is_told_apart_by_content(tmp_path: Path) -> None:
    abouts = [manifest(inputs={"training_sha256": digit * 64}) for digit in "ab"]
    runs, _ = find_runs([_run(tmp_path / str(i), about) for i, about in enumerate(abouts)])
    assert len({run.entry.workload for run in runs}) == len({run.place for run in runs}) == 2


def test_one_name_for_two_clusters_is_told_apart_by_content(tmp_path: Path) -> None:
    other = manifest(inputs={"cluster_sha256": "d2" * 32})
    runs, _ = find_runs([_run(tmp_path / "a", manifest()), _run(tmp_path / "b", other)])
    assert [run.entry.cluster for run in runs] == ["small.yaml [c1c1c1c1]", "small.yaml [d2d2d2d2]"]


def test_one_workload_under_two_names_and_a_default_spelled_out_are_one_place(tmp_path: Path) -> None:
    copied = {"path": "copy/week.parquet", "resample": "days"}
    other = manifest("sjf", inputs={"workload": copied}, world={"restart_cost_s": "0"})
    runs, _ = find_runs([_run(tmp_path / "a", manifest()), _run(tmp_path / "b", other)])
    assert len({run.place for run in runs}) == 1


def test_a_policy_whose_code_has_changed_is_named_by_where_its_results_are(tmp_path: Path) -> None:
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    _run(Path(before), manifest("mine:Own", version="1"))
    _run(Path(after), manifest("mine:Own", version="2"))
    runs, _ = find_runs([before, after])
    assert sorted(run.entry.policy for run in runs) == [f"mine:Own [{after}]", f"mine:Own [{before}]"]


def test_parameters_in_another_order_are_the_same_policy(tmp_path: Path) -> None:
    about, later = (manifest("las", {"placement": "pooled", "knob": 2}, seed=seed) for seed in (0, 1))
    store = _planned(tmp_path / "sweep", [_entry(about, "las(placement=pooled, knob=2)", 0)])
    store.put(str(about["content_hash"]), encode_result(three_jobs(), about))
    # A manifest has its keys sorted, a sweep file as they were written.
    runs, _ = find_runs([str(tmp_path / "sweep"), _run(tmp_path / "run", later)])
    assert len(runs) == 2
    assert {run.entry.policy for run in runs} == {"las(knob=2, placement=pooled)"}


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"holds neither a run \(manifest.json\) nor a sweep"):
        find_runs([str(tmp_path)])
    with pytest.raises(InvalidInputError, match=r"nowhere: holds neither"):
        find_runs([str(tmp_path / "nowhere")])


@pytest.mark.parametrize("key", ["inputs", "policy", "world", "seed", "scenario_hash", "code", "versions"])
def test_a_manifest_without_its_keys_is_damaged(tmp_path: Path, key: str) -> None:
    about = manifest()
    del about[key]
    with pytest.raises(InvalidInputError, match=r"manifest.json: damaged: .*; run the scenario again"):
        find_runs([_run(tmp_path / "run", about)])


def test_versions_are_told_where_the_runs_differ_in_them(tmp_path: Path) -> None:
    abouts = [
        manifest("fifo"),
        manifest("sjf", versions={"scipy": "1.15"}),
        manifest("srtf", versions={"numpy": "2.1", "scipy": "1.15"}, version="2"),
    ]
    runs, _ = find_runs([_run(tmp_path / str(index), about) for index, about in enumerate(abouts)])
    first, second = sorted(Counter(run.made_with[SOURCE] for run in runs).items())
    now = present_versions()
    assert differing_versions(runs)[0] == f"numpy: 2.0 in 2 runs, 2.1 in 1 runs, {now['numpy']} now"
    assert (
        f"{SOURCE}: {first[0]} in {first[1]} runs, {second[0]} in {second[1]} runs, {now[SOURCE]} now"
        in differing_versions(runs)
    )
    made_now = [replace(run, made_with=now) for run in runs]
    assert differing_versions(made_now) == []
