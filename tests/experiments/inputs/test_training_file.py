"""Training profiles as files: what may be in them, and every problem told at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES, load_training_draws
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from workloads.training.draws import Constant, Multiple, Uniform

GOOD = """
name: own
title: Ours
reference_server: {gpu: 8}
columns:
  exchange: sync
  epochs: [50, 200]
  samples: [20000, 500000]
  batch: 128
  sample_s: [0.001, 0.01]
  gradient_mb: 100
  bandwidth_mbps: [100, 1000]
  internal_bandwidth_mbps: {times: 10, column: bandwidth_mbps}
  workers_per_ps: 4
  worker_gpu: [1, 4]
"""


def problems_of(folder: Path, text: str) -> list[str]:
    """Lines of the error that a profile raises, without the file's name."""
    path = folder / "profile.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        load_training_draws(path)
    return str(caught.value).removeprefix(f"{path}: ").splitlines()


def test_the_bundled_profiles_are_sound_and_bear_their_files_names() -> None:
    profiles = {name: load_training_draws(name) for name in TRAINING_PROFILES.bundled()}
    assert list(profiles) == [
        *(
            "common_training",
            "harmony_types",
            "jsac_edge_cloud",
            "optimus_nine_models",
            "pd_ors",
            "pd_ors_mix",
        )
    ]
    assert all(draws.name == name and draws.title for name, draws in profiles.items())
    assert [len(draws.families) for draws in profiles.values()] == [8, 8, 1, 9, 1, 1]


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    draws = load_training_draws(path)
    (family,) = draws.families
    assert (draws.name, draws.title, family.name) == ("own", "Ours", None)
    assert family.columns["epochs"] == Uniform(50, 200, whole=True)
    assert family.columns["batch"] == Constant(128.0)
    assert family.columns["internal_bandwidth_mbps"] == Multiple(10, "bandwidth_mbps")
    assert draws.reference_server == {"gpu": 8}


def test_a_familys_own_columns_go_before_the_common_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD + "families: [{name: a}, {name: b, weight: 3, columns: {batch: 64}}]\n")
    batches = [family.columns["batch"] for family in load_training_draws(path).families]
    assert batches == [Constant(128.0), Constant(64.0)]


def test_a_profile_with_a_base_is_the_base_with_other_draws_in_all_families(tmp_path: Path) -> None:
    path = tmp_path / "in_step.yaml"
    path.write_text("{name: in_step, base: optimus_nine_models, columns: {exchange: sync, batch: 64}}")
    base, draws = load_training_draws("optimus_nine_models"), load_training_draws(path)
    changed = {"exchange": Constant("sync"), "batch": Constant(64.0)}
    assert [dict(f.columns) for f in draws.families] == [{**f.columns, **changed} for f in base.families]
    assert (draws.name, draws.reference_server) == ("in_step", base.reference_server)
    assert draws.sha256 != base.sha256


def test_a_base_is_bundled_and_brings_the_families(tmp_path: Path) -> None:
    text = "{name: x, base: optimus, families: [{name: a}]}"
    families, base = problems_of(tmp_path, text)[1:]
    assert "families: a profile with a base has the families of the base" in families
    assert "base: unknown bundled training profile 'optimus'" in base
    wrong = "{name: x, base: optimus_nine_models, columns: {epochs: 5}}"
    assert any("columns.epochs: follows from the loss curve" in line for line in problems_of(tmp_path, wrong))


def test_all_problems_of_the_parts_are_told_at_once(tmp_path: Path) -> None:
    content = yaml.safe_load(GOOD)
    content["reference_server"]["gpu"] = -1
    content["columns"].update({"epochs": [200, 50], "batches": 3, "num_ps": 1, "exchange": "ring"})
    content["families"] = [{"name": "a", "weight": 0, "columns": {"sample_s": 0}}]
    content["titel"] = "typo"
    lines = problems_of(tmp_path, yaml.safe_dump(content))
    unknown = lines.pop(4)
    assert unknown.startswith(
        "  columns.batches: unknown column to draw 'batches'. Did you mean 'batch'? Known: "
    )
    assert lines == [
        "8 problems",
        "  reference_server.gpu: must be >= 0, got -1",
        "  families[0].weight: must be > 0, got 0",
        "  titel: unknown key; did you mean 'title'?",
        "  columns.epochs: must be [LOW, HIGH] with LOW at most HIGH, got [200, 50]",
        "  columns.exchange: must be one of sync, async, all_reduce, got 'ring'",
        "  columns.num_ps: follows from the row and the other columns; leave it out",
        "  families[0].columns.sample_s: must be a number from 9.094947018e-13 to 6.871947674e+10 s, got 0",
    ]


