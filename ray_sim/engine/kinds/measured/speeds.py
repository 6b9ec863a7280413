"""Speeds of the jobs of one world on its GPU types, after the rules for gaps of a table of speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.kernels.core.measured_rates import ON_ONE, SPREAD
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.facts import WorldSetting
    from ray_sim.model.job import JobTable


@dataclass(frozen=True)
class JobSpeeds:
    """Steps per second of J jobs on the T GPU types of a cluster, in alphabetical order."""

    types: tuple[str, ...]
    of_server: IntArray
    """(S,) type of each server, -1 for none."""
    alone: FloatArray
    """(J, T, 2) `ON_ONE` server and `SPREAD` over several; 0 where a job cannot run."""
    key: IntArray
    """(J,) row of `shared`, -1 for jobs that share no GPU."""
    shared: FloatArray
    """(K, K, T) steps per second of the first of two jobs that share a GPU; 0 where they cannot."""
    packing: bool
    """Whether two jobs may share a GPU."""

    @property
    def fastest(self) -> FloatArray:
        """(J,) steps per second where a job is fastest; 0 where it runs nowhere."""
        fastest: FloatArray = self.best.max(axis=1, initial=0.0)
        return fastest

    @classmethod
    def of(cls, setting: WorldSetting) -> JobSpeeds:
        """Look up the jobs of a world in the table of speeds of its cluster.

        Raises
        ------
        InvalidScenarioError : there is no table, no GPU type, a server with a speed, or no model of jobs
        """
        table, cluster, values = setting.table, setting.cluster, setting.values
        if cluster.speeds is None:
            raise InvalidScenarioError(
                "truth=measured: needs a table of speeds; set speeds=gavel_simulation, or name a CSV file"
            )
        if table.measured is None:
            raise InvalidScenarioError(
                "truth=measured: no job of the workload has a model and steps; draw them by "
                "`ray-sim enrich --profile gavel_simulation`"
            )
        types = tuple(sorted({each for each in cluster.gpu_type if each}))
        measured = sorted({row.gpu_type for row in cluster.speeds.rows})
        if not set(types) & set(measured):
            raise InvalidScenarioError(
                f"speeds: {cluster.speeds.name} has the GPU types {', '.join(measured)}, and no server of "
                f"cluster {cluster.name} is of one of them (its types: {', '.join(types) or 'none'})"
            )
        if (wrong := np.flatnonzero(cluster.speed != 1.0)).size:
            raise InvalidScenarioError(
                f"speeds: server {cluster.server_names[int(wrong[0])]} of cluster {cluster.name} has speed "
                f"{cluster.speed[wrong[0]]:g}; with a table of speeds, leave out the speed of servers"
            )
        assert table.model is not None, "jobs with steps have models"
        alone = cluster.speeds.speeds(
            table.model.to_list(),
            table.measured.batch,
            _gpus(table),
            types,
            nearest=values["scale"] == "nearest",
        )
        on_one, spread = alone[:, :, ON_ONE], alone[:, :, SPREAD]
        if not values["consolidation"]:
            spread[:] = on_one
        elif values["unmeasured_spread"] == "consolidated":
            spread[:] = np.where(np.isnan(spread), on_one, spread)
        alone[np.isnan(table.measured.steps)] = 0.0
        number = {name: t for t, name in enumerate(types)}
        of_server = np.array([number.get(each or "", -1) for each in cluster.gpu_type], dtype=np.int64)
        key, shared = _pairs(setting, types)
        return cls(types, of_server, np.nan_to_num(alone), key, shared, bool(values["packing"]))

    def most_together(self) -> FloatArray:
        """(T,) K: largest sum of the relative speeds of two jobs that share a GPU, at least 1."""
        one = np.flatnonzero(self.key >= 0)
        largest = np.zeros((len(self.shared), len(self.types)))
        largest[self.key[one]] = self.best[one]
        part = np.divide(self.shared, largest[:, None], out=np.zeros_like(self.shared), where=self.shared > 0)
        most: FloatArray = (part + part.swapaxes(0, 1)).max(axis=(0, 1), initial=1.0)
        return most

    @cached_property
    def best(self) -> FloatArray:
        """(J, T) largest speed on each type, also beside another job."""
        best: FloatArray = self.alone.max(axis=2)
        one = self.key >= 0
        best[one] = np.maximum(best[one], self.shared.max(axis=1, initial=0.0)[self.key[one]])
        return best

    def order(self) -> IntArray:
        """(J, 2 T) speeds of each job as 2 t + `ON_ONE` or `SPREAD`, the fastest first; -1 for those of 0."""
        speeds = self.alone.reshape(len(self.alone), -1)
        order = np.argsort(-speeds, axis=1, kind="stable").astype(np.int64)
        return np.where(np.take_along_axis(speeds, order, axis=1) > 0, order, -1)


def _gpus(table: JobTable) -> IntArray:
    """(J,) GPUs of each whole job; 0 of jobs with a share of one."""
    milli = table.tasks * table.demand[:, GPU]
    return np.where(milli % DEVICE == 0, milli // DEVICE, 0)


def _pairs(setting: WorldSetting, types: Sequence[str]) -> tuple[IntArray, FloatArray]:
    """`JobSpeeds.key` and `JobSpeeds.shared`; none where no GPU is shared."""
    table, speeds = setting.table, setting.cluster.speeds
    assert table.model is not None
    assert table.measured is not None
    assert speeds is not None
    if not setting.values["packing"]:
        return np.full(len(table), -1), np.zeros((0, 0, len(types)))
    if not speeds.pairs:
        raise InvalidScenarioError(
            f"packing=true: {speeds.name} has no speeds of jobs that share a GPU; name them by pair_speeds, "
            "or leave it out"
        )
    one = np.flatnonzero((_gpus(table) == 1) & (table.tasks == 1) & ~np.isnan(table.measured.steps))
    batch = np.where(np.isnan(table.measured.batch), -1.0, table.measured.batch)
    keys = [(str(table.model[job]), float(batch[job])) for job in one.tolist()]
    number = {key: k for k, key in enumerate(sorted(set(keys)))}
    models, batches = [model for model, _ in number], np.array([batch for _, batch in number])
    both = np.nan_to_num(speeds.pair_speeds(models, np.where(batches < 0, np.nan, batches), types))
    shared = np.where(both.min(axis=2) > 0, both[:, :, 0], 0.0)
    of_job = np.full(len(table), -1)
    of_job[one] = [number[key] for key in keys]
    return of_job, shared
