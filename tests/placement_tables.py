"""Placement tables from and to rows, for expected values in tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ray_sim.model.progress_rule import PlacementTable


def table_of(rows: Iterable[Sequence[int]]) -> PlacementTable:
    """Placements from rows of job, server, role, count."""
    return PlacementTable(*np.array(list(rows), dtype=np.int64).reshape(-1, 4).T.copy())


def rows_in(table: PlacementTable) -> list[list[int]]:
    """Rows of job, server, role, count."""
    rows: list[list[int]] = np.stack([table.job, table.server, table.role, table.count], axis=1).tolist()
    return rows
