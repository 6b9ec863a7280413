"""A scenario prepared to run: commands, sweeps, plans, environments and `ray_sim.run` run it by `prepare`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import Progress
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import GeneralRun, run_world
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.snapshots import Keeper
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.server_files import split_world
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.run_identity import Base, HashedInputs, RunIdentity
from ray_sim.experiments.scenario import Scenario, StreamSpec, SynthSpec, WorkloadSpec
from ray_sim.experiments.source_digest import imported_sha256, input_files_sha256
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, InvalidWorkloadError
from ray_sim.model.figures import AnnouncedFigures
from ray_sim.model.job import JobTable
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.units import IntArray
from ray_sim.model.welfare_audit import AuditRequest
from ray_sim.policies.registry import create_policy
from ray_sim.user_code import contained
from workloads.job_table import frame_to_table
from workloads.layers.fill import enriched
from workloads.realisation import Tally
from workloads.realisation import realise as realise_frame
from workloads.stream import ArrivalOrder, draw_order, rows_of_order, stream_jobs
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.job_model import fit
from workloads.synthetic.synth import draw, profile_model


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobs of a run, and the counts of the jobs that the realisation left out."""

    table: JobTable
    tally: Tally
    servers: IntArray | None = None
    """(S,) numbers of the servers in the order that breaks ties; None is that of the cluster."""


class Offer(NamedTuple):
    """Facts of a cluster on which a workload depends: its resources; of a stream also GPUs and servers."""

    resources: tuple[str, ...]
    gpu_milli: int = 0
    servers: int = 0


def offer_of(spec: WorkloadSpec, cluster: Cluster) -> Offer:
    """The offer; equal for clusters that a workload does not tell apart."""
    if spec.stream is None:
        return Offer(cluster.resources)
    gpu_milli = int(cluster.capacity[:, cluster.resources.index("gpu")].sum())
    return Offer(cluster.resources, gpu_milli, len(cluster))


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A result with the identity of its run and its wall-clock seconds."""

    identity: RunIdentity
    tally: Tally
    result: RunResult
    wall_s: Mapping[str, float]
    directory: Path | None = None
    """Directory that has its files; None where they are not written."""

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def __repr__(self) -> str:
        return f"{self.result!r}\n{'directory':<28}  {self.directory or 'none'}"

    def files(self) -> dict[str, bytes]:
        """The run's files by name, see `encode_result`."""
        manifest = {**self.identity.manifest(), "jobs": asdict(self.tally)}
        return encode_result(self.result, manifest, self.wall_s)


class Prepared:
    """Identity, servers, jobs and world of a scenario, each computed when it is first asked for, once.

    Those that are known already can be assigned first.
    """

    def __init__(self, scenario: Scenario, inputs: HashedInputs, base: Base | None = None) -> None:
        self.scenario = scenario
        self._inputs = inputs
        self._base = base

    @cached_property
    def identity(self) -> RunIdentity:
        """Identity of the run."""
        return self._inputs.identify(self.scenario)

    @cached_property
    def cluster(self) -> Cluster:
        """Servers, with the facts that the world names by file."""
        return self._inputs.servers(self.scenario.cluster, self.scenario.world)

    @cached_property
    def jobs(self) -> Replayed:
        """Jobs of the scenario's seed."""
        spec, seed = self.scenario.workload, self.scenario.seed
        return realise(spec, seed, self._base or self._inputs.base(spec), offer_of(spec, self.cluster))

    @cached_property
    def world(self) -> World:
        """The world of the engine."""
        order = self.jobs.servers
        cluster = self.cluster if order is None else self.cluster.in_order(order)
        return world_of(self.scenario, self.jobs.table, cluster)

    def run(
        self, progress: Progress | None = None, keeper: Keeper | None = None, label: str = "run"
    ) -> FinishedRun:
        """Simulate the scenario; actors need a running Ray, and their names begin with ``label``."""
        scenario, identity = self.scenario, self.identity
        began = time.perf_counter()
        tally = self.jobs.tally
        read = time.perf_counter()
        world = self.world
        if scenario.audit is not None:
            from ray_sim.experiments.announced_audit import check_audited

            check_audited(world)
        trim = None if scenario.trim is None else scenario.trim.trim
        seed, sites = scenario.seed, scenario.sites
        new_policy = partial(_identified_policy, identity)
        with contained(f"policy '{scenario.policy}'"):
            if scenario.fleet == "actors":
                from ray_sim.engine.actors.scheduler import run_on_actors

                result = run_on_actors(
                    world, new_policy, seed=seed, sites=sites, trim=trim, progress=progress, keeper=keeper,
                    label=label,
                )  # fmt: skip
            else:
                result = run_world(
                    world, new_policy(), seed=seed, sites=sites, trim=trim, progress=progress, keeper=keeper
                )
            if scenario.audit is not None:
                result = audited(world, new_policy, result, scenario.audit.request, seed, trim)
        wall_s = {"read": read - began, "simulate": time.perf_counter() - read}
        return FinishedRun(identity, tally, result, wall_s)


