"""Run one simulation: from Python with objects or names, or from a scenario."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from types import NoneType
from typing import TypedDict, get_args

import polars as pl

from ray_sim.engine.actors.scheduler import run_on_actors
from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.snapshots import Keeper
from ray_sim.engine.world import World
from ray_sim.experiments.announced_audit import audit_run, check_audited
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.server_files import split_world, with_server_files
from ray_sim.experiments.inputs.workload_draws import enriched, load_whole_draws, load_workload_layers
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.run_identity import HashedInputs, RunIdentity
from ray_sim.experiments.scenario import Partition, Scenario, SynthSpec, Value, WorkloadSpec
from ray_sim.experiments.source_digest import imported_sha256, input_files_sha256
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.arguments import expect
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, InvalidWorkloadError
from ray_sim.model.figures.announced import AnnouncedFigures
from ray_sim.model.job import JobTable
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.text import shown
from ray_sim.model.welfare_audit import AuditRequest
from ray_sim.policies.registry import create_policy
from ray_sim.progress import shown_progress
from ray_sim.reports.tables import summary_rows
from ray_sim.user_code import contained
from workloads.describe import tally_rows
from workloads.layers.fill import EnrichmentLayer
from workloads.provenance import Provenance
from workloads.realisation import Tally
from workloads.realisation import realise as realise_frame
from workloads.store import frame_to_table, load_workload, read_frame, read_provenance
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.fit import fit
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.synth import draw, profile_model
from workloads.training.profile import TrainingDraws
from workloads.workload import Workload

JobsProgress = Callable[[int, int], None]
"""Called with (jobs ended, jobs)."""


class _Options(TypedDict):
    seed: int
    sites: int
    trim: Trim | None
    progress: JobsProgress | None
    keeper: Keeper | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobs of a run, and the counts of the jobs that the realisation left out."""

    table: JobTable
    tally: Tally


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A result with the identity of its run and its wall-clock seconds."""

    identity: RunIdentity
    tally: Tally
    result: RunResult
    wall_s: Mapping[str, float]

    def files(self) -> dict[str, bytes]:
        """The run's files by name, see `encode_result`."""
        manifest = {**self.identity.manifest(), "jobs": asdict(self.tally)}
        return encode_result(self.result, manifest, self.wall_s)

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of the printed table."""
        return [*tally_rows(self.tally), *summary_rows(self.result.summary)]


@dataclass(frozen=True, slots=True)
class Base:
    """Source of a workload before a seed is applied."""

    frame: pl.DataFrame | None
    """Null where all jobs are drawn."""
    made: Provenance | None
    """Provenance of the file's jobs, null without one."""
    draws: TrainingDraws | None
    """Profile to draw whole jobs from; None where none is given."""
    layers: tuple[EnrichmentLayer, ...]
    """Profiles to draw columns from, in order."""


def simulate(
    workload: str | Path | Workload | JobTable,
    cluster: str | Path | Cluster,
    policy: str | Policy = "fifo",
    params: Mapping[str, Value] | None = None,
    *,
    world: Mapping[str, Value] | None = None,
    partition: Partition = "none",
    trim: Trim | None = None,
    audit: AuditRequest | None = None,
    seed: int = 0,
    sites: int = 1,
    progress: bool = True,
) -> RunResult:
    """Replay a workload on a cluster under a policy.

    Parameters
    ----------
    workload : path or URL of a Parquet workload, the workload itself, or its table
    cluster : name of a bundled description, path or URL of a YAML or CSV file, or the cluster
    policy : registered name, ``module:Class``, or a policy object of your own
    params : parameters of a policy given by name
    world : facts of the world, as `-w`; see docs/engine.md
    partition : ``vc`` confines a job to the servers labelled with its vc
    trim : which jobs the summary counts; all without it
    audit : size of the audit of announced jobs, for a policy given by name; none without it
    sites : groups of servers simulated apart; any number gives the same result
    progress : show the progress of a long run in a notebook or on a terminal

    Raises
    ------
    InvalidInputError : an input is invalid
    RunFailedError : the policy made a decision that the world forbids
    """
    expect("workload", workload, (str, Path, Workload, JobTable), "a path, a workload or its table")
    expect("cluster", cluster, (str, Path, Cluster), "a name, a path or a cluster")
    expect("params", params, (Mapping, NoneType), "a mapping from names to values")
    expect("world", world, (Mapping, NoneType), "a mapping from names to values")
    expect("trim", trim, (Trim, NoneType), "a `Trim`")
    expect("sites", sites, Integral, "a number of groups of servers")
    if partition not in get_args(Partition):
        known = " or ".join(get_args(Partition))
        raise InvalidScenarioError(f"partition: expected {known}, found {shown(partition)}")
    engine_world, files = split_world(world or {})
    servers = cluster if isinstance(cluster, Cluster) else load_cluster(str(cluster))
    servers = with_server_files(servers, files)
    facts = build_world(
        _job_table(workload, servers.resources), servers, partition=partition, params=engine_world
    )
    new_policy = _policy_maker(policy, params or {}, audit)
    if audit is not None:
        check_audited(facts)
    with shown_progress("simulate, jobs", progress) as report:
        result = run_world(facts, new_policy(), seed=seed, sites=sites, trim=trim, progress=report)
    return result if audit is None else _audited(facts, new_policy, result, audit, seed, trim)


