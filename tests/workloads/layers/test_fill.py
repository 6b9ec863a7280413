"""Layers: each profile fills columns that are empty so far, and the file names all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.layer_file import load_announcement_draws, load_profiles
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.errors import (
    InvalidInputError,
    InvalidScenarioError,
    InvalidWorkloadError,
    UnknownNameError,
)
from tests.training_profiles import philly
from workloads.announcements.announce import announce
from workloads.layers.fill import EnrichmentLayer, fill, fill_file
from workloads.provenance import Counts, Provenance
from workloads.store import read_frame, read_provenance, write_workload
from workloads.training.enrich import Feasibility, enrich

MADE = Provenance(converter="test", converter_version="1", counts=Counts(read=9, kept=9))


def test_layers_are_filled_one_after_the_other(tmp_path: Path) -> None:
    write_workload(philly(9), MADE, tmp_path / "in.parquet")
    layers = load_profiles(["pd_ors", "announced"])
    reports = fill_file(str(tmp_path / "in.parquet"), tmp_path / "out.parquet", layers, 3)
    assert [type(report).__name__ for report in reports] == ["EnrichReport", "AnnouncementReport"]
    trained, _ = enrich(read_frame(tmp_path / "in.parquet"), load_training_draws("pd_ors"), 3)
    both, _ = announce(trained, load_announcement_draws("announced"), 3)
    assert read_frame(tmp_path / "out.parquet").equals(both)


def test_the_provenance_has_every_layer_down_to_the_source(tmp_path: Path) -> None:
    write_workload(philly(9), MADE, tmp_path / "in.parquet")
    fill_file(
        str(tmp_path / "in.parquet"), tmp_path / "out.parquet", load_profiles(["announced", "pd_ors"]), 3
    )
    last = read_provenance(tmp_path / "out.parquet")
    assert last is not None
    first = Provenance.model_validate(last.notes["source_provenance"])
    assert (last.options["profile"], first.options["profile"]) == ("pd_ors", "announced")
    assert first.notes["source_provenance"] == MADE.model_dump(mode="json")
    assert last.sources == first.sources


def test_two_layers_that_fill_a_column_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError) as error:
        load_profiles(["jsac_edge_cloud", "optimus_nine_models"])
    assert "layers jsac_edge_cloud and optimus_nine_models: both fill epochs, gradient_mb" in str(error.value)
    assert "leave out one of the two" in str(error.value)
    with pytest.raises(InvalidInputError, match="both fill birth_s, value, outlook"):
        load_profiles(["announced", "announced_history"])


def test_a_layer_on_columns_that_have_values_is_refused_by_name() -> None:
    frame, _ = enrich(philly(9), load_training_draws("pd_ors"), 1)
    with pytest.raises(
        InvalidWorkloadError, match=r"already says epochs, .* so profile harmony_types can only"
    ):
        fill(frame, EnrichmentLayer(load_training_draws("harmony_types")), 1)
    announced, _ = fill(frame, EnrichmentLayer(load_announcement_draws("announced")), 1)
    assert announced.drop("birth_s", "value", "outlook").equals(frame.drop("birth_s", "value", "outlook"))


def test_a_layered_profile_stands_for_those_that_it_names(tmp_path: Path) -> None:
    own = tmp_path / "both.yaml"
    own.write_text("{name: both, layers: [pd_ors, announced]}")
    layers = load_profiles([str(own)], Feasibility(only=True))
    assert [layer.draws.name for layer in layers] == ["pd_ors", "announced"]
    assert [layer.feasibility.only for layer in layers] == [True, False]
    with pytest.raises(InvalidScenarioError, match="profile announced announces every job; leave out"):
        load_profiles(["announced"], Feasibility(only=True))
    own.write_text("{name: both, layers: []}")
    with pytest.raises(InvalidInputError, match="layers"):
        load_profiles([str(own)])
    with pytest.raises(UnknownNameError, match="Did you mean 'pd_ors'"):
        load_profiles(["pdors"])
