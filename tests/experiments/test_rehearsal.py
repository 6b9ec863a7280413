"""A rehearsal with a few jobs names the models of all jobs of a workload that a world or a policy lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.rehearsal import Rehearsal
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, parse_scenario
from ray_sim.model.errors import InvalidInputError
from workloads.store import write_workload
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich

SERVERS = """
name: small
servers:
  - {name: s, count: 2, gpus: 4, cpus: 64, memory_gib: 256}
"""
LACKING = ("cnn-rand", "deepspeech2", "kaggle-ndsb", "rnn-lstm")
"""Models of the training profile optimus_nine_models that the interference profile harmony_types lacks."""

CHECKS = [("load_balance", "harmony_types"), ("lif_linear", None), ("harmony", None)]
"""Policies and interference profiles, of which one has to have the models of all jobs."""


@pytest.fixture(autouse=True)
def _servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SERVERS)


def scenario_of(workload: object, policy: str, interference: str | None) -> Scenario:
    world = {"truth": "placement", "slot_s": 600, "interference": interference}
    content = {"workload": workload, "cluster": "small.yaml", "policy": policy, "world": world}
    return parse_scenario(content, "test")


def refused(
    workload: object, policy: str = "load_balance", profile: str | None = "harmony_types"
) -> set[str]:
    """The models that the error of a rehearsal names as missing."""
    with pytest.raises(InvalidInputError) as refusal:
        Rehearsal(HashedInputs()).set_up(scenario_of(workload, policy, profile))
    lines = re.findall(r"  model (.*?):", str(refusal.value))
    return {name for line in lines for name in line.split(", ")}


def written(path: str, models: Iterable[str], status: Sequence[str] | None = None) -> None:
    """Jobs of these models, a minute apart, in order."""
    names = list(models)
    jobs, provenance = synth("philly", len(names), seed=1)
    filled, _ = enrich(jobs, load_training_draws("harmony_types"), 1)
    frame = filled.sort("submit_s").with_columns(
        model=pl.Series(names),
        status=pl.Series(status or ["Pass"] * len(names)),
        submit_s=pl.Series([60.0 * i for i in range(len(names))]),
    )
    write_workload(frame, provenance, Path(path))


@pytest.mark.parametrize(("policy", "interference"), CHECKS)
def test_all_models_of_a_file_that_are_missing_are_named(policy: str, interference: str | None) -> None:
    written("w.parquet", ["dssm", *["vgg-16"] * 20, "a", *["wlm"] * 20, "b", "c"])
    assert refused("w.parquet", policy, interference) == {"a", "b", "c"}


@pytest.mark.parametrize(("policy", "interference"), CHECKS)
def test_all_models_of_a_profile_that_are_missing_are_named(policy: str, interference: str | None) -> None:
    profile = "optimus_nine_models"
    synthetic = {"synth": {"profile": "philly", "jobs": 2}, "enrich": profile}
    assert refused(synthetic, policy, interference) == set(LACKING)
    write_workload(*synth("philly", 5, seed=1), Path("plain.parquet"))
    assert refused({"path": "plain.parquet", "enrich": profile}, policy, interference) == set(LACKING)


def test_all_models_of_jobs_drawn_whole_that_are_missing_are_named() -> None:
    Path("one.yaml").write_text("{name: one, channels: {cpu: {}}, types: {dssm: {worker: {cpu: 0.1}}}}")
    drawn = "{name: drawn, base: harmony_types, columns: {num_workers: [1, 3], samples: [2000, 5000]}}"
    Path("drawn.yaml").write_text(drawn)
    models = {family.name for family in load_training_draws("harmony_types").families}
    whole = {"synth": {"profile": "drawn.yaml", "jobs": 1, "horizon_s": 7200}}
    assert refused(whole, profile="one.yaml") == models - {"dssm"}


def test_models_of_jobs_that_are_not_replayed_do_not_count() -> None:
    # The first job is of model z, the last two fail; b comes after the first hour, d with a job that fails.
    models = ["z", *["dssm"] * 57, "a", *["dssm"] * 10, "b", "a", "d"]
    status = [*["Pass"] * 70, "Failed", "Failed"]
    written("w.parquet", models, status=status)
    assert refused("w.parquet") == {"z", "a", "b", "d"}
    assert refused({"path": "w.parquet", "unsuccessful": "drop"}) == {"z", "a", "b"}
    assert refused({"path": "w.parquet", "window": [60, 3600]}) == {"a"}
    only_dssm = {"path": "w.parquet", "window": [60, 3000]}
    Rehearsal(HashedInputs()).set_up(scenario_of(only_dssm, "load_balance", "harmony_types"))


def test_an_error_counts_all_jobs_of_a_file() -> None:
    jobs, provenance = synth("philly", 30, seed=1)
    filled, _ = enrich(jobs, load_training_draws("harmony_types"), 1)
    odd = pl.int_range(pl.len()) % 2 == 1
    for column in ("samples", "model"):
        lacking = filled.with_columns(pl.when(odd).then(None).otherwise(pl.col(column)).alias(column))
        write_workload(lacking, provenance, Path(f"{column}.parquet"))

    def error_of(workload: str) -> str:
        with pytest.raises(InvalidInputError) as refusal:
            Rehearsal(HashedInputs()).set_up(scenario_of(workload, "load_balance", "harmony_types"))
        return str(refusal.value)

    assert f"samples: is null for 15 of 30 jobs, first for {filled['job_id'][1]}" in error_of(
        "samples.parquet"
    )
    assert "15 jobs have no model, the first in row 1" in error_of("model.parquet")