def prepare(scenario: Scenario, inputs: HashedInputs | None = None, base: Base | None = None) -> Prepared:
    """Prepare a scenario to run; its parts raise the errors of their inputs when they are asked for.

    Parameters
    ----------
    inputs : files and policies that several scenarios share
    base : the workload before a seed is applied, where several seeds share it; see `HashedInputs.base`
    """
    return Prepared(scenario, inputs or HashedInputs(), base)


def world_of(scenario: Scenario, table: JobTable, cluster: Cluster) -> World:
    """The world of a scenario with these jobs and servers."""
    params, _ = split_world(scenario.world)
    return build_world(table, cluster, partition=scenario.partition, params=params)


def start(scenario: Scenario, world: World) -> None:
    """Set up the general loop up to its first decision, for the errors that the engine and the policy raise.

    Raises
    ------
    InvalidInputError : the policy does not go with this kind of job or this world
    RunFailedError : the policy fails to start
    """
    if scenario.audit is not None:
        from ray_sim.experiments.announced_audit import check_audited

        check_audited(world)
    with contained(f"policy '{scenario.policy}'"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the run gives them
        policy = create_policy(scenario.policy, scenario.params)
        GeneralRun(world, policy, seed=scenario.seed, fleet=LocalFleet(world, scenario.sites))


def realise(spec: WorkloadSpec, seed: int, base: Base, offer: Offer) -> Replayed:
    """Realise the jobs of one seed, from a file or synthetic, as the workload specifies."""
    try:
        jobs = base.frame if spec.synth is None else _drawn(spec.synth, seed, base)
        assert jobs is not None, "a workload without `synth` has a `path`"
        frame, tally = realise_frame(jobs, spec.realisation, seed, base.made)
        servers, listed = None, None
        if spec.stream is not None:
            listed = frame_to_table(frame, offer.resources)
            rows, servers = _arrivals(spec.stream, frame, seed, base, offer)
            frame = stream_jobs(frame, rows)
            tally = replace(tally, replayed=frame.height)
        if base.layers:
            frame, infeasible = enriched(frame, base.layers, seed)
            tally = replace(tally, infeasible=infeasible, replayed=frame.height)
    except InvalidInputError as error:
        raise InvalidWorkloadError(f"{spec.path or spec.label}: {error}") from error
    return Replayed(replace(frame_to_table(frame, offer.resources), listed=listed), tally, servers)


def _arrivals(spec: StreamSpec, frame: pl.DataFrame, seed: int, base: Base, offer: Offer) -> ArrivalOrder:
    """Rows of the frame in the order of arrival, and servers in the order that breaks ties."""
    if spec.load is not None:
        return draw_order(frame, spec.load, offer.gpu_milli, offer.servers, seed)
    seed = seed if spec.seed is None else spec.seed
    if seed not in base.orders:
        known = ", ".join(map(str, sorted(base.orders)))
        raise InvalidWorkloadError(f"{spec.order}: has no order of seed {seed}; its seeds: {known}")
    numbers, servers = base.orders[seed]
    if not np.array_equal(np.sort(servers), np.arange(offer.servers)):
        raise InvalidWorkloadError(
            f"{spec.order}: seed {seed}: expected each of the cluster's {offer.servers:,} servers once, as "
            f"a number from 0, found {len(servers):,} numbers; name the cluster of this order"
        )
    return ArrivalOrder(rows_of_order(frame, numbers), servers)


def _drawn(spec: SynthSpec, seed: int, base: Base) -> pl.DataFrame:
    """Draw the synthetic jobs of one seed."""
    request = spec.request
    if isinstance(request, HorizonRequest):
        assert base.draws is not None, "whole jobs are drawn from a training profile"
        return draw_jobs(base.draws, request, seed)[0]
    if base.frame is not None:
        return draw(fit(base.frame), request, seed)
    assert spec.profile is not None, "jobs are like a file's or have a profile"
    return draw(profile_model(spec.profile), request, seed)


def _identified_policy(identity: RunIdentity) -> Policy:
    """Create the policy of an identified scenario, and check that its files have not changed."""
    scenario = identity.scenario
    policy = create_policy(scenario.policy, identity.policy_params)
    if imported_sha256(type(policy)) != identity.facts["policy_source_sha256"]:
        changed = "its files on this machine are not"
    elif input_files_sha256(policy) != identity.facts.get("policy_files_sha256", {}):
        changed = "the files that its parameters name are not, on this machine,"
    else:
        return policy
    raise InvalidScenarioError(
        f"policy '{scenario.policy}': {changed} those that the run was planned with; run it again, and do "
        "not edit them while it runs"
    )


def audited(
    world: World,
    new_policy: Callable[[], Policy],
    result: RunResult,
    request: AuditRequest,
    seed: int,
    trim: Trim | None,
) -> RunResult:
    """The result with an audit in its summary."""
    from ray_sim.experiments.announced_audit import audit_run

    audit = audit_run(world, new_policy, result, request, seed=seed, trim=trim)
    figures = result.summary.figures_as(AnnouncedFigures)
    assert figures is not None, "an audit is about announced jobs"
    return replace(result, summary=replace(result.summary, figures=replace(figures, audit=audit)))