def _job_table(workload: str | Path | Workload | JobTable, resources: tuple[str, ...]) -> JobTable:
    if isinstance(workload, JobTable):
        return workload
    return workload.table(resources) if isinstance(workload, Workload) else load_workload(workload, resources)


def _policy_maker(
    policy: str | Policy, params: Mapping[str, Value], audit: AuditRequest | None
) -> Callable[[], Policy]:
    """Maker of the policy: a new one at each call for a name, the object itself otherwise."""
    if isinstance(policy, str):
        return partial(create_policy, policy, params)
    if isinstance(policy, type):
        raise InvalidScenarioError(
            f"policy: expected a name or an object, found the class {policy.__name__}; call it, as in "
            f"{policy.__name__}()"
        )
    expect("policy", policy, Policy, "a name or a policy object")
    if params:
        raise InvalidScenarioError("params: only for a policy given by name; an object has its own already")
    if audit is not None:
        raise InvalidScenarioError("audit: only for a policy given by name; an object serves one run")
    return lambda: policy


def _audited(
    world: World,
    new_policy: Callable[[], Policy],
    result: RunResult,
    request: AuditRequest,
    seed: int,
    trim: Trim | None,
) -> RunResult:
    """The result with an audit in its summary."""
    audit = audit_run(world, new_policy, result, request, seed=seed, trim=trim)
    figures = result.summary.figures_as(AnnouncedFigures)
    assert figures is not None, "an audit is about announced jobs"
    figures = replace(figures, audit=audit)
    return replace(result, summary=replace(result.summary, figures=figures))


def run_scenario(
    scenario: Scenario,
    inputs: HashedInputs | None = None,
    progress: JobsProgress | None = None,
    keeper: Keeper | None = None,
) -> FinishedRun:
    """Identify, read, draw and simulate a scenario; a fleet of actors needs a running Ray."""
    began = time.perf_counter()
    inputs = inputs or HashedInputs()
    identity = inputs.identify(scenario)
    cluster = inputs.servers(scenario.cluster, scenario.world)
    jobs = realise(scenario.workload, scenario.seed, read_base(scenario.workload), cluster.resources)
    return carry_out(identity, jobs, cluster, progress, keeper, read_s=time.perf_counter() - began)


def read_base(spec: WorkloadSpec) -> Base:
    """Read the files of a workload, before a seed is applied."""
    return Base(
        frame=None if spec.file is None else read_frame(spec.file),
        made=None if spec.path is None else read_provenance(spec.path),
        draws=load_whole_draws(spec),
        layers=load_workload_layers(spec),
    )


def realise(spec: WorkloadSpec, seed: int, base: Base, resources: tuple[str, ...]) -> Replayed:
    """Realise the jobs of one seed, from a file or synthetic, as the workload specifies.

    Parameters
    ----------
    base : see `read_base`

    Raises
    ------
    InvalidWorkloadError : no job is left, or the workload cannot be realised as specified
    """
    try:
        jobs = base.frame if spec.synth is None else _drawn(spec.synth, seed, base)
        assert jobs is not None, "a workload without `synth` has a `path`"
        frame, tally = realise_frame(jobs, spec.realisation, seed, base.made)
        if base.layers:
            frame, infeasible = enriched(frame, base.layers, seed)
            tally = replace(tally, infeasible=infeasible, replayed=frame.height)
    except InvalidInputError as error:
        raise InvalidWorkloadError(f"{spec.path or spec.label}: {error}") from error
    return Replayed(frame_to_table(frame, resources), tally)


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
        raise InvalidScenarioError(
            f"policy '{scenario.policy}': its files on this machine are not those that the run was planned "
            "with; run it again, and do not edit them while it runs"
        )
    if input_files_sha256(policy) != identity.facts.get("policy_files_sha256", {}):
        raise InvalidScenarioError(
            f"policy '{scenario.policy}': the files that its parameters name are not, on this machine, those "
            "that the run was planned with; run it again, and do not edit them while it runs"
        )
    return policy


def carry_out(
    identity: RunIdentity,
    jobs: Replayed,
    cluster: Cluster,
    progress: JobsProgress | None = None,
    keeper: Keeper | None = None,
    read_s: float = 0.0,
) -> FinishedRun:
    """Simulate an identified scenario on given jobs and servers."""
    scenario = identity.scenario
    began = time.perf_counter()
    engine_world, _ = split_world(scenario.world)
    world = build_world(jobs.table, cluster, partition=scenario.partition, params=engine_world)
    new_policy = partial(_identified_policy, identity)
    if scenario.audit is not None:
        check_audited(world)
    options: _Options = {
        "seed": scenario.seed,
        "sites": scenario.sites,
        "trim": None if scenario.trim is None else scenario.trim.trim,
        "progress": progress,
        "keeper": keeper,
    }
    hashes = identity.content_hash, identity.seed, identity.scenario_hash
    with contained(f"policy '{scenario.policy}'"):
        if scenario.fleet == "actors":
            result = run_on_actors(world, new_policy, **options, label=Entry.of(scenario, *hashes).label)
        else:
            result = run_world(world, new_policy(), **options)
        if scenario.audit is not None:
            request = scenario.audit.request
            result = _audited(world, new_policy, result, request, options["seed"], options["trim"])
    wall_s = {"read": read_s, "simulate": time.perf_counter() - began}
    return FinishedRun(identity, jobs.tally, result, wall_s)
