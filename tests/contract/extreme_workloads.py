"""Workloads at the ends of what the checks of workload files accept, for jobs of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.registry import kinds_for
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster, ServerKind, memory_mib
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import MAX_TIME_S
from tests.worlds import availability, cluster_of
from workloads.checks import check_frame
from workloads.job_table import frame_to_table
from workloads.schema import LEAST, MAX_COUNT, MAX_MB, MAX_WHOLE, SCHEMA, with_all_columns

TINY, HUGE_S = 5e-324, float(MAX_TIME_S)
"""The smallest numbers above 0 that a column takes, and the longest time."""

Columns = Mapping[str, object]

ORDINARY: Columns = {
    "num_gpus": 1.0, "duration_s": 200.0, "priority": 1, "cpu_per_task": 1.0, "vc": "a", "user": "u",
    "chunks": 2, "epochs": 2, "minibatches_per_chunk": 3, "minibatch_s": 10.0, "gradient_mb": 50.0,
    "bandwidth_mbps": 1000.0, "upload_edge_s": 5.0, "upload_cloud_s": 50.0, "exchange": "sync",
    "samples": 640.0, "batch": 64, "sample_s": 0.1, "internal_bandwidth_mbps": 1e5,
    "step_s": 0.05, "workers_per_ps": 2,
    "num_workers": 2, "num_ps": 1, "worker_gpu": 1.0, "worker_cpu": 1.0, "ps_cpu": 1.0, "model": "ctc",
    "utility_max": 10.0, "utility_decay_per_s": 0.01, "utility_due_s": 300.0, "loss_b0": 0.4, "loss_b1": 1.0,
    "loss_b2": 0.1, "loss_noise": 0.005, "loss_threshold": 0.01, "loss_patience": 2, "blocks": "900 2*64",
    "value": "deadline 3 600", "outlook": "0:60:0.5 0:180:0.5",
}  # fmt: skip
"""Columns of a job that every kind of world takes."""

ONE_JOB: Mapping[str, Columns] = {
    "a run of a microsecond": {
        "duration_s": 1e-6, "samples": 1e-6, "minibatch_s": 1e-6, "outlook": "0:0.000001:1", "step_s": 0.0,
    },
    "a run of no time": {
        "duration_s": 0.0, "samples": 0.0, "minibatch_s": 0.0, "gradient_mb": 0.0, "outlook": "0:0:1",
    },
    "the longest run": {"duration_s": HUGE_S, "outlook": f"0:{HUGE_S:.0f}:1"},
    "the longest mini-batch": {"minibatch_s": HUGE_S / 64, "sample_s": 1e3},
    "the largest gang": {"num_gpus": float(MAX_COUNT), "num_workers": MAX_COUNT, "num_ps": MAX_COUNT},
    "as many GPUs as there are": {"num_gpus": 8.0, "num_workers": 8},
    "next to no GPU": {"num_gpus": 1e-9, "worker_gpu": 1e-9},
    "no demand": {"num_gpus": 0.0, "cpu_per_task": 0.0, "worker_gpu": 0.0, "worker_cpu": 0.0, "ps_cpu": 0.0},
    "the largest demand": {"cpu_per_task": float(MAX_COUNT), "worker_cpu": float(MAX_COUNT)},
    "next to no samples": {"samples": TINY},
    "the most samples": {"samples": float(MAX_WHOLE), "sample_s": LEAST},
    "the shortest sample": {"sample_s": LEAST},
    "the longest sample": {"sample_s": HUGE_S},
    "a batch of one": {"batch": 1},
    "the largest batch": {"batch": MAX_COUNT},
    "no gradient": {"gradient_mb": 0.0},
    "the largest gradient": {"gradient_mb": float(MAX_MB)},
    "the slowest link": {"bandwidth_mbps": 2**-10, "internal_bandwidth_mbps": 2**-10},
    "the fastest link": {"bandwidth_mbps": float(MAX_MB), "internal_bandwidth_mbps": float(MAX_MB)},
    "a parameter server for all": {"workers_per_ps": MAX_COUNT},
    "the longest steps": {"step_s": HUGE_S, "step_s_per_worker": HUGE_S, "step_s_per_ps": HUGE_S},
    "a ring": {"exchange": "all_reduce", "num_ps": 0},
    "asynchronous": {"exchange": "async"},
    "the most epochs": {"epochs": MAX_COUNT, "minibatch_s": 0.001},
    "many chunks": {"chunks": 300},
    "worth nothing": {"utility_max": 0.0, "value": "deadline 0 1"},
    "worth next to nothing": {"utility_max": TINY, "value": "deadline 0.000000001 600"},
    "worth the most": {"utility_max": float(MAX_WHOLE), "value": "deadline 1000000000 600"},
    "worth that falls at once": {"utility_decay_per_s": float(MAX_COUNT), "utility_due_s": 0.0},
    "worth that never falls": {"utility_decay_per_s": 0.0, "utility_due_s": HUGE_S},
    "the flattest loss": {"loss_b0": LEAST, "loss_b1": float(MAX_COUNT), "loss_threshold": LEAST},
    "the steepest loss": {"loss_b0": float(MAX_COUNT), "loss_b1": LEAST, "loss_noise": float(MAX_COUNT)},
    "the most patience": {"loss_patience": MAX_COUNT, "loss_drop": 1 - LEAST, "loss_drop_epoch": MAX_COUNT},
    "the highest priority": {"priority": MAX_WHOLE},
    "the longest uploads": {"upload_edge_s": HUGE_S, "upload_cloud_s": HUGE_S},
    "an uncertain arrival": {"outlook": f"0:60:0.000001 0:{HUGE_S:.0f}:0.999999"},
    "born long before": {"birth_s": -HUGE_S, "outlook": f"{HUGE_S:.0f}:60:1"},
}  # fmt: skip
"""Columns of one job, or of all, beside ordinary ones."""


def _jobs(n: int, submit_s: Callable[[int], float], columns: Columns, everyone: bool) -> pl.DataFrame:
    """Jobs of which the first, or all, have these columns."""
    rows = [
        {**ORDINARY, **(columns if everyone or i == 0 else {}), "job_id": f"j{i}", "trace_order": i,
         "submit_s": submit_s(i)}
        for i in range(n)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema={name: SCHEMA[name] for name in rows[0]}, strict=False)
    return with_all_columns(frame)


TWO = cluster_of([4, 4], vc=["a", "a"], cpu=[16, 16])
CLUSTERS: Mapping[str, Cluster] = {
    "one server": cluster_of([8], vc=["a"], cpu=[16]),
    "a server of nothing": cluster_of([4, 0], vc=["a", "a"], cpu=[16, 0]),
    "servers without GPUs": cluster_of([0, 0], vc=["a", "a"], cpu=[16, 16]),
    "servers of nothing": cluster_of([0, 0], vc=["a", "a"], cpu=[0, 0]),
    "servers that never come": replace(TWO, availability=availability([(0, 0, False), (0, 1, False)])),
    "the slowest servers": cluster_of([4, 4], vc=["a", "a"], speed=[1e-6, 1e-6], cpu=[16, 16]),
    "a cloud": replace(TWO, kind=(ServerKind.EDGE, ServerKind.CLOUD), worker_memory=memory_mib([0.0, None])),
}

Case = tuple[pl.DataFrame, Cluster]


def cases() -> dict[str, Case]:
    """Workloads, all of them accepted by the checks of workload files, and their servers, by name."""
    by_name: dict[str, Case] = {}
    for name, columns in ONE_JOB.items():
        by_name[name] = _jobs(4, lambda i: 30.0 * i, columns, everyone=False), TWO
        by_name[f"{name}, every job"] = _jobs(3, lambda i: 30.0 * i, columns, everyone=True), TWO
    by_name["one job"] = _jobs(1, lambda _: 0.0, {}, everyone=True), TWO
    by_name["all at one instant"] = _jobs(200, lambda _: 7.0, {}, everyone=True), TWO
    by_name["submitted at the last instant"] = _jobs(2, lambda i: i * HUGE_S, {}, everyone=True), TWO
    by_name["a microsecond apart"] = _jobs(40, lambda i: i * 1e-6, {}, everyone=True), TWO
    for name, cluster in CLUSTERS.items():
        by_name[name] = _jobs(4, lambda i: 30.0 * i, {}, everyone=True), cluster
    for name, (frame, _) in by_name.items():
        check_frame(frame, name)
    return by_name


def worlds(policy: type[Policy], case: Case) -> Iterator[World]:
    """Worlds of ten slots, one for each kind of jobs of the policy, without those refused by name."""
    frame, cluster = case
    table = frame_to_table(frame, cluster.resources)
    for kind in kinds_for(policy.schedules):
        params = {"truth": kind.truth, "slot_s": 3600, "horizon_s": 36_000}
        with suppress(InvalidInputError):
            yield build_world(table, cluster, params=params)
