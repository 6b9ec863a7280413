"""What people see of a conversion while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damaged import GOOD
from workloads import meter, rows, store
from workloads.convert import convert
from workloads.meter import Meter
from workloads.trace_format import ConvertOptions

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
    assert 2 * len(GOOD[name]) <= done[-1] <= totals[-1]
    assert what[0] == "hashing the sources"
    assert f"reading {path.name}" in what
    assert what[-1] == "writing w.parquet"


def test_portions_of_a_step_are_its_work(tmp_path: Path) -> None:
    told: Told = []
    progress = Meter([path := file_of(tmp_path, "one", 4_000_000)], lambda *now: told.append(now))
    progress.expect(8_000_000)
    progress.begin(path)
    count = progress.step(8_000_000, "writing")
    for portion in (1, 2, 4):
        count(portion, 4)
    assert told == [(0, 12, "reading one"), *((done, 12, "writing") for done in (4, 6, 8, 12))]


@pytest.mark.parametrize(
    ("name", "mapping", "steps"),
    [
        ("philly-csv", None, ["comparing rows", "writing w.parquet"]),
        ("csv", "columns: {job_id: id}", ["comparing job_id", "writing w.parquet"]),
    ],
)
def test_what_follows_the_reading_of_a_table_is_told_part_by_part(
    name: str, mapping: str | None, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100 rows in parts of 10, and row groups of 10: each step is told in ten portions.
    monkeypatch.setattr(rows, "PART_ROWS", 10)
    monkeypatch.setattr(store, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(meter, "BYTES_PER_MB", 1)
    trace, options = tmp_path / "trace.csv", ConvertOptions()
    if mapping is None:
        lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
        lines += [f"2017-11-05 02:{i // 60:02}:{i % 60:02},10.0,1,10.0,vc" for i in range(100)]
    else:
        (tmp_path / "map.yaml").write_text(mapping)
        options = ConvertOptions(mapping=tmp_path / "map.yaml")
        lines = ["id,submit_s,duration_s,num_gpus", *(f"j{i},{i},10,1" for i in range(100))]
    trace.write_text("\n".join(lines) + "\n")
    told: Told = []
    convert(
        name,
        [trace],
        tmp_path / "w.parquet",
        options=options,
        progress=lambda *now: told.append(now),
    )
    size = trace.stat().st_size
    for place, step in enumerate(steps, start=1):
        done = [now for now, total, what in told if what == step]
        assert done[0] == size * place
        assert done[-1] == size * (place + 1)
        assert len(done) == 11
    assert {total for _, total, what in told if what in steps} == {3 * size}
