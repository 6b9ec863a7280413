"""Choice among the records of one job: a trace in several dumps has one record in each.

Kept is a record that has ended rather than one that has not, then the longest, then the first. The readers of
tables, lists of pods and the Philly log call it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl
from pydantic import JsonValue

from workloads.progress import Portions
from workloads.rows import repeats
from workloads.status import endings

REASON = "duplicate_job_id"
"""Reject reason of the other records."""


class Replaced(NamedTuple):
    """Counts of first records that gave way to a later one, which has ended or is longer."""

    by_ended: int = 0
    by_longer: int = 0

    def notes(self) -> dict[str, JsonValue]:
        """Entries of the provenance; none without such records."""
        counts = {f"replaced_{name}_record": count for name, count in self._asdict().items()}
        return counts if any(self) else {}

    def warnings(self) -> tuple[str, ...]:
        """A sentence about them; none without such records."""
        text = f"a later one that has ended ({self.by_ended:,} jobs), or to a longer one ({self.by_longer:,})"
        return (f"{REASON}: a first record gave way to {text}",) if any(self) else ()


def keep_best(rows: pl.LazyFrame, folder: Path, compared: Portions) -> tuple[pl.LazyFrame, Replaced]:
    """Give all but the best of the sound rows with one job_id the reason `REASON`.

    Parameters
    ----------
    rows : `row`, `job_id`, `duration_s`, `reason`, and `status` where the trace has one
    folder : for temporary files, which are removed
    compared : called after each portion of the rows
    """
    sound = rows.filter(pl.col("reason").is_null())
    later = repeats(sound, ["job_id"], folder, compared)
    if later.is_empty():
        return rows, Replaced()
    has_status = "status" in rows.collect_schema().names()
    ended = endings(pl.col("status")).is_not_null() if has_status else pl.lit(value=False)
    names = sound.filter(pl.col("row").is_in(later.implode())).select("job_id").unique()
    facts = sound.join(names, on="job_id", how="semi").select("row", "job_id", "duration_s", ended=ended)
    same = facts.sort("row").collect(engine="streaming")
    ranked = same.sort("ended", "duration_s", "row", descending=[True, True, False])
    first, best = (each.unique("job_id", keep="first", maintain_order=True) for each in (same, ranked))
    replaced = first.join(best, on="job_id", suffix="_best").filter(pl.col("row") != pl.col("row_best"))
    by_ended = replaced.filter(pl.col("ended") != pl.col("ended_best")).height
    others = same.join(best, on="row", how="anti")["row"]
    why = pl.when(pl.col("row").is_in(others.implode())).then(pl.lit(REASON))
    rows = rows.with_columns(reason=pl.coalesce("reason", why))
    return rows, Replaced(by_ended, replaced.height - by_ended)
