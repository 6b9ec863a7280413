"""Files of arrays that were damaged, or made to harm the reader."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ray_sim.model.array_file import misfit, read_arrays


def npy(header: str, values: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + values


def packed(members: list[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def header(descr: object, shape: str) -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}\n"


THREE = npy(header("<i8", "(3,)"), np.arange(3).tobytes())


def object_array() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([print, None], dtype=object), version=(1, 0))
    return file.getvalue()


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    by_columns = np.array([[1.5], [2.5]], order="F")
    arrays = {"n": np.arange(6).reshape(2, 3), "t": np.array("text"), "f": by_columns}
    np.savez(tmp_path / "a.npz", allow_pickle=False, **arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {
        "n": [[0, 1, 2], [3, 4, 5]], "t": "text", "f": [[1.5], [2.5]],
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK not really",
        packed([("x.npy", THREE)])[:-30],
        packed([("x.npy", THREE)], zipfile.ZIP_DEFLATED),
        packed([("x.npy", npy(header("<i8", f"({2**20},)"), bytes(2**23)))], zipfile.ZIP_DEFLATED),  # a bomb
        packed([("x.npy", npy(header("<i8", f"({2**60},)")))]),  # 8 EiB
        packed([("x.npy", npy(header("<i8", f"(0, {2**80})")))]),
        packed([("x.npy", npy(header("<i8", "(-3,)"), bytes(24)))]),
        packed([("x.npy", npy(header("<i8", "(-1, -3)"), bytes(24)))]),
        packed([("x.npy", npy(header(f"<U{2**31 - 1}", "(1,)")))]),
        packed([("x.npy", npy(header("|O", "(1,)"), b"\x80\x04N."))]),
        packed([("x.npy", object_array())]),
        packed([("x.npy", npy(header("nonsense", "(1,)"), bytes(8)))]),
        packed([("x.npy", npy("(" * 9000))]),
        packed([("x.npy", THREE), ("readme.txt", b"text")]),
        packed([("x.npy", THREE), ("x", THREE)]),
        packed([("x.npy", THREE + b"more")]),
    ],
)
def test_a_file_that_is_not_whole_or_wants_more_than_it_holds_is_not_read(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    assert read_arrays(tmp_path / "a.npz") is None


def test_a_later_state_has_the_names_types_and_axes_of_a_fresh_one() -> None:
    fresh = {"queue": np.zeros((0, 2), np.int64), "clock": np.array([0, 0])}
    assert misfit({"queue": np.ones((7, 2), np.int64), "clock": np.array([5, 6])}, fresh) is None
    assert misfit({"queue": fresh["queue"]}, fresh) == "clock is missing"
    longer = misfit({**fresh, "clock": np.array([5, 6, 7])}, fresh)
    assert longer == "clock: expected int64 (2,), found int64 (3,)"
    assert misfit({**fresh, "queue": np.zeros(3, np.int64)}, fresh) is not None
    assert misfit({**fresh, "clock": np.array([0.5, 0.5])}, fresh) is not None
