"""Sweep files: expanded in the stated order, every problem found before anything runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_entries import Sweep
from ray_sim.experiments.sweep_file import MAX_CONFIGURATIONS, parse_sweep, read_sweep, variants
from ray_sim.model.errors import InvalidScenarioError
from workloads.store import write_workload
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich

BASE: dict[str, object] = {
    "name": "test",
    "workloads": ["week.parquet"],
    "clusters": ["small.yaml"],
    "policies": ["fifo"],
}
RESAMPLED = {"path": "week.parquet", "resample": "days"}


def _sweep(**changes: object) -> Sweep:
    return parse_sweep({**BASE, **changes}, "sweep.yaml", HashedInputs())


def _labels(sweep: Sweep) -> list[tuple[str, str, str, int | None]]:
    entries = [configuration.entry for configuration in sweep.configurations]
    return [(entry.workload, entry.setting, entry.policy, entry.seed) for entry in entries]


def _problems(**changes: object) -> list[str]:
    with pytest.raises(InvalidScenarioError) as raised:
        _sweep(**changes)
    return str(raised.value).splitlines()


def test_the_order_is_workloads_worlds_policies_parameters_seeds(at_desk: Path) -> None:
    sweep = _sweep(
        workloads=[RESAMPLED],
        policies=["sjf", {"name": "fifo", "params": {"placement": ["pooled", "spread"]}}],
        world={"restart_cost_s": [0, 5]},
        seeds={"count": 2},
    )
    policies = ["sjf", "fifo(placement=pooled)", "fifo(placement=spread)"]
    assert _labels(sweep) == [
        ("week/days", f"restart_cost_s={cost}", policy, seed)
        for cost in (0, 5)
        for policy in policies
        for seed in (0, 1)
    ]


def test_what_draws_nothing_runs_once_whatever_the_seeds(at_desk: Path) -> None:
    sweep = _sweep(policies=["fifo", "mine:Lottery"], seeds=[4, 5])
    assert _labels(sweep) == [
        ("week", "", "fifo", None),
        ("week", "", "mine:Lottery", 4),
        ("week", "", "mine:Lottery", 5),
    ]


def test_the_same_run_under_two_labels_is_done_once_and_counted(at_desk: Path) -> None:
    sweep = _sweep(policies=["fifo", {"name": "fifo", "params": {"placement": "consolidate"}}])
    assert len(sweep.configurations) == 1
    assert sweep.repeated == 1


def test_different_runs_never_share_a_line_of_the_table(at_desk: Path, tmp_path: Path) -> None:
    # The same file name in two places, two parameters that differ in the seventh digit.
    here, there = Path("week.parquet"), tmp_path / "week.parquet"
    write_workload(*synth("philly", 20, seed=9), there)
    knobs = [0.1234567, 0.1234568]
    sweep = _sweep(workloads=[str(here), str(there)], policies=[{"name": "las", "params": {"knob": knobs}}])
    assert len(set(_labels(sweep))) == len(sweep.configurations) == 4


def test_lists_inside_a_synthetic_workload_and_of_partitions_are_axes(at_desk: Path) -> None:
    synthetic = {"synth": {"profile": "philly", "jobs": [5, 6], "load_scale": [0.5, 1.0]}}
    sweep = _sweep(workloads=[synthetic], partition=["none", "none"])
    assert [label for label, *_ in _labels(sweep)] == [
        "synth:philly:5x0.5",
        "synth:philly:5",
        "synth:philly:6x0.5",
        "synth:philly:6",
    ]
    assert sweep.repeated == 4


def test_jobs_like_those_of_a_file_take_axes_too_and_a_missing_file_is_told(at_desk: Path) -> None:
    drawn = {"like": "week.parquet", "jobs": 5, "arrivals": ["poisson", "resampled"]}
    sweep = _sweep(workloads=[{"synth": drawn}], seeds=[0, 1])
    assert [(label, seed) for label, _, _, seed in _labels(sweep)] == [
        (f"synth:like-week:5:{arrivals}", seed) for arrivals in ("poisson", "resampled") for seed in (0, 1)
    ]
    missing = {"synth": {"like": ["week.parquet", "nowhere.parquet"], "jobs": 5}}
    wrong = {"synth": {"profile": "philly", "jobs": 5, "arrival": "poisson"}}
    lines = _problems(workloads=["week.parquet", missing, wrong])
    assert lines[1:] == [
        "  workloads[1]: nowhere.parquet: no such file; check the path",
        "  workloads[2].synth.arrival: unknown key; did you mean 'arrivals'?",
    ]


def test_a_list_inside_an_axis_is_one_value(at_desk: Path) -> None:
    sweep = _sweep(policies=[{"name": "las", "params": {"limits_gpu_s": [[60, 600], [60]]}}])
    assert [policy for _, _, policy, _ in _labels(sweep)] == [
        "las(limits_gpu_s=[60 600])",
        "las(limits_gpu_s=[60])",
    ]


def test_all_problems_come_at_once_with_their_paths(at_desk: Path) -> None:
    lines = _problems(
        name="no/slash",
        workloads=["nowhere.parquet", {"synth": {"profile": "philly", "jobs": -1}}],
        clusters=["nowhere.yaml"],
        policies=[
            "fifoo",
            {"name": "las", "params": {"knob": "much", "quantum": 3}},
            {"name": "sjf", "params": {"placement": []}},
            {"name": "las", "params": {"knob": ["much", 1]}},
        ],
        world={"restart_cost_s": [-1]},
        seeds={"count": 0},
        colour="red",
    )
    text = "\n".join(lines)
    for part in (
        "name: must be letters, digits",
        "workloads[0]: nowhere.parquet",
        "workloads[1].synth.jobs:",
        "clusters[0]: ",
        "policies[0]: unknown policy 'fifoo'. Did you mean 'fifo'?",
        "policies[1]: unknown parameter of policy las 'quantum'",
        "policies[2].params.placement: an axis needs at least one value",
        "policies[3]: parameters of policy las: 1 problem",
        "restart_cost_s: must be at least 0",
        "seeds:",
        "colour: unknown key",
    ):
        assert part in text


@pytest.mark.parametrize("key", ["workloads", "clusters", "policies", "seeds", "partition"])
def test_an_empty_axis_is_a_problem(at_desk: Path, key: str) -> None:
    assert any(line.startswith(f"  {key}: must not be empty") for line in _problems(**{key: []}))


def test_seeds_that_repeat_are_a_problem_and_a_negative_one_is_too(at_desk: Path) -> None:
    assert "  seeds: must be given once each; [2] repeats [0], got [4, 5, 4]" in _problems(seeds=[4, 5, 4])
    assert any(line.startswith("  seeds[1]: must be >= 0") for line in _problems(seeds=[0, -1]))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seeds": {"count": 3, "list": [1]}}, "seeds: expected a list of seeds or {count: N}"),
        ({"seeds": -1}, "seeds: must be a list, as [0, 1], or {count: N}, N from 1 to 100,000, got -1"),
        (
            {"workloads": [{"path": "week.parquet", "drop": 1}]},
            "workloads[0].drop: unknown key; known: path, ",
        ),
        ({"seeds": ["1"]}, "seeds[0]: must be a whole number"),
        (
            {"workloads": [{"path": "week.parquet", "synth": {"profile": "philly", "jobs": 5}}]},
            "workloads[0]: expected a path, or",
        ),
        ({"workloads": [{"resample": "days"}]}, "workloads[0]: expected a path, or"),
        ({"workloads": [{"synth": {"profile": "philly", "jobs": []}}]}, "workloads[0].synth.jobs: an axis"),
        ({"workloads": "week.parquet"}, "workloads: must be a list"),
        ({"world": []}, "world: must be a mapping"),
        ({"world": {"restart_cost_s": []}}, "world.restart_cost_s: an axis needs at least one value"),
        ({"partition": ["vc", "some"]}, "partition[1]: must be 'none' or 'vc'"),
        ({"policies": [{"params": {}}]}, "policies[0].name: is missing"),
        ({"policies": [{"name": "fifo", "parameters": {}}]}, "policies[0].parameters: unknown key"),
        ({"clusters": [3]}, "clusters[0]: must be text"),
        ({"sites": 0}, "sites: must be >= 1, got 0"),
    ],
)
def test_what_contradicts_itself_is_named_by_its_path(
    at_desk: Path, changes: dict[str, object], problem: str
) -> None:
    lines = _problems(**changes)
    assert any(problem in line for line in lines), lines


@pytest.mark.parametrize("content", [None, [], "fifo", 3])
def test_a_file_that_is_no_mapping_is_refused(at_desk: Path, content: object) -> None:
    with pytest.raises(InvalidScenarioError, match=r"sweep\.yaml: 1 problem"):
        parse_sweep(content, "sweep.yaml", HashedInputs())


def test_a_slip_in_an_axis_is_refused_before_it_fills_memory(at_desk: Path) -> None:
    hundred = [float(value) for value in range(100)]
    axes = {"name": "las", "params": {"knob": hundred, "limits_gpu_s": hundred, "placement": hundred}}
    assert any("more than 100,000 combinations" in line for line in _problems(policies=[axes]))
    with pytest.raises(InvalidScenarioError, match="at most 100,000, shorten an axis"):
        _sweep(policies=["fifo"] * 2, seeds={"count": MAX_CONFIGURATIONS})


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.one_of(st.integers(), st.lists(st.integers(), min_size=1, max_size=3)),
        max_size=4,
    )
)
def test_expanding_gives_each_combination_once_and_keeps_scalars(axes: dict[str, object]) -> None:
    sizes = [len(value) if isinstance(value, list) else 1 for value in axes.values()]
    expected = 1
    for size in sizes:
        expected *= size
    found = variants(axes, "here")
    assert len(found) == expected
    for one in found:
        assert isinstance(one, dict)
        for key, value in axes.items():
            assert one[key] in value if isinstance(value, list) else one[key] == value


def test_a_file_in_yaml_reads_alike(at_desk: Path, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: two\nworkloads: [week.parquet]\nclusters: [small.yaml]\npolicies: [fifo, sjf]\n"
    )
    assert _labels(read_sweep(tmp_path / "s.yaml")) == [("week", "", "fifo", None), ("week", "", "sjf", None)]


def test_realisations_and_trims_are_axes_with_labels_of_their_own(at_desk: Path) -> None:
    realised = {
        "path": "week.parquet",
        "window": [[0, 86_400], [0.5, 86_400.25]],
        "load_scale": [1, 1.25],
    }
    sweep = _sweep(workloads=[realised], trim={"warm_up_s": [0, 3600]}, seeds=[1, 2])
    assert _labels(sweep) == [
        (f"week/{window}{scale}", f"warm_up_s={warm_up_s}, cool_down_s=0.0", "fifo", None)
        for window in ("0-86400s", "0.5-86400.25s")
        for scale in ("", "/x1.25")
        for warm_up_s in (0.0, 3600.0)
    ]


def test_a_resampled_window_keeps_its_seeds(at_desk: Path) -> None:
    workload = {**RESAMPLED, "window": [[0, 172_800]]}
    labels = [("week/0-172800s/days", "", "fifo", seed) for seed in (1, 2)]
    assert _labels(_sweep(workloads=[workload], seeds=[1, 2])) == labels


def test_a_window_that_is_an_axis_by_mistake_says_how_to_write_it(at_desk: Path) -> None:
    lines = _problems(workloads=[{"path": "week.parquet", "window": [0, 86_400]}])
    assert any("workloads[0].window: must be [FROM, TO] in seconds; in a sweep" in line for line in lines)


@pytest.mark.parametrize("trim", [[], 5, {"warm_up_s": []}, {"warm_up_s": -1}, {"warm": 1}])
def test_a_trim_that_is_none_is_a_problem(at_desk: Path, trim: object) -> None:
    assert any(line.lstrip().startswith("trim") for line in _problems(trim=trim))


def test_the_fleet_is_of_all_runs_and_part_of_no_result(at_desk: Path) -> None:
    here, there = _sweep(), _sweep(fleet="actors", sites=2)
    scenario = there.configurations[0].identity.scenario
    assert (scenario.fleet, scenario.sites) == ("actors", 2)
    assert [each.entry for each in here.configurations] == [each.entry for each in there.configurations]
    assert any("fleet" in problem for problem in _problems(fleet="cloud"))


def test_availability_is_an_axis(at_desk: Path, tmp_path: Path) -> None:
    lines = ["time_s,server,event", "5,gpu-0,fail", "9,gpu-0,repair"]
    (tmp_path / "fail.csv").write_text("\n".join(lines))
    sweep = _sweep(world={"availability": [None, str(tmp_path / "fail.csv")]})
    assert len({each.entry.content_hash for each in sweep.configurations}) == 2
    (tmp_path / "fail.csv").write_text("\n".join([lines[0], "5,gpu-9,fail"]))
    assert "the cluster has no 'gpu-9'" in " ".join(
        _problems(world={"availability": str(tmp_path / "fail.csv")})
    )


@pytest.mark.slow
def test_a_policy_that_does_not_go_with_the_jobs_or_the_world_is_refused_with_its_path(at_desk: Path) -> None:
    # Plain jobs: policies for elastic jobs and for chunks cannot run; a policy of slots wants their length.
    assert _problems(policies=["fifo", "optimus", {"name": "chunk_fifo"}]) == [
        "sweep.yaml: 2 problems",
        "  policies[1] with workloads[0]: policy optimus is for elastic jobs, but truth=rigid has rigid "
        "jobs: set -w truth=placement or pd_ors, or choose a policy for rigid jobs",
        "  policies[2] with workloads[0]: policy chunk_fifo is for chunked jobs, but truth=rigid has rigid "
        "jobs: set -w truth=a_online, or choose a policy for rigid jobs",
    ]
    every = {"path": "week.parquet", "load_scale": [1.0, 2.0]}
    again = _problems(
        workloads=["week.parquet", every], world={"restart_cost_s": [0, 5]}, policies=["optimus"]
    )
    assert again[0] == "sweep.yaml: 1 problem"
    assert again[1].startswith(
        "  policies[0] with workloads[0], restart_cost_s=0 and 3 others: policy optimus"
    )
    elastic = {"path": "week.parquet", "enrich": "pd_ors"}
    trained = {"truth": "placement", "horizon_s": 72000}
    assert _problems(workloads=[elastic], world=trained, policies=["drf", "oasis"])[1:] == [
        "  policies[0] with workloads[0]: policy drf decides on slots: give their length, e.g. -w slot_s=600,"
        " or set -p when=event",
        "  policies[1] with workloads[0]: policy oasis decides on slots: give their length, e.g. "
        "-w slot_s=3600",
    ]
    sound = {"truth": "placement", "slot_s": 600}
    assert (
        len(_sweep(workloads=[elastic], world=sound, policies=["drf", "optimus", "las"]).configurations) == 3
    )


def test_a_policy_may_have_entries_of_the_world_of_its_own(at_desk: Path) -> None:
    own = {"truth": "a_online", "slot_s": [60, 120]}
    sweep = _sweep(
        workloads=[{"path": "week.parquet", "enrich": "common"}],
        world={"truth": "placement", "slot_s": 600},
        policies=["drf", {"name": "chunk_fifo", "world": own}],
    )
    setting = "truth=placement, slot_s=600"
    policies = [
        "drf",
        "chunk_fifo{truth=a_online, slot_s=60}",
        "chunk_fifo{truth=a_online, slot_s=120}",
    ]
    assert [label[1:3] for label in _labels(sweep)] == [(setting, policy) for policy in policies]
    worlds = [configuration.identity.scenario.world for configuration in sweep.configurations]
    assert [(world["truth"], world["slot_s"]) for world in worlds] == [
        ("placement", 600),
        ("a_online", 60),
        ("a_online", 120),
    ]


def test_a_policys_own_world_is_checked_with_its_path(at_desk: Path) -> None:
    wrong = {"name": "chunk_fifo", "world": {"truth": "a_onlin"}}
    assert "policies[1]: " in _problems(policies=["fifo", wrong])[1]
    unlike = {"name": "chunk_fifo", "world": {"truth": "a_online", "slot_s": 60}}
    told = _problems(policies=["fifo", unlike])
    assert told[1].startswith(
        "  policies[1].world with workloads[0]: truth=a_online: the workload does not say"
    )
    absent = {"name": "sjf", "world": {"availability": "nowhere.csv"}}
    assert "policies[1].world.availability: nowhere.csv" in _problems(policies=["fifo", absent])[1]


def test_a_world_that_does_not_go_with_the_jobs_is_refused_with_its_path(at_desk: Path) -> None:
    told = _problems(world={"slot_fill": ["whole", "fractional"], "slot_s": 60})
    assert told == [
        "sweep.yaml: 1 problem",
        "  world with workloads[0], slot_fill=fractional, slot_s=60: slot_fill: is about chunks; set "
        "truth=a_online, or leave it out",
    ]
    told = _problems(
        workloads=["week.parquet", {"path": "week.parquet", "enrich": "pd_ors"}], world={"truth": "pd_ors"}
    )
    assert told[1].startswith(
        "  world with workloads[0]: truth=pd_ors: the workload does not say how its jobs train"
    )
    assert not any("workloads[1]" in line for line in told)
    assert "partition vc: server" in _problems(partition="vc")[1]


def test_statements_are_an_axis_and_an_announced_workload_is_rehearsed_like_its_file(at_desk: Path) -> None:
    frame, provenance = synth("philly", 40, seed=1)
    write_workload(frame.with_columns(num_gpus=pl.lit(1.0)), provenance, at_desk / "ones.parquet")
    like = {"synth": {"like": "ones.parquet", "jobs": 40}, "enrich": ["announced", "announced_history"]}
    rounds = {"truth": "announced", "slot_s": 3600, "horizon_s": 36000, "clip_statements": True}
    policies = ["posted_price", "announced_fifo"]
    sweep = _sweep(workloads=[like], world=rounds, policies=policies, seeds=[0, 1])
    assert len(sweep.configurations) == 8  # C' = 7.6 GPUs of small.yaml would not hold Philly's largest job
    philly = {"synth": {"profile": "philly", "jobs": 5}, "enrich": {"profile": "announced", "horizon_s": 9}}
    assert "leave out `feasible_only`" in _problems(workloads=[philly], world=rounds)[1]


def test_a_list_within_a_list_is_layers_and_not_an_axis(at_desk: Path) -> None:
    layered = {"path": "week.parquet", "enrich": ["announced", ["pd_ors", "announced"]]}
    sweep = _sweep(workloads=[layered], world={}, policies=["fifo"], seeds=[0])
    labels = [each.entry.workload for each in sweep.configurations]
    assert labels == ["week/announced", "week/pd_ors+announced"]
    told = _problems(workloads=[{"path": "week.parquet", "enrich": [["pd_ors", "harmony_types"]]}])[1]
    assert "workloads[0]: layers pd_ors and harmony_types: both fill epochs" in told
    told = _problems(workloads=[{"path": "week.parquet", "enrich": [["pd_ors", {"profil": "x"}]]}])[1]
    assert "enrich[1].profile: is missing" in told or "unknown key" in told


def test_a_gap_in_a_column_counts_where_every_job_is_replayed(at_desk: Path) -> None:
    # Of 40 jobs the last two do not say how they train; a window that leaves them out is a world.
    frame, provenance = synth("philly", 40, seed=1)
    jobs, _ = enrich(frame.sort("submit_s"), load_training_draws("pd_ors"), 0)
    last = pl.int_range(pl.len()) >= 38
    gaps = jobs.with_columns(pl.when(~last).then(pl.col("samples")).alias("samples"))
    write_workload(gaps, provenance, at_desk / "gaps.parquet")
    world = {"truth": "placement"}
    told = _problems(workloads=["gaps.parquet"], world=world)
    assert any("samples: is null for 2 of 40 jobs" in line for line in told)
    until_s = float(gaps["submit_s"][38])
    window = {"path": "gaps.parquet", "window": [[0.0, until_s]]}
    assert len(_sweep(workloads=[window], world=world).configurations) == 1


def test_a_label_names_a_policy_and_leaves_the_identity_alone(at_desk: Path) -> None:
    params = {"placement": "spread"}
    plain = _sweep(policies=[{"name": "fifo", "params": params}]).configurations[0]
    named = _sweep(policies=[{"name": "fifo", "params": params, "label": "in turn"}]).configurations[0]
    assert (plain.entry.policy, plain.entry.labelled) == ("fifo(placement=spread)", None)
    assert (named.entry.policy, named.entry.labelled) == ("in turn", "fifo(placement=spread)")
    assert named.identity.content_hash == plain.identity.content_hash
    assert named.identity.scenario_hash == plain.identity.scenario_hash
    assert named.identity.manifest() == {**plain.identity.manifest(), "label": "in turn"}


def test_a_label_names_one_policy_of_a_sweep(at_desk: Path) -> None:
    twice = [{"name": "sjf", "label": "short"}, {"name": "las", "label": "short"}]
    assert _problems(policies=twice)[1:] == [
        "  policies[1].label: 'short' names sjf and las; give each policy another label"
    ]
    assert _problems(policies=["fifo", {"name": "las", "label": "fifo"}])[1:] == [
        "  policies[1].label: 'fifo' names fifo and las; give each policy another label"
    ]
    axis = {"name": "fifo", "params": {"placement": ["pooled", "spread"]}, "label": "f"}
    assert "'f' names fifo(placement=pooled) and fifo(placement=spread)" in _problems(policies=[axis])[1]
