"""The snapshot of a run in a file, from which `ray-sim run --resume` goes on."""

from __future__ import annotations

import hashlib
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ray_sim.engine.placements import State
from ray_sim.experiments.content import Content, versions
from ray_sim.model.errors import InvalidInputError
from workloads.files import replacing
from workloads.sources import require_regular

_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,  # a member that is said to be encrypted, or packed in a way that Python does not know
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_CONTENT = "content_hash"
_SCENARIO = "scenario_hash"
_VERSIONS = "versions"
_SEAL = "sha256"


class SnapshotFile:
    """Keeps the last snapshot of a run beside the directory of its result.

    The file holds arrays only, and the hashes of its run: a snapshot of another scenario, or of another
    version of an input, is refused; one of other code is left aside, and the run starts anew.
    """

    def __init__(
        self,
        directory: Path,
        content: Content,
        *,
        every_s: float,
        resume: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path = directory.with_name(f"{directory.name}.snapshot.npz")
        self._content = content
        self._say = say
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
        require_regular(self.path, InvalidInputError)
        advice = "leave out --resume to start anew"
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                state = {name: arrays[name] for name in arrays.files}
            whole = str(state.pop(_SEAL, "")) == _sha256(state)
        except _UNREADABLE as error:
            raise InvalidInputError(f"{self.path}: is not a snapshot, or damaged; {advice}") from error
        if not whole:
            raise InvalidInputError(f"{self.path}: is not a snapshot, or damaged; {advice}")
        content_hash, scenario_hash, made_with = (
            str(state.pop(key, "")) for key in (_CONTENT, _SCENARIO, _VERSIONS)
        )
        if scenario_hash != self._content.scenario_hash:
            raise InvalidInputError(f"{self.path}: is of another scenario or input; {advice}")
        if content_hash != self._content.content_hash:
            self._say(f"{self.path}: is of other code; the run starts anew")
            return None
        if made_with != _versions_text():
            self._say(f"{self.path}: is of other versions: {made_with}; now {_versions_text()}")
        return state

    def due(self) -> bool:
        """Once in a while, and when the run is to stop."""
        return self._stopping() or time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: State) -> None:
        """Keep a snapshot instead of the one before; the file is whole at any moment."""
        about = {
            _CONTENT: self._content.content_hash,
            _SCENARIO: self._content.scenario_hash,
            _VERSIONS: _versions_text(),
        }
        arrays = {**state, **{key: np.array(text) for key, text in about.items()}}
        with replacing(self.path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays, **{_SEAL: np.array(_sha256(arrays))})
        self._saved_at = time.monotonic()

    def stopping(self) -> bool:
        """Whether the run is to stop."""
        return self._stopping()

    def remove(self) -> None:
        """The run has ended, or starts anew."""
        self.path.unlink(missing_ok=True)


def _versions_text() -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions().items()))


def _sha256(arrays: State) -> str:
    """Of names, types, shapes and values: a zip file's own checksums miss an array that is gone."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
