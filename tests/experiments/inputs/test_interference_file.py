"""Interference profiles from files: what is read, and every fault by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.server_files import ServerFiles, split_world
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.errors import (
    InvalidInputError,
    UnknownNameError,
)
from ray_sim.model.interference import MOST_TASKS, PARTS

TWO = """
name: two
channels:
  cpu: {}
  qpi: {between_sockets: true}
types:
  a: {worker: {cpu: 0.25}, ps: {qpi: 0.1}, sensitivity: {cpu: 1.5}}
  b: {sensitivity: {qpi: 2}}
"""


def written(folder: Path, text: str, name: str = "given.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_profile_is_read_and_what_it_leaves_out_is_zero(tmp_path: Path) -> None:
    profile = load_interference(written(tmp_path, TWO))
    assert (profile.name, profile.channels, profile.types) == ("two", ("cpu", "qpi"), ("a", "b"))
    assert profile.between_sockets.tolist() == [False, True]
    assert profile.worker_load.tolist() == [[PARTS // 4, 0], [0, 0]]
    assert profile.ps_load.tolist() == [[0, PARTS // 10], [0, 0]]
    assert profile.sensitivity.tolist() == [[1.5, 0], [0, 2]]


def test_own_load_is_excluded_unless_a_profile_or_one_with_a_base_counts_it(tmp_path: Path) -> None:
    counted = "name: counted\nbase: harmony_types\nown_load: counted\n"
    assert load_interference("harmony_types").own_tasks == MOST_TASKS
    assert load_interference(written(tmp_path, counted)).own_tasks == 1
    assert load_interference(written(tmp_path, f"{TWO}own_load: counted\n")).own_tasks == 1


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("cpu: 1.5", "cpu: -1", "types.a.sensitivity.cpu: must be >= 0"),
        ("cpu: 0.25", "cpu: .nan", "types.a.worker.cpu"),
        ("cpu: 0.25", "cqu: 0.25", "types.a.worker: unknown channel 'cqu'. Did you mean 'cpu'"),
        ("worker: {", "workers: {", "types.a.workers: unknown key"),
        ("name: two", "name: two\nbase: harmony_types", "has the channels and types of the base"),
        ("{between_sockets: true}", "{between_sockets: perhaps}", "channels.qpi.between_sockets"),
        ("name: two", "name: two\nstrength: -1", "strength: must be >= 0"),
        ("name: two", "name: two\nown_load: some", "own_load: must be 'excluded' or 'counted'"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    path = written(tmp_path, TWO.replace(old, new))
    with pytest.raises(InvalidInputError) as failure:
        load_interference(path)
    assert str(path) in str(failure.value)
    assert fault in str(failure.value)


def test_a_base_must_be_bundled_and_a_profile_must_have_types(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="unknown bundled interference profile 'two'"):
        load_interference(written(tmp_path, "name: three\nbase: two\n"))
    with pytest.raises(InvalidInputError, match="expected `channels` and `types`, or a `base`"):
        load_interference(written(tmp_path, "name: three\n"))
    with pytest.raises(UnknownNameError, match="harmony_types_weak"):
        load_interference("harmony_types_week")


def test_a_profile_has_at_most_1000_types_and_100_channels(tmp_path: Path) -> None:
    types = "".join(f"  t{i}: {{}}\n" for i in range(1001))
    channels = "".join(f"  c{i}: {{}}\n" for i in range(101))
    with pytest.raises(InvalidInputError) as failure:
        load_interference(written(tmp_path, f"name: many\nchannels:\n{channels}types:\n{types}"))
    assert "channels: must have at most 100 entries" in str(failure.value)
    assert "types: must have at most 1,000 entries" in str(failure.value)


def test_the_content_of_files_is_part_of_the_identity_of_servers(tmp_path: Path) -> None:
    path = written(tmp_path, TWO)
    plain = HashedInputs().cluster_sha256("toy", {})
    with_it = HashedInputs().cluster_sha256("toy", {"interference": str(path)})
    elsewhere = written(tmp_path, TWO, "elsewhere.yaml")
    assert plain != with_it == HashedInputs().cluster_sha256("toy", {"interference": str(elsewhere)})
    path.write_text(TWO.replace("1.5", "1.6"))
    assert HashedInputs().cluster_sha256("toy", {"interference": str(path)}) != with_it


def test_worlds_name_files_apart_from_the_engines_parameters() -> None:
    given = {"interference": "harmony_types", "slot_s": 60.0, "links": None}
    assert split_world(given) == ({"slot_s": 60.0}, ServerFiles(interference="harmony_types"))