def test_all_problems_of_the_whole_are_told_at_once(tmp_path: Path) -> None:
    content = yaml.safe_load(GOOD)
    del content["columns"]["batch"]
    content["columns"].update({"samples": 5, "worker_gpu": [0.5, 2], "utility_max": 1, "worker_cpu": 2})
    content["columns"]["internal_bandwidth_mbps"]["column"] = "worker_gpu"
    assert problems_of(tmp_path, yaml.safe_dump(content)) == [
        "7 problems",
        "  columns.batch: is missing; a step time needs it",
        "  columns.utility_decay_per_s: is missing; a utility needs it",
        "  columns.utility_due_s: is missing; a utility needs it",
        "  columns.internal_bandwidth_mbps.column: must be a column of numbers drawn here, got 'worker_gpu'",
        "  columns.samples: follows from the row; must be [LOW, HIGH], the range to count by",
        "  columns.worker_gpu: must be a whole number or a range of them, to divide a row's GPUs by",
        "  reference_server: must offer cpu, which workers or servers demand",
    ]


def test_families_draw_the_same_columns_under_names_of_their_own(tmp_path: Path) -> None:
    text = GOOD + "families: [{name: a}, {name: a, columns: {step_s: 1}}]\n"
    assert problems_of(tmp_path, text) == [
        "2 problems",
        "  families[1].columns: all families must draw the same columns; compare step_s",
        "  families[1].name: 'a' appears twice",
    ]


@pytest.mark.parametrize(
    ("multiple", "problem"),
    [
        ("{times: 1000000, column: bandwidth_mbps}", "times: gives 100000000 to 1000000000, outside"),
        ("{times: 1, column: bandwidth}", "column: must be a column of numbers drawn here, got 'bandwidth'"),
        ("{times: 1, column: exchange}", "column: must be a column of numbers drawn here, got 'exchange'"),
        ("{times: 1, column: internal_bandwidth_mbps}", "is a multiple itself"),
    ],
)
def test_a_multiple_is_of_a_column_of_numbers_and_stays_in_its_own_range(
    tmp_path: Path, multiple: str, problem: str
) -> None:
    lines = problems_of(tmp_path, GOOD + f"  worker_cpu: {multiple}\n")
    assert any(line.startswith("  columns.worker_cpu.") and problem in line for line in lines)


def test_epochs_are_drawn_or_follow_from_the_loss_and_not_both(tmp_path: Path) -> None:
    curve = "".join(f"  loss_{part}: 1\n" for part in ("b0", "b1", "b2", "noise", "threshold", "patience"))
    assert problems_of(tmp_path, GOOD + curve) == [
        "1 problem",
        "  columns.epochs: follows from the loss curve; leave out one of the two",
    ]
    path = tmp_path / "own.yaml"
    path.write_text(GOOD.replace("  epochs: [50, 200]\n", "") + curve)
    assert "epochs" not in load_training_draws(path).columns


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\ncolumns: {worker_gpu: 1}", "columns: must say how jobs train: by `sample_s`"),
        (
            "name: x\ncolumns: {chunks: [1, 2], worker_gpu: 1}",
            "columns.epochs: is missing; a chunk needs it",
        ),
        ("- 1", "must be a mapping"),
        ("name: x\ncolumns: 5", "columns: must be a mapping, got 5"),
        ("name: x\nname: y", "is not valid YAML"),
        ("", "is empty"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert any(problem in line for line in problems_of(tmp_path, text))


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match=r"Did you mean 'pd_ors'\? Known: common_training, harmony_types, "
    ):
        load_training_draws("pdors")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_training_draws(tmp_path / "absent.yaml")
