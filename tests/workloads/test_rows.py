from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.philly_csv import write_philly_csv
from workloads import rows
from workloads.convert import convert
from workloads.formats import text
from workloads.rows import in_order, repeated, repeats
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
        parts = list(in_order(frame.lazy(), frame.height))
    assert pl.concat(parts).equals(frame.sort(SORT_KEY, maintain_order=True))


@given(keys=st.lists(st.tuples(st.none() | st.integers(0, 3), st.sampled_from("ab")), max_size=30))
def test_repeats_are_what_an_earlier_row_has_too(keys: list[tuple[int | None, str]]) -> None:
    frame = pl.DataFrame(
        {"a": [a for a, _ in keys], "b": [b for _, b in keys]}, schema={"a": pl.Int64, "b": pl.String}
    )
    again = [key in keys[:place] for place, key in enumerate(keys)]
    assert repeated(frame, ["a", "b"]).to_list() == again
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PART_ROWS", 4)
        found = repeats(
            frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).lazy(), ["a", "b"]
        )
    assert sorted(found) == [place for place, is_again in enumerate(again) if is_again]
