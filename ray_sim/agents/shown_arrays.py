"""Arrays in which a round shows its observation; both rounds share how they are filled and handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ray_sim.agents.features import ACTION_MASK, F32, times
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import I8

TIMES = ("waited_s", "duration_s")
"""Entries that are computed when an observation is asked for; kernels keep the others up to date."""


class ShownArrays:
    """Entries of an observation by name, and the mask of valid actions."""

    def __init__(
        self, names: Sequence[str], arrays: dict[str, Any], fields: Mapping[str, str], scaled: bool
    ) -> None:
        """Show the entries of these names.

        Parameters
        ----------
        arrays : fields of a kernel's board; ``job`` and ``mask`` among them
        fields : entries whose field has another name
        scaled : show log10(1 + s) instead of s
        """
        self._arrays, self._scaled = arrays, scaled
        self._field = {name: fields.get(name, name) for name in names if name not in TIMES}
        rows = len(arrays["job"])
        self.entries: dict[str, F32] = {
            name: arrays[self._field[name]] if name in self._field else np.zeros(rows, np.float32)
            for name in names
        }

    @property
    def mask(self) -> I8:
        """(actions,) 1 where an action is valid; not to be written to."""
        mask: I8 = self._arrays["mask"]
        return mask

    def fill_times(self, view: View, rows: int) -> None:
        """Set the times of the jobs in the first ``rows`` rows, and 0 in the others."""
        jobs = self._arrays["job"][:rows]
        for name in self.entries.keys() - self._field.keys():
            us = view.now_us - view.jobs.submit_us[jobs] if name == "waited_s" else view.jobs.work_us[jobs]
            self.entries[name][:rows] = times(us, self._scaled)
            self.entries[name][rows:] = 0.0

    def copies(self) -> dict[str, F32 | I8]:
        """The entries by name, and the mask; the arrays belong to the caller."""
        seen: dict[str, F32 | I8] = {name: array.copy() for name, array in self.entries.items()}
        seen[ACTION_MASK] = self.mask.copy()
        return seen

    def move_to(self, arrays: Mapping[str, F32 | I8]) -> None:
        """Show everything in these arrays by name instead; boards made before are stale."""
        for name in self.entries:
            self.entries[name] = cast("F32", arrays[name])
        self._arrays |= {field: self.entries[name] for name, field in self._field.items()}
        self._arrays["mask"] = arrays[ACTION_MASK]

    def clear(self) -> None:
        """Show nothing, with no valid action."""
        for array in self.entries.values():
            array[:] = 0.0
        self.mask[:] = 0
