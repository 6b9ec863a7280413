"""Snapshot file of a run, from which `ray-sim run --resume` continues."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ray_sim.engine.states import State
from ray_sim.experiments.run_identity import RunIdentity, versions
from ray_sim.model.array_file import arrays_sha256, read_arrays
from ray_sim.model.errors import InvalidInputError
from workloads.files import replacing
from workloads.sources import require_regular

_CONTENT = "content_hash"
_SCENARIO = "scenario_hash"
_VERSIONS = "versions"
_SEAL = "sha256"
START_ANEW = "leave out --resume to start from the beginning"


class SnapshotFile:
    """The last snapshot of a run, in a file beside the directory of its result.

    The file holds arrays and the hashes of its run. A snapshot of another scenario, or of another version of
    an input, is refused; a snapshot of other code is ignored, and the run starts from the beginning.
    """

    def __init__(
        self,
        directory: Path,
        identity: RunIdentity,
        *,
        every_s: float,
        resume: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        # A policy may change the working directory while the run goes on.
        self.path = directory.absolute().with_name(f"{directory.name}.snapshot.npz")
        self._identity = identity
        self._say = say
        self._resume = resume
        self._every_s = every_s
        self._stopping = stopping
        self._saved_at = time.monotonic()

    def load(self) -> State | None:
        """Load the snapshot to continue from; None if there is none or `resume` is off."""
        if not self._resume or not self.path.exists():
            return None
        require_regular(self.path, InvalidInputError)
        state = read_arrays(self.path)
        if state is None or str(state.pop(_SEAL, "")) != arrays_sha256(state):
            raise InvalidInputError(f"{self.path}: is not a snapshot, or damaged; {START_ANEW}")
        content_hash, scenario_hash, made_with = (
            str(state.pop(key, "")) for key in (_CONTENT, _SCENARIO, _VERSIONS)
        )
        if scenario_hash != self._identity.scenario_hash:
            raise InvalidInputError(f"{self.path}: is of another scenario or input; {START_ANEW}")
        if content_hash != self._identity.content_hash:
            self._say(f"{self.path}: is of other code; the run starts from the beginning")
            return None
        if made_with != _versions_text():
            self._say(f"{self.path}: is of other versions: {made_with}; now {_versions_text()}")
        return state

    def due(self) -> bool:
        """Whether to save a snapshot: every `every_s` seconds, and when the run must stop."""
        return self._stopping() or time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: State) -> None:
        """Replace the snapshot atomically."""
        about = {
            _CONTENT: self._identity.content_hash,
            _SCENARIO: self._identity.scenario_hash,
            _VERSIONS: _versions_text(),
        }
        arrays = {**state, **{key: np.array(text) for key, text in about.items()}}
        with replacing(self.path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays, **{_SEAL: np.array(arrays_sha256(arrays))})
        self._saved_at = time.monotonic()

    def stopping(self) -> bool:
        """Whether the run must stop."""
        return self._stopping()

    def remove(self) -> None:
        """Remove the file, because the run has ended or starts from the beginning."""
        self.path.unlink(missing_ok=True)


def _versions_text() -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions().items()))
