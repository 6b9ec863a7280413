"""What people see of a conversion while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damaged import GOOD
from workloads import meter
from workloads.convert import convert
from workloads.meter import Meter

Told = list[tuple[int, int, str]]


def file_of(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    return path


def test_megabytes_of_files_and_of_what_follows_them_add_up(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", 6_000_000), file_of(tmp_path, "two.gz", 2_000_000)
    told: Told = []
    progress = Meter([one, two], lambda *now: told.append(now))
    progress.expect(4_000_000)  # 12 MB in all
    progress.begin(one)
    for _ in range(3):
        progress.add(1_500_000)  # 1, 3 and 4 of 6 MB
    progress.begin(two)
    progress.add(12_000_000)  # half of about 24 MB that 2 MB are packed from: 1 of 2 MB
    progress.add(50_000_000)  # more than it should hold: no more than the file
    progress.advance(4_000_000, "writing")
    assert told == [
        *((done, 12, "reading one") for done in (0, 1, 3, 4)),
        *((done, 12, "reading two.gz") for done in (6, 7, 8)),
        (12, 12, "writing"),
    ]


def test_nothing_is_told_twice(tmp_path: Path) -> None:
    told: Told = []
    progress = Meter([path := file_of(tmp_path, "one", 2_000_000)], lambda *now: told.append(now))
    progress.begin(path)
    for _ in range(1_000):
        progress.add(1_999)
    assert told == [(0, 2, "reading one"), (1, 2, "reading one")]


@pytest.mark.parametrize("name", sorted(GOOD))
def test_every_format_tells_how_far_it_is(
    name: str, tmp_path: Path, trace: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "BYTES_PER_MB", 1)
    path = trace(GOOD[name])
    told: Told = []
    convert(name, [path], tmp_path / "w.parquet", progress=lambda *now: told.append(now))
    done, totals, what = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert done[0] == 0
    assert done[-1] <= totals[-1]
    assert done[-1] >= len(GOOD[name])
    assert what[0] == "hashing the sources"
    assert f"reading {path.name}" in what
    assert what[-1] == "writing w.parquet"
