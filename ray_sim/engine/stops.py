"""Stops: ends of a job's holding before its completion.

The policy, lost servers and faults (`ray_sim.engine.faults`) stop jobs; the `StopLog` of a run lists all
stops. A lost server stops no chunked job, which only loses the chunks that were there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ray_sim.engine.states import State, within
from ray_sim.model.result import STOP_SCHEMA
from ray_sim.model.units import IntArray, us_to_seconds

if TYPE_CHECKING:
    from ray_sim.engine.world import World

SERVER = "server"
"""Reason of stops of jobs that lose a server."""

_LOG = ("time_us", "job", "attempt", "by", "lost_us", "reason")


class StopLog:
    """Stops of one run, in the order in which they happened."""

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._words: dict[str, int] = {}

    def add(
        self,
        now_us: int,
        jobs: IntArray,
        attempt: IntArray,
        reason: Sequence[str],
        lost_us: IntArray | int = 0,
        by: IntArray | int = -1,
    ) -> None:
        """Append stops of ``jobs``, (n,); `attempt` counts from 0, `by` is -1 for none."""
        words = [self._words.setdefault(word, len(self._words)) for word in reason]
        rows = np.empty((len(jobs), len(_LOG)), dtype=np.int64)
        for number, column in enumerate((now_us, jobs, attempt, by, lost_us, words)):
            rows[:, number] = column
        self._rows.append(rows)

    @property
    def rows(self) -> dict[str, IntArray]:
        """Columns of all stops, (n,) each; `reason` is an index into `words`."""
        rows = np.concatenate(self._rows) if self._rows else np.empty((0, len(_LOG)), dtype=np.int64)
        return dict(zip(_LOG, rows.T, strict=True))

    @property
    def words(self) -> list[str]:
        """Reasons by index."""
        return list(self._words)

    def table(self, world: World) -> pl.DataFrame:
        """The stops with the columns of `STOP_SCHEMA`."""
        rows, ids = self.rows, pl.concat([world.table.job_id, pl.Series([None], dtype=pl.String())])
        columns: dict[str, pl.Series | np.ndarray] = {
            "time_s": us_to_seconds(rows["time_us"] + world.table.origin_us),
            "job_id": ids[rows["job"]],
            "attempt": rows["attempt"] + 1,
            "reason": pl.Series(self.words, dtype=pl.String())[rows["reason"]],
            "by": ids[rows["by"]],
            "lost_s": us_to_seconds(rows["lost_us"]),
        }
        return pl.DataFrame(
            [pl.Series(name, columns[name], dtype=kind) for name, kind in STOP_SCHEMA.items()]
        )

    def clear(self) -> None:
        """Forget all."""
        self._rows, self._words = [], {}

    def state(self) -> State:
        """Arrays that `restore` takes."""
        text = "\n".join(self._words).encode()
        return {
            "rows": np.stack(list(self.rows.values()), axis=1),
            "words": np.frombuffer(text, dtype=np.uint8),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        words = state["words"].tobytes().decode().split("\n")
        within({"rows": state["rows"][:, -1]}, "rows", 0, len(words) - 1)
        self._rows = [state["rows"].copy()]
        self._words = {word: number for number, word in enumerate(words) if word}
