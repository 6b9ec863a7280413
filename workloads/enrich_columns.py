"""The columns of an enrichment that are drawn, and those that follow from the row and the draws.

A draw is keyed by seed, column, vc and trace_order.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.loss import last_epoch_with_drop
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from workloads.draws import Draw, Multiple, Uniform, choose, ends, numbers, texts
from workloads.job_profiles import SMOOTH
from workloads.schema import BY_NAME, SCHEMA
from workloads.training_draws import BY_ROW, GIVEN, Family, TrainingDraws


def drawn_columns(frame: pl.DataFrame, draws: TrainingDraws, streams: Streams) -> pl.DataFrame:
    """The columns to fill, `samples` apart, in the order of the frame's rows."""
    entity = _entities(frame)
    weights = [family.weight for family in draws.families]
    of_job, _ = choose(weights, streams.uniforms("enrich-model", *entity))
    parts = []
    for index, family in enumerate(draws.families):
        rows = np.flatnonzero(of_job == index)
        keys = tuple(part[rows] for part in entity)
        uniform = {name: streams.uniforms(f"enrich-{name}", *keys) for name in family.columns}
        columns = _family_columns(frame[rows], family, uniform)
        ordered = {name: columns[name] for name in SCHEMA if name in columns}
        parts.append(pl.DataFrame({"row": rows, **ordered}))
    return pl.concat(parts).sort("row").drop("row")


def _entities(frame: pl.DataFrame) -> tuple[IntArray, IntArray]:
    """What names a job for its draws: the checksum of its vc's name, and its order in the vc."""
    vcs = frame["vc"].unique()
    checksum = {vc: 0 if vc is None else zlib.crc32(vc.encode()) for vc in vcs}
    vc = frame["vc"].replace_strict(checksum, return_dtype=pl.Int64)
    return vc.to_numpy(), frame["trace_order"].to_numpy()


def _family_columns(
    frame: pl.DataFrame, family: Family, uniform: Mapping[str, FloatArray]
) -> dict[str, pl.Series]:
    """The columns of the jobs of one family."""
    plain = [name for name in family.columns if name not in BY_ROW]
    values: dict[str, FloatArray] = {}
    words: dict[str, list[str]] = {}
    for name in sorted(plain, key=lambda name: _is_multiple(family, name)):
        draw = family.columns[name]
        if BY_NAME[name].is_number:
            values[name] = numbers(draw, uniform[name], values)
        else:
            words[name] = texts(draw, uniform[name])
    workers, values["worker_gpu"] = _workers(frame, family.columns["worker_gpu"], uniform["worker_gpu"])
    values["num_workers"] = workers
    values["num_ps"] = _parameter_servers(workers, values, words)
    if "batch" in family.columns:
        values["batch"] = _batch(family, uniform["batch"], workers)
    values.update({name: workers for name in GIVEN if name in family.columns})
    if "loss_b0" in values:
        values["epochs"] = _epochs(values)
    columns = {name: pl.Series(found).cast(SCHEMA[name]) for name, found in values.items()}
    columns.update({name: pl.Series(found, dtype=pl.String) for name, found in words.items()})
    if family.name is not None:
        columns["model"] = pl.repeat(family.name, frame.height, dtype=pl.String(), eager=True)
    return columns


def _epochs(values: Mapping[str, FloatArray]) -> FloatArray:
    """Those to convergence, or as many as are trained of them; at least one."""
    curve = [values[name] for name in ("loss_b0", "loss_b1", "loss_threshold", "loss_patience")]
    nothing = np.zeros(len(curve[0]))
    converged = last_epoch_with_drop(*curve, *(values.get(name, nothing) for name in SMOOTH))
    return np.ceil(converged * values.get("trained_share", 1.0))


def _is_multiple(family: Family, name: str) -> bool:
    return isinstance(family.columns[name], Multiple)


def _workers(frame: pl.DataFrame, draw: Draw, uniform: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Number of workers and GPUs of each, (J,) each, whose product is the row's GPUs.

    The tasks of a gang that the trace tells apart are the workers. Else n whole GPUs are shared out among
    workers with as many each as the draw says, of those numbers that divide n, or one each if none does; and
    any other job is one worker.
    """
    gpus, tasks = frame["num_gpus"].to_numpy(), frame["num_tasks"].fill_null(0).to_numpy()
    workers = np.where(tasks > 0, tasks, 1).astype(np.float64)
    low, high = ends(draw)
    shared = (tasks == 0) & (gpus >= 1) & (gpus == np.floor(gpus))
    for n in np.unique(gpus[shared]):
        of_size = np.flatnonzero(shared & (gpus == n))
        each = np.arange(max(1, low), min(n, high) + 1)
        each = each[n % each == 0] if len(each) else np.array([])
        divisors = each if len(each) else np.array([1.0])
        workers[of_size] = n / divisors[np.floor(uniform[of_size] * len(divisors)).astype(np.int64)]
    return workers, gpus / workers


def _parameter_servers(
    workers: FloatArray, values: Mapping[str, FloatArray], words: Mapping[str, list[str]]
) -> FloatArray:
    """As many as the ratio asks for; none in a ring, and where the profile knows no ratio."""
    if "workers_per_ps" not in values:
        return np.zeros(len(workers))
    servers = np.ceil(workers / values["workers_per_ps"])
    ring = np.array(words["exchange"], dtype=np.str_) == Exchange.ALL_REDUCE.name.lower()
    return np.where(ring, 0.0, servers)


def _batch(family: Family, uniform: FloatArray, workers: FloatArray) -> FloatArray:
    """Samples of a step, at least one for each worker."""
    draw = family.columns["batch"]
    if isinstance(draw, Uniform):
        drawn = draw.at(uniform, np.clip(workers, draw.low, draw.high))
    else:
        drawn = numbers(draw, uniform, {})
    return np.maximum(drawn, workers)
