"""The snapshot of a run in a file, from which `ray-sim run --resume` goes on."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ray_sim.engine.holdings import State
from ray_sim.model.errors import InvalidInputError
from workloads.files import replacing

_CONTENT = "content_hash"


class SnapshotFile:
    """Keeps the last snapshot of a run beside the directory of its result.

    The file holds arrays only, and the content hash of its scenario: a snapshot of another scenario,
    or of another version of an input, is refused.
    """

    def __init__(
        self,
        directory: Path,
        content_hash: str,
        *,
        every_s: float,
        resume: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path = directory.with_name(f"{directory.name}.snapshot.npz")
        self._content_hash = content_hash
        self._resume = resume
        self._every_s = every_s
        self._stopping = stopping
        self._saved_at = time.monotonic()

    def load(self) -> State | None:
        """The snapshot to go on from; None where there is none, or none is asked for.

        Raises
        ------
        InvalidInputError : the file is damaged or belongs to another scenario
        """
        if not self._resume or not self.path.exists():
            return None
        advice = "leave out --resume to start anew"
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                state = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidInputError(f"{self.path}: is not a snapshot, or damaged; {advice}") from error
        if str(state.pop(_CONTENT, "")) != self._content_hash:
            raise InvalidInputError(f"{self.path}: is of another scenario, input or version; {advice}")
        return state

    def due(self) -> bool:
        """Once in a while, and when the run is to stop."""
        return self._stopping() or time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: State) -> None:
        """Keep a snapshot instead of the one before; the file is whole at any moment."""
        with replacing(self.path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **{_CONTENT: np.array(self._content_hash), **state})
        self._saved_at = time.monotonic()

    def stopping(self) -> bool:
        """Whether the run is to stop."""
        return self._stopping()

    def remove(self) -> None:
        """The run has ended, or starts anew."""
        self.path.unlink(missing_ok=True)
