from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.formats.philly_csv_writer import write_philly_csv
from workloads import rows
from workloads.convert import convert
from workloads.formats import text
from workloads.rows import computed, in_order, repeated, repeats, slices_in_order
from workloads.schema import SORT_KEY
from workloads.synthetic.synth import synth


@pytest.mark.slow
@pytest.mark.parametrize("form", ["philly-csv", "csv"])
def test_a_trace_larger_than_memory_gives_the_same_bytes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "trace.csv"
    frame, _ = synth("philly", 3000, seed=1)
    if form == "philly-csv":
        write_philly_csv(frame, source)
    else:  # in no order, and 30 jobs a second time
        columns = frame.select("job_id", "submit_s", "vc", "num_gpus", "duration_s")
        pl.concat([columns.reverse(), columns.head(30)]).write_csv(source)
    at_once = convert(form, [source], tmp_path / "at_once.parquet")
    monkeypatch.setattr(rows, "PART_ROWS", 100)
    monkeypatch.setattr(text, "HELD_BYTES", 0)
    in_parts = convert(form, [source], tmp_path / "in_parts.parquet")
    assert in_parts.out.read_bytes() == at_once.out.read_bytes()
    assert (in_parts.read, in_parts.rejected, in_parts.notes) == (
        at_once.read,
        at_once.rejected,
        at_once.notes,
    )
    assert in_parts.rejects is not None
    assert at_once.rejects is not None


@given(
    times=st.lists(st.integers(0, 5).map(float) | st.floats(0, 1e9), min_size=1, max_size=40),
    part_rows=st.integers(1, 50),
)
def test_parts_in_order_are_the_whole_in_order(times: list[float], part_rows: int) -> None:
    frame = pl.DataFrame({"submit_s": times, "trace_order": range(len(times))}).with_columns(vc=pl.lit("a"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PART_ROWS", part_rows)
        with TemporaryDirectory() as folder:
            parts = list(in_order(frame.lazy(), frame.height, Path(folder)))
            assert not any(Path(folder).iterdir())
        slices = list(slices_in_order(frame))
    assert pl.concat(parts).equals(frame.sort(SORT_KEY, maintain_order=True))
    assert pl.concat(slices).equals(pl.concat(parts))
    assert max(part.height for part in slices) <= part_rows


def test_ties_stay_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rows, "PART_ROWS", 50)
    frame = pl.DataFrame({"submit_s": [float(7 * row % 10) for row in range(1000)], "row": range(1000)})
    parts = list(in_order(frame.lazy(), frame.height, tmp_path, ["submit_s"]))
    assert len(parts) == 10
    assert pl.concat(parts).equals(frame.sort("submit_s", maintain_order=True))
    assert pl.concat(slices_in_order(frame, ["submit_s"])).equals(pl.concat(parts))


def _counted(frame: pl.DataFrame) -> tuple[pl.LazyFrame, list[int]]:
    """Rows that are computed anew at each pass over them, and the number of rows computed, pass by pass."""
    passes: list[int] = []

    def count(here: pl.DataFrame) -> pl.DataFrame:
        passes.append(here.height)
        return here

    return frame.lazy().map_batches(count, streamable=False), passes


@pytest.mark.parametrize("parts", [2, 40])
def test_the_passes_over_all_rows_do_not_grow_with_the_parts(
    parts: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rows, "PART_ROWS", 50)
    count = 50 * parts
    frame = pl.DataFrame({"submit_s": np.random.default_rng(1).random(count), "row": range(count)})
    lazy, passes = _counted(frame)
    assert pl.concat(in_order(lazy, count, tmp_path)).height == count
    assert passes == [count, count]  # a sample, and the parts
    lazy, passes = _counted(frame)
    assert repeats(lazy, ["submit_s"], tmp_path).is_empty()
    assert passes == [count, count]  # their number, and the parts
    lazy, passes = _counted(frame)
    assert computed(lazy, count, tmp_path, "rows").collect().equals(frame)
    assert passes == [count]


@given(keys=st.lists(st.tuples(st.none() | st.integers(0, 3), st.sampled_from("ab")), max_size=30))
def test_repeats_are_what_an_earlier_row_has_too(keys: list[tuple[int | None, str]]) -> None:
    frame = pl.DataFrame(
        {"a": [a for a, _ in keys], "b": [b for _, b in keys]}, schema={"a": pl.Int64, "b": pl.String}
    )
    again = [key in keys[:place] for place, key in enumerate(keys)]
    assert repeated(frame, ["a", "b"]).to_list() == again
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PART_ROWS", 4)
        numbered = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).lazy()
        with TemporaryDirectory() as folder:
            found = repeats(numbered, ["a", "b"], Path(folder))
    assert sorted(found) == [place for place, is_again in enumerate(again) if is_again]
