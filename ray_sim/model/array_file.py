"""Files of named arrays (``.npz``) as `numpy.savez` writes them, read without trust in what they say.

Snapshots of runs and states of trainings call it.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file by name; None if it is damaged, compressed, or has other members, e.g. pickles.

    Sizes are compared before anything is read, so that it takes no more memory than the file has bytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                return None
            arrays = {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
            return arrays if len(arrays) == len(entries) else None
    except MemoryError:
        raise
    except Exception:  # a dozen types, e.g. TokenError for a header that is no Python literal
        return None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("not of version 1.0 of the format npy")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        told = stream.tell() + dtype.itemsize * math.prod(shape)
        if entry.compress_type != zipfile.ZIP_STORED or min(shape, default=0) < 0 or told != entry.file_size:
            raise ValueError("has not the size that its header tells")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def misfit(found: Mapping[str, np.ndarray], fresh: Mapping[str, np.ndarray]) -> str | None:
    """Difference of a stored state from a fresh one of the same work; None if it may be a later one.

    A later one has the same names, types and axes; only arrays without entries at first grow.
    """
    for name, array in fresh.items():
        there = found.get(name)
        if there is None:
            return f"{name} is missing"
        grown = array.size == 0 and there.ndim == array.ndim
        if there.dtype != array.dtype or not (grown or there.shape == array.shape):
            return f"{name}: expected {array.dtype} {array.shape}, found {there.dtype} {there.shape}"
    return None


def arrays_sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of names, types, shapes and values; a zip file's own checksums miss a removed array."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
