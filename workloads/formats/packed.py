"""Size limits of text files, plain or compressed, checked before a reader holds a line in memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from ray_sim.model.errors import InvalidWorkloadError
from workloads.files import GZIP_MAGIC

MAX_LINE = 2**24
"""The longest line of a trace in bytes. Lines of real traces have hundreds."""

MAX_RATIO = 200
"""Largest ratio of unpacked to packed size. Traces have 5 to 20; a file of zeros has 1,000."""

FREE_BYTES = 2**28
"""A packed file may always be this large unpacked."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PART_BYTES = 2**20


def check_text(path: Path, *, lines: bool) -> None:
    """Raise for a file that is too large or has too long a line to be text; uses a few MB of memory.

    A damaged or truncated file passes; its reader reports the damage.

    Parameters
    ----------
    lines : whether to check the length of lines too; otherwise plain files are not read

    Raises
    ------
    InvalidWorkloadError : it unpacks to more than `MAX_RATIO` times its size and `FREE_BYTES`, or a line is
        longer than `MAX_LINE`; says which
    """
    most = max(FREE_BYTES, MAX_RATIO * path.stat().st_size)
    unpacked = 0
    length = _Lines(path) if lines else None
    try:
        with _opened(path, lines) as stream:
            while stream is not None and (part := stream.read(_PART_BYTES)):
                unpacked += len(part)
                if length is not None:
                    length.add(part)
                if unpacked > most:
                    break
    except (OSError, EOFError, zlib.error):
        return
    if unpacked > most:
        raise InvalidWorkloadError(
            f"{path}: unpacks to more than {most / 2**20:,.0f} MiB; a packed trace may be {MAX_RATIO} times "
            f"as large unpacked, and {FREE_BYTES // 2**20} MiB in any case. If it is a trace, unpack it first"
        )


class _Lines:
    """Length of the current line of a file read in parts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 1
        self._length = 0

    def add(self, part: bytes) -> None:
        """Add the next part; it must be shorter than `MAX_LINE`."""
        first = part.find(b"\n")
        if self._length + (first if first >= 0 else len(part)) > MAX_LINE:
            raise InvalidWorkloadError(
                f"{self._path}: line {self._line:,} is longer than {MAX_LINE // 2**20} MiB, the most that a "
                "row may have. If it is one row, shorten its texts: an `outlook` or a `value` with fewer "
                "points, or put them into the workload file (Parquet), whose texts have no limit. If "
                "not, its line ends are lost, or this is no file of records"
            )
        if first < 0:
            self._length += len(part)
        else:
            self._line += part.count(b"\n")
            self._length = len(part) - part.rfind(b"\n") - 1


@contextmanager
def _opened(path: Path, plain: bool) -> Iterator[IO[bytes] | None]:
    """Stream of the unpacked bytes; None for a plain file unless ``plain``."""
    with path.open("rb") as raw:
        magic = raw.read(len(_ZSTD_MAGIC))
        raw.seek(0)
        if magic.startswith(GZIP_MAGIC):
            with gzip.open(raw) as stream:
                yield cast("IO[bytes]", stream)
        elif magic == _ZSTD_MAGIC:
            import pyarrow as pa

            with pa.CompressedInputStream(raw, "zstd") as stream:
                yield stream
        else:
            yield raw if plain else None
