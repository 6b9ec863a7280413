"""Directory of a training: its state after each round, checkpoints, curves and facts.

| file | content |
|---|---|
| ``state.npz`` | all that later rounds depend on, without pickles |
| ``checkpoint.npz`` | the policy network with the least mean JCT in validation |
| ``last.npz`` | the policy network after the last round |
| ``curves.parquet`` | a row for each round |
| ``training.json`` | the plan, its digest, versions, seconds |
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ray_sim.experiments.results.result_directories import locked, require_lasting_directory, unwritable
from ray_sim.experiments.results.result_files import checksummed_json
from ray_sim.experiments.results.training_files import CURVES, FORMAT, TRAINING
from ray_sim.experiments.run_identity import versions
from ray_sim.learning.trainer import Setting, Trainer
from ray_sim.learning.update import TrainingDivergedError
from ray_sim.model.array_file import arrays_sha256, misfit, read_arrays
from ray_sim.model.errors import InvalidInputError, failure_text
from ray_sim.policies.harmony.architecture import F32
from ray_sim.policies.harmony.checkpoint import Checkpoint, Header
from workloads.files import replacing
from workloads.sources import require_regular

STATE = "state.npz"
CHECKPOINT = "checkpoint.npz"
LAST = "last.npz"
_PLAN, _SEAL = "plan_sha256", "arrays_sha256"


class TrainingDirectory:
    """Files of one training; each appears whole or not at all."""

    def __init__(self, root: Path, setting: Setting, command: str) -> None:
        """See `TrainingDirectory.open`.

        Parameters
        ----------
        command : that makes the checkpoint again
        """
        self.root, self._setting, self._command = root, setting, command

    @contextmanager
    def open(self, resume: bool) -> Iterator[None]:
        """Create the directory, and lock it for one training.

        Raises
        ------
        InvalidInputError : it has a training and ``resume`` is off, it is in use, or it cannot be written
        """
        require_lasting_directory(self.root)
        if not resume and (self.root / STATE).exists():
            raise InvalidInputError(
                f"{self.root}: has a training already; go on with --resume, or choose another -o"
            )
        try:
            with locked(self.root, "another training is writing there; wait for it"):
                yield
        except OSError as error:
            raise unwritable(self.root, error) from error

    def restore(self, trainer: Trainer) -> None:
        """Continue from the state, if there is one.

        Raises
        ------
        InvalidInputError : it is damaged, or of another plan
        """
        path = self.root / STATE
        if not path.exists():
            return
        require_regular(path, InvalidInputError)
        state = read_arrays(path)
        if state is None or not {_PLAN, _SEAL} <= state.keys():
            raise InvalidInputError(f"{path}: {_DAMAGED}")
        plan, seal = str(state.pop(_PLAN)), str(state.pop(_SEAL))
        if seal != arrays_sha256(state):
            raise InvalidInputError(f"{path}: {_DAMAGED}")
        if plan != self._setting.plan.digest:
            raise InvalidInputError(
                f"{path}: is of another plan or version of ray-sim; give the file that began it, or choose "
                "another -o"
            )
        try:
            if (difference := misfit(state, trainer.state())) is not None:
                raise ValueError(difference)
            trainer.restore(state)
        except (
            *(ArithmeticError, LookupError, RuntimeError, TypeError, ValueError),
            TrainingDivergedError,
        ) as failure:
            raise InvalidInputError(f"{path}: {_DAMAGED} ({failure_text(failure)})") from failure

    def save(self, trainer: Trainer) -> None:
        """Keep the state, and after a validation the checkpoints."""
        state = trainer.state()
        about = {_PLAN: np.array(self._setting.plan.digest), _SEAL: np.array(arrays_sha256(state))}
        with replacing(self.root / STATE) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **state, **about)
        best = trainer.best
        if best is not None and best.round == trainer.round - 1:
            self._write(CHECKPOINT, self._checkpoint(best.parameters, best.round, best.jct_s))

    def finish(self, trainer: Trainer, seconds: Mapping[str, float]) -> None:
        """Write the last network, the curves and the facts.

        Parameters
        ----------
        seconds : wall-clock seconds by name
        """
        last = list(trainer.curves)[-1]
        jct_s = None if np.isnan(last.validation_jct_s) else last.validation_jct_s
        self._write(LAST, self._checkpoint(trainer.parameters(), last.round, jct_s))
        best = trainer.best
        if best is not None:
            self._write(CHECKPOINT, self._checkpoint(best.parameters, best.round, best.jct_s))
        table = io.BytesIO()
        trainer.curves.frame().write_parquet(table)
        self._write(CURVES, table.getvalue())
        plan = self._setting.plan
        names = [CURVES, LAST, *([CHECKPOINT] if best is not None else [])]
        facts = {
            "format": FORMAT,
            "name": plan.name,
            "command": self._command,
            "plan": plan.model_dump(mode="json"),
            "plan_sha256": plan.digest,
            "models": list(self._setting.collection.models),
            "rounds": trainer.round,
            "best_round": None if best is None else best.round,
            "best_jct_s": None if best is None else best.jct_s,
            "seconds": dict(seconds),
            "versions": versions(),
            "files": {name: hashlib.sha256((self.root / name).read_bytes()).hexdigest() for name in names},
        }
        self._write(TRAINING, checksummed_json(facts))

    def _checkpoint(self, parameters: Mapping[str, F32], round_number: int, jct_s: float | None) -> bytes:
        plan, collection = self._setting.plan, self._setting.collection
        sizes = collection.architecture
        header = Header(
            form=sizes.form,
            models=list(collection.models),
            resources=list(collection.episodes[0].world.cluster.resources),
            servers=sizes.servers,
            most_jobs=sizes.most_jobs,
            most_new=sizes.most_new,
            block=sizes.block,
            hidden=list(sizes.hidden),
            training={
                "command": self._command,
                "name": plan.name,
                "seed": plan.seed,
                "plan_sha256": plan.digest,
                "round": round_number,
                "validation_jct_s": jct_s,
            },
        )
        return Checkpoint(header, parameters).to_bytes()

    def _write(self, name: str, content: bytes) -> None:
        with replacing(self.root / name) as temporary:
            temporary.write_bytes(content)


_DAMAGED = "is no state of a training, or damaged; begin again with another -o"
