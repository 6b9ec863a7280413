"""Small worlds of elastic jobs on which every policy must hold its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ray_sim.contract.rigid_worlds import (
    FIRST_FAILS,
    SLOT_S,
    TYPED,
    Job,
    cluster,
    failing,
    job_table,
    longer,
    with_types,
)
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.cluster import Cluster, LinkChanges
from ray_sim.model.interference import PARTS, InterferenceProfile
from ray_sim.model.job import BlockProfile, Exchange, JobTable, LossProfile, TrainingProfile, UtilityProfile
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray

RESOURCES = ("gpu", "cpu")
_RESTARTS = {"restart_cost_s": 7.0}
_VARIANTS: tuple[Mapping[str, object], ...] = (
    {"truth": "placement"},
    {
        "truth": "placement",
        "nic": "per_server",
        "parameter_blocks": "mxnet",
        "data_move_s": 4.0,
        "straggler_probability": 0.1,
        "straggler_every_s": 90.0,
    },
    {"truth": "pd_ors"},
)
"""Facts of the worlds of seeds 0, 1, 2; the second has slow workers and unevenly loaded servers."""
_SLOWING = 1
"""The variant in which jobs slow each other and links slow down where servers fail."""
_HORIZON = {"horizon_s": 14 * SLOT_S + 1.0}
_MODELS = ("ctc", "vgg-16")
"""Types of the bundled interference profiles, so that policies that know types by name know these."""
_BLOCKS = ((900_000, 400_000, 64, 64), (3_000_000, 1000, 1000))


def _servers(
    gpus: Sequence[int], cpus: Sequence[int], vcs: Sequence[str], speeds: Sequence[float]
) -> Cluster:
    capacity = 1000 * np.stack([gpus, cpus], axis=1).astype(np.int64)
    return replace(cluster(gpus, vcs, speeds), resources=RESOURCES, capacity=capacity)


def _training(n: int, seed: int, exchanges: Sequence[Exchange]) -> TrainingProfile:
    """Some hundred steps of about a second; gangs of one to four workers; parameter servers without GPUs."""
    draw = Streams(seed).generator("contract-training")
    exchange = draw.choice(np.array(exchanges, dtype=np.int64), n)
    batch = draw.choice([4.0, 32.0, 64.0], n)
    no_gpu = np.zeros(n, dtype=np.int64)
    return TrainingProfile(
        exchange=exchange,
        epochs=draw.integers(1, 11, n).astype(np.float64),
        samples=batch * draw.integers(5, 40, n),
        batch=batch,
        sample_s=draw.choice([0.5, 1.0, 1.7], n) / batch,
        gradient_mb=draw.choice([0.0, 50.0, 250.0], n),
        bandwidth_mbps=draw.choice([1000.0, 5120.0], n),
        internal_bandwidth_mbps=np.full(n, 1e5),
        step_s=np.full(n, 0.05),
        step_s_per_worker=np.full(n, 0.01),
        step_s_per_ps=np.full(n, 0.01),
        workers_per_ps=draw.choice([1.0, 1.0, 2.0, 3.0], n),
        num_workers=draw.choice([1, 2, 2, 4], n),
        num_ps=np.where(exchange == Exchange.ALL_REDUCE, 0, draw.choice([1, 2], n)),
        worker_demand=1000 * np.stack([draw.choice([0, 1, 1, 2], n), draw.integers(1, 4, n)], axis=1),
        ps_demand=1000 * np.stack([no_gpu, draw.integers(1, 3, n)], axis=1),
        model=np.arange(n) % len(_MODELS),
        model_names=_MODELS,
    )


def _losses(n: int) -> LossProfile:
    values = {
        "loss_b0": 0.4,
        "loss_b1": 1.0,
        "loss_b2": 0.1,
        "loss_noise": 0.005,
        "loss_threshold": 0.01,
        "loss_patience": 2.0,
        "loss_drop": 0.5,
        "loss_drop_epoch": 3.0,
    }
    return LossProfile(**{name: np.full(n, value) for name, value in values.items()})


def _elastic(jobs: Sequence[Job], training: TrainingProfile) -> JobTable:
    """The jobs with a training profile; what one task demands counts where jobs are rigid only."""
    n = len(jobs)
    return replace(
        job_table(jobs),
        resources=RESOURCES,
        demand=np.full((n, len(RESOURCES)), 1000, dtype=np.int64),
        training=training,
        loss=_losses(n),
        blocks=BlockProfile(_BLOCKS, np.arange(n) % len(_BLOCKS)),
    )


def _world(
    table: JobTable,
    servers: Cluster,
    partition: Partition = "none",
    params: Mapping[str, object] | None = None,
) -> World:
    facts: dict[str, object] = {"truth": "placement", "slot_s": SLOT_S, **(params or {})}
    return build_world(table, servers, partition=partition, params=facts)


def _busy(n: int, seed: int) -> tuple[JobTable, Cluster, dict[str, object]]:
    variant = _VARIANTS[seed % len(_VARIANTS)]
    vcs = ["a", "a", "a", "b", "b", "b", "a"]
    servers = _servers([4, 4, 8, 2, 4, 4, 0], [16, 8, 24, 8, 16, 12, 16], vcs, [1, 1, 1, 0.5, 1, 1, 2])
    draw = Streams(seed).generator("contract-elastic-jobs")
    submit = np.cumsum(draw.integers(0, 20, n)).tolist()
    lengths = np.ceil(draw.exponential(150.0, n)).tolist()
    vc = draw.choice(["a", "b"], n).tolist()
    jobs: list[Job] = list(zip(submit, [1] * n, lengths, vc, strict=True))
    ring = [] if variant["truth"] == "pd_ors" else [Exchange.ALL_REDUCE]
    profile = _training(n, seed, [Exchange.SYNC, Exchange.SYNC, Exchange.ASYNC, *ring])
    return _elastic(jobs, profile), servers, {**_RESTARTS, **variant}


def _unsteady(servers: Cluster, seed: int) -> Cluster:
    """The servers, which fail; in one variant jobs on them slow each other, and their links slow down."""
    if seed % len(_VARIANTS) == _SLOWING:
        servers = replace(servers, interference=_interference(), links=_links(len(servers), seed))
    return failing(servers, seed)


def _interference() -> InterferenceProfile:
    """Two models: each slows itself more than the other."""
    load = np.array([[PARTS // 2, 0], [PARTS // 10, PARTS // 4]])
    return InterferenceProfile(
        name="contract",
        channels=("cpu", "nic"),
        between_sockets=np.zeros(2, dtype=np.bool_),
        types=_MODELS,
        worker_load=load,
        ps_load=load // 2,
        sensitivity=np.array([[0.1, 0.0], [0.05, 0.1]]),
    )


def _links(servers: int, seed: int) -> LinkChanges:
    """Twenty changes within the first minutes."""
    draw = Streams(seed).generator("contract-links")
    return LinkChanges(
        time_us=np.sort(draw.integers(0, 900 * US_PER_S, 20)),
        server=draw.integers(0, servers, 20),
        bandwidth=draw.choice([0.5, 1.0], 20),
    )


def busy_elastic(n: int = 60, seed: int = 0, *, partition: Partition = "none") -> World:
    """Seven servers, one without GPUs, two virtual clusters, three speeds, queueing, restarts that cost.

    Seed 1 has workers that become slow, data that move and models in blocks, seed 2 the truth of PD-ORS.
    """
    table, servers, facts = _busy(n, seed)
    return _world(table, servers, partition, facts)


def failing_elastic(n: int = 60, seed: int = 0) -> World:
    """The busy world, whose servers go every few minutes, come back, and leave jobs at a checkpoint.

    Seed 1 has interference and slow links too.
    """
    table, servers, facts = _busy(n, seed)
    return _world(table, _unsteady(servers, seed), params={**facts, "checkpoint_s": 60.0})


def busy_bounded(n: int = 30, seed: int = 0, *, partition: Partition = "none") -> World:
    """The busy world with fewer jobs, which are worth something, and a horizon that not all can meet."""
    table, servers, facts = _busy(n, seed)
    return _world(_worthy(table, seed), servers, partition, {**facts, **_HORIZON})


def failing_bounded(n: int = 30, seed: int = 0) -> World:
    """The same with servers that go and come back."""
    table, servers, facts = _busy(n, seed)
    return _world(_worthy(table, seed), _unsteady(servers, seed), params={**facts, **_HORIZON})


def _worthy(table: JobTable, seed: int) -> JobTable:
    """The jobs with utilities that fall at once, slowly or never."""
    draw, n = Streams(seed).generator("contract-utility"), len(table)
    utility = UtilityProfile(
        utility_max=draw.choice([1.0, 10.0, 100.0], n),
        utility_decay_per_s=draw.choice([0.0, 0.01, 0.1], n),
        utility_due_s=draw.choice([60.0, 300.0], n),
    )
    return replace(table, utility=utility)


class _Ask(NamedTuple):
    """Demand of every job of an edge case, in milli-GPU and milli-CPU."""

    workers: int = 2
    ps: int = 1
    workers_per_ps: float = 1.0
    worker: tuple[int, int] = (1000, 1000)
    server: tuple[int, int] = (0, 1000)
    samples: float = 500.0


def elastic_edge_cases() -> dict[str, World]:
    """Worlds that trip careless policies, by what is special about them; in all of them every job can end."""
    two = _servers([4, 4], [8, 8], ["a", "a"], [1, 1])
    no_gpu = _servers([0, 0], [8, 8], ["a", "a"], [1, 1])
    first_fails = replace(two, availability=FIRST_FAILS)
    some: list[Job] = [(float(at), 1, 100.0, "a") for at in (0, 0, 61, 61, 200)]
    cases: dict[str, tuple[list[Job], Cluster, _Ask]] = {
        "no job": ([], two, _Ask()),
        "one job": (some[:1], two, _Ask()),
        "a gang larger than the cluster": (some, two, _Ask(workers=9)),
        "a bundle larger than any server": (some, two, _Ask(workers_per_ps=10.0)),
        "tasks that fit on different servers only": (some, two, _Ask(workers=1, worker=(4000, 8000))),
        "workers larger than any server": (some, two, _Ask(worker=(5000, 1000))),
        "no parameter server": (some, two, _Ask(ps=0)),
        "a resource that no server has": (some, no_gpu, _Ask()),
        "tasks that demand nothing": (some, two, _Ask(worker=(0, 0), server=(0, 0))),
        "tasks that demand nothing on a server that fails": (
            some,
            first_fails,
            _Ask(worker=(0, 0), server=(0, 0)),
        ),
        "all at once": ([(3.0, 1, 100.0, "a")] * 20, two, _Ask()),
        "no samples": (some, two, _Ask(samples=0.0)),
    }
    worlds = {
        name: _world(_identical_jobs(jobs, ask), servers) for name, (jobs, servers, ask) in cases.items()
    }
    stranded: list[Job] = [(0.0, 1, 100.0, "a"), (0.0, 1, 100.0, "nowhere"), (1.0, 1, 100.0, "a")]
    worlds["a vc without servers"] = _world(_identical_jobs(stranded, _Ask()), two, "vc")
    worlds[TYPED] = with_types(busy_elastic(12))
    return worlds


def bounded_edge_cases() -> dict[str, World]:
    """The same with utilities and a horizon."""
    return {
        name: _world(_worthy(world.table, 0), world.cluster, world.partition, _HORIZON)
        for name, world in elastic_edge_cases().items()
    }


def _identical_jobs(jobs: Sequence[Job], ask: _Ask) -> JobTable:
    """Jobs that ask for the same, and otherwise train as the contract draws."""
    n = len(jobs)
    exchange = Exchange.SYNC if ask.ps > 0 else Exchange.ALL_REDUCE
    profile = replace(
        _training(n, 0, [exchange]),
        num_workers=np.full(n, ask.workers),
        num_ps=np.full(n, ask.ps),
        workers_per_ps=np.full(n, ask.workers_per_ps),
        worker_demand=np.tile(ask.worker, (n, 1)).astype(np.int64),
        ps_demand=np.tile(ask.server, (n, 1)).astype(np.int64),
        samples=np.full(n, ask.samples),
    )
    return _elastic(jobs, profile)


def with_more_samples(world: World, jobs: BoolArray) -> World:
    """The same world with longer run times and more samples of these jobs."""
    facts = ElasticFacts.in_world(world)
    profile = replace(facts.profile, samples=longer(facts.profile.samples, jobs, 64))
    table = replace(world.table, work_us=longer(world.table.work_us, jobs, 3 * US_PER_S), training=profile)
    return replace(world, table=table, facts=replace(facts, profile=profile))
