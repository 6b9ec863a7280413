"""A whole training: from a plan to the files of its directory, in this process or with actors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ray_sim.experiments.fanout.connection import check_address
from ray_sim.learning.collection import Collected, Collectors, Guide, LocalCollectors, Unit
from ray_sim.learning.curves import Point
from ray_sim.learning.ray_collectors import ray_collectors
from ray_sim.learning.setting import setting_of
from ray_sim.learning.trainer import Setting, Trainer
from ray_sim.learning.training_directory import TrainingDirectory
from ray_sim.learning.training_plan import TrainingPlan


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Result of a training."""

    name: str
    directory: str
    rounds: int
    planned: int
    resumed: int
    """Rounds that were done before."""
    best_round: int | None
    best_jct_s: float | None
    samples: int
    """Actions collected by this call."""
    collecting_s: float
    seconds: float
    deaths: int
    """Actors that died, whose units were collected again."""
    stopped: bool
    """Whether it was asked to stop before its end."""

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return asdict(self)


def run_training(
    plan: TrainingPlan,
    directory: Path,
    *,
    command: str,
    actors: int | None = None,
    address: str = "local",
    resume: bool = False,
    report: Callable[[Point], None] = lambda point: None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
) -> TrainingReport:
    """Run a training, or with ``resume`` its remaining rounds; the same plan gives the same bytes either way.

    Parameters
    ----------
    command : that makes the checkpoint again; it is kept in checkpoints
    actors : 0 collects in this process, without Ray; None starts one for each core of the Ray at the address
    report : called with the point of each round
    stop : called after each round; once it returns True, what is done is kept

    Raises
    ------
    InvalidInputError : a part of the plan is not possible, the directory is in use or has another training
    RunFailedError : a loss is not finite, or Ray or its actors died; the state of the last round is kept
    """
    check_address(address)
    began = time.perf_counter()
    setting = setting_of(plan)
    trainer = Trainer(setting)
    files = TrainingDirectory(directory, setting, command)
    with files.open(resume):
        files.restore(trainer)
        resumed, samples, collecting_s, deaths = trainer.round, 0, 0.0, 0
        if not trainer.done:
            with _collectors(setting, directory, actors, address, announce) as inner:
                collectors = _Timed(inner)
                for _ in range(resumed, plan.rounds):
                    point = trainer.do_round(collectors)
                    files.save(trainer)
                    samples += point.samples
                    report(point)
                    if stop():
                        break
                collecting_s, deaths = collectors.seconds, collectors.deaths
        seconds = time.perf_counter() - began
        files.finish(trainer, {"all": seconds, "collecting": collecting_s})
    best = trainer.best
    return TrainingReport(
        name=plan.name,
        directory=str(directory),
        rounds=trainer.round,
        planned=plan.rounds,
        resumed=resumed,
        best_round=None if best is None else best.round,
        best_jct_s=None if best is None else best.jct_s,
        samples=samples,
        collecting_s=collecting_s,
        seconds=seconds,
        deaths=deaths,
        stopped=not trainer.done,
    )


class _Timed:
    """Collectors with a clock."""

    def __init__(self, inner: Collectors) -> None:
        self._inner = inner
        self.seconds = 0.0

    @property
    def deaths(self) -> int:
        """Actors that died so far."""
        return self._inner.deaths

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """See `Collectors.collect`."""
        began = time.perf_counter()
        found = self._inner.collect(units, guide)
        self.seconds += time.perf_counter() - began
        return found


@contextmanager
def _collectors(
    setting: Setting, directory: Path, actors: int | None, address: str, announce: Callable[[str], None]
) -> Iterator[Collectors]:
    if actors == 0:
        yield LocalCollectors(setting.collection)
        return
    words = (
        "error: this process was ended from outside, or by Ray, whose processes have died; the training is "
        f"kept in {directory}: go on with the same command and --resume"
    )
    with ray_collectors(setting.collection, actors, address, words, announce) as collectors:
        yield collectors
