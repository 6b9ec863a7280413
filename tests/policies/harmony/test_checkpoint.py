"""Checkpoints: a round trip, and every way in which a file can be wrong."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import Form
from ray_sim.policies.harmony.checkpoint import MAX_BYTES, Checkpoint, Header, parse_checkpoint
from ray_sim.policies.harmony.policy import BUNDLED
from tests.harmony_states import untrained

HEADER = Header(
    form=Form.SHARED,
    models=["a", "b"],
    resources=["gpu", "cpu"],
    servers=0,
    most_jobs=4,
    most_new=2,
    block=3,
    hidden=[5],
    training={"command": "ray-sim ...", "seed": 7},
)


def small() -> Checkpoint:
    return untrained(HEADER, Streams(0))


def entries_of(content: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


def file_of(entries: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **entries)
    return file.getvalue()


def with_header(change: Mapping[str, object]) -> bytes:
    entries = entries_of(small().to_bytes())
    header = {**json.loads(entries["header"].tobytes()), **change}
    return file_of({**entries, "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)})


def test_a_checkpoint_comes_back_as_it_was() -> None:
    content = small().to_bytes()
    back = parse_checkpoint(content, "c.npz")
    assert back.header.training == {"command": "ray-sim ...", "seed": 7}
    assert back.header.architecture == HEADER.architecture
    assert back.to_bytes() == content
    assert {name: array.tolist() for name, array in back.parameters.items()} == {
        name: array.tolist() for name, array in small().parameters.items()
    }


def test_numpy_reads_it_without_pickles() -> None:
    found = entries_of(small().to_bytes())
    assert set(found) == {"header", *small().parameters}


def test_the_bundled_network_is_small_and_knows_the_models_of_harmony_types() -> None:
    content = BUNDLED.read_bytes()
    header = parse_checkpoint(content, "bundled").header
    assert len(content) < 1_000_000
    assert header.models == list(load_interference("harmony_types").types)
    assert header.form is Form.SHARED
    assert header.training["command"] == "ray-sim train harmony default.yaml"


def test_a_flipped_bit_is_refused_or_without_effect() -> None:
    """A flip without effect is in the times and other notes of the archive, which nobody reads."""
    content = small().to_bytes()
    places = range(0, len(content), 5)
    refused = 0
    for at in places:
        damaged = bytearray(content)
        damaged[at] ^= 1 << (at % 8)
        try:
            assert parse_checkpoint(bytes(damaged), "c.npz").to_bytes() == content
        except InvalidInputError:
            refused += 1
    assert refused >= 0.6 * len(places)


def test_a_truncated_file_is_refused() -> None:
    content = small().to_bytes()
    for length in (0, 1, 100, len(content) - 1):
        with pytest.raises(InvalidInputError, match=r"c\.npz: is no intact \.npz file"):
            parse_checkpoint(content[:length], "c.npz")


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_a_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    entries = entries_of(small().to_bytes())
    entries["job.bias"] = np.array([Trap(str(trap))] * 3, dtype=object)
    with pytest.raises(InvalidInputError, match=r"c\.npz: job\.bias: holds a pickle, .* is not read"):
        parse_checkpoint(file_of(entries), "c.npz")
    assert not trap.exists()


def test_a_bare_pickle_and_a_text_are_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.array([Trap(str(tmp_path / "executed"))], dtype=object), allow_pickle=True)
    for content in (file.getvalue(), b"weights"):
        with pytest.raises(InvalidInputError, match=r"is no intact \.npz file"):
            parse_checkpoint(content, "c.npz")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("header", None, "has no header, so it is no checkpoint of ray-sim"),
        ("job.bias", None, "job.bias: is missing"),
        ("extra", np.zeros(1, np.float32), "extra: is no array of this network"),
        ("job.bias", np.zeros(4, np.float32), r"job.bias: must have shape \(3,\), .* found \(4,\)"),
        ("job.bias", np.zeros(3), "job.bias: must hold float32, found float64"),
        ("job.bias", np.array(["a", "b", "c"]), "job.bias: must hold float32"),
        ("job.weight", np.zeros((2, 2), np.float32, order="F"), "job.weight: must be stored by rows"),
        ("job.bias", np.array([0, np.nan, 0], np.float32), "job.bias: has a number that is not finite"),
        ("job.bias", np.ones(3, np.float32), "SHA-256 of the arrays is .*; the file was changed"),
        ("header", np.frombuffer(b"{", np.uint8), "header: is no JSON"),
        ("header", np.frombuffer(b"[]", np.uint8), "header: is not that of a ray_sim harmony policy"),
    ],
)
def test_a_wrong_entry_is_named(name: str, value: np.ndarray | None, said: str) -> None:
    entries = entries_of(small().to_bytes())
    entries.pop(name, None)
    if value is not None:
        entries[name] = value
    with pytest.raises(InvalidInputError, match=said):
        parse_checkpoint(file_of(entries), "c.npz")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "something"}, "is not that of a ray_sim harmony policy"),
        ({"version": 2}, "is of version 2, and this program reads version 1; train it anew"),
        ({"form": "round"}, r"header\.form: "),
        ({"hidden": []}, r"header\.hidden: "),
        ({"hidden": [0]}, r"header\.hidden\.0: "),
        ({"block": 2.5}, r"header\.block: "),
        ({"block": 10**9}, r"header\.block: "),
        ({"odd": 1}, r"header\.odd: "),
        ({"models": ["a", "a"]}, r"header\.models: 'a' is there twice"),
        ({"most_new": 5}, r"header\.most_new: must be at most most_jobs = 4, got 5"),
        ({"servers": 3}, r"header\.servers: must be 0 for form shared"),
        ({"form": "dense"}, r"header\.servers: .* got 0 for form dense"),
        ({"models": ["a", "b", "c"]}, r"job\.weight: must have shape \(11, 3\), as the header says"),
    ],
)
def test_a_wrong_header_is_named(change: Mapping[str, object], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse_checkpoint(with_header(change), "c.npz")


@pytest.mark.slow
def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("header.npy", "w") as entry,
    ):
        for _ in range(MAX_BYTES // 2**20 + 1):
            entry.write(bytes(2**20))
    assert len(file.getvalue()) < 2**20
    with pytest.raises(InvalidInputError, match="unpacks to more than 256 MiB"):
        parse_checkpoint(file.getvalue(), "c.npz")
