"""Small worlds of announced jobs on which every policy for them must hold its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.contract.rigid_worlds import SLOT_S, EdgeCase, Job, cluster, job_table, longer
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import parse_outlook
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray
from ray_sim.model.value_function import parse_value

SIGNALS = ("none", "partial", "full")

_VALUES = ("deadline 3 600", "step 8@300 4@600 1@900", "deadline 1 240", "deadline 5 1200")
_OUTLOOKS = (
    "0:60:0.5 0:180:0.5",
    "60:120:1",
    "0:60:0.25 60:240:0.25 120:60:0.5",
    "120:300:0.5 0:300:0.125 0:60:0.375",
)


def announced(table: JobTable, seed: int = 0) -> JobTable:
    """The jobs, announced at their submission; each comes and runs as one point of its outlook says."""
    draw, n = Streams(seed).generator("contract-statements"), len(table)
    outlooks = tuple(parse_outlook(text) for text in _OUTLOOKS)
    row = draw.integers(0, len(outlooks), n)
    points = [int(draw.choice(len(outlooks[k].probability), p=outlooks[k].probability)) for k in row]
    came = [outlooks[k].arrival_after_s[i] for k, i in zip(row, points, strict=True)]
    ran = [outlooks[k].duration_s[i] for k, i in zip(row, points, strict=True)]
    value = draw.integers(0, len(_VALUES), n)
    profile = StatementProfile(
        birth_us=table.submit_us.copy(),
        arrival_us=table.submit_us + np.array(came, dtype=np.int64) * US_PER_S,
        values=tuple(parse_value(text) for text in _VALUES),
        value_row=value,
        outlooks=outlooks,
        outlook_row=row,
        reported_value_row=value.copy(),
        reported_outlook_row=row.copy(),
        reported_gpus=table.num_gpus.copy(),
    )
    return replace(table, work_us=np.array(ran, dtype=np.int64) * US_PER_S, statements=profile)


def _world(table: JobTable, servers: Cluster, params: Mapping[str, object] | None = None) -> World:
    facts = {"truth": "announced", "slot_s": SLOT_S, "horizon_s": 36_000, **(params or {})}
    return build_world(table, servers, params=facts)


def busy_announced(n: int = 60, seed: int = 0, *, partition: Partition = "none") -> World:
    """Seven servers with fewer GPUs than all jobs want; announced jobs have no partitions."""
    draw = Streams(seed).generator("contract-announced-jobs")
    submit = np.cumsum(draw.integers(0, 50, n)).tolist()
    jobs: list[Job] = [(float(at), int(draw.choice([1, 1, 2, 3])), 60.0, "a") for at in submit]
    signal = SIGNALS[(seed + (partition == "vc")) % len(SIGNALS)]
    servers = cluster([2, 1, 1, 2, 1, 1, 2], ["a"] * 7)
    return _world(announced(job_table(jobs), seed), servers, {"signal": signal})


def misreporting(seed: int = 0) -> World:
    """The busy world of other jobs, in which half of the users misreport."""
    world = busy_announced(seed=seed + 1)
    rule = ("value", "deadline", "collapsed", "gpus")[seed % 4]
    return _world(world.table, world.cluster, {"misreport": rule, "misreport_share": 0.5, "signal": "full"})


def announced_edge_cases() -> dict[str, EdgeCase]:
    """Worlds that trip careless policies, by what is special about them."""
    servers = cluster([4, 4], ["a", "a"])
    cases: dict[str, Sequence[Job]] = {
        "no job": [],
        "one job": [(5.0, 2, 60.0, "a")],
        "all at once": [(3.0, 1 + i % 4, 60.0, "a") for i in range(20)],
    }
    return {name: (_world(announced(job_table(jobs)), servers), False) for name, jobs in cases.items()}


def with_longer_durations(world: World, jobs: BoolArray) -> World:
    """The same world with longer durations of these jobs."""
    facts = AnnouncedFacts.in_world(world)
    duration = longer(facts.statements.duration, jobs, 3)
    return replace(world, facts=replace(facts, statements=replace(facts.statements, duration=duration)))
