"""Actions per second of wall time that Ray actors collect in a training. Arguments: rounds, trials."""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import chdir
from pathlib import Path

from benchmarks.children import answer
from ray_sim.experiments.fanout import cluster
from ray_sim.learning.collection import Guide, Unit
from ray_sim.learning.ray_collectors import RayCollectors
from ray_sim.learning.setting import setting_of
from ray_sim.learning.trainer import Setting, Trainer
from ray_sim.learning.training_plan import read_plan

_PLAN = Path(__file__).parents[1] / "docs/examples/harmony/default.yaml"

ACTORS = 1, 2


def samples_per_s(rounds: int, trials: int) -> dict[str, float]:
    """Medians over trials in turn, by the number of actors; starting actors is not timed."""
    with chdir(_PLAN.parent):  # it names files from there
        setting = setting_of(read_plan(_PLAN.name, {}))
    guide = Guide(Trainer(setting).parameters())
    found: dict[int, list[float]] = {actors: [] for actors in ACTORS}
    with cluster("local"):
        for _ in range(trials):
            for actors in ACTORS:
                found[actors].append(_rate(setting, guide, actors, rounds))
    return {str(actors): statistics.median(rates) for actors, rates in found.items()}


def _rate(setting: Setting, guide: Guide, actors: int, rounds: int) -> float:
    """Actions per second that new actors collect in this many rounds; the actors are ended afterwards."""
    collectors, units = RayCollectors(setting.collection, actors), setting.plan.collecting.units
    collectors.collect([Unit(0, number) for number in range(units)], guide)
    began = time.perf_counter()
    for number in range(1, rounds + 1):
        collectors.collect([Unit(number, unit) for unit in range(units)], guide)
    samples = rounds * units * setting.collection.lanes * setting.collection.steps
    return samples / (time.perf_counter() - began)


if __name__ == "__main__":
    answer(samples_per_s(*map(int, sys.argv[1:])))
