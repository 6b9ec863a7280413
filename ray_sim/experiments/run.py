"""Run one simulation: of objects or names from Python, or of a prepared scenario into a directory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from types import NoneType
from typing import get_args

from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import Progress
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.snapshots import UnfitSnapshotError
from ray_sim.experiments.fanout.witness import last_words
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.server_files import split_world, with_server_files
from ray_sim.experiments.prepare import FinishedRun, Prepared, audited, start
from ray_sim.experiments.results.result_directories import prepare_target, write_files
from ray_sim.experiments.results.snapshot_file import START_ANEW, SnapshotFile
from ray_sim.experiments.run_identity import SHORT
from ray_sim.experiments.scenario import Partition, Value
from ray_sim.experiments.sweep_entries import entry_of
from ray_sim.interruption import LAST_S, time_limit
from ray_sim.model.arguments import expect
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.text import shown
from ray_sim.model.welfare_audit import AuditRequest
from ray_sim.policies.registry import create_policy
from ray_sim.progress import shown_progress
from ray_sim.user_code import told_warnings
from workloads.describe import Workload
from workloads.store import load_workload


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
        from ray_sim.experiments.announced_audit import check_audited

        check_audited(facts)
    with shown_progress("simulate, jobs", progress) as report:
        result = run_world(facts, new_policy(), seed=seed, sites=sites, trim=trim, progress=report)
    return result if audit is None else audited(facts, new_policy, result, audit, seed, trim)


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


def run_to_directory(
    prepared: Prepared,
    out: Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    snapshot_s: float = 60.0,
    stop_after_s: float | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
    say: Callable[[str], None] = lambda text: None,
) -> FinishedRun:
    """Run a scenario and write its result, as `ray-sim run`; a stopped run continues from its snapshot.

    Parameters
    ----------
    out : directory of the result; by default ``runs/POLICY-HASH``
    address, resume, snapshot_s, stop_after_s : the options of the command
    stop : whether the run must keep a snapshot and end
    announce : receives one line of text before each wait of seconds
    say : receives warnings, and messages about the snapshot

    Raises
    ------
    InvalidInputError : an input is invalid, or the directory or the snapshot is of something else
    RunFailedError : the policy failed, or took a decision that the world forbids
    RunStoppedError : `stop` or the time asked for it; a snapshot is kept
    """
    scenario, identity = prepared.scenario, prepared.identity
    name = scenario.policy.rpartition(":")[2]
    directory = out or Path("runs") / f"{name}-{identity.content_hash[:SHORT]}"
    prepare_target(directory)  # refuse an unusable result directory before simulating
    on_actors = scenario.fleet == "actors"
    if on_actors or address != "local":
        from ray_sim.experiments.fanout.connection import check_address, cluster

        check_address(address)
    stop_at = time.monotonic() + (stop_after_s or math.inf)
    over = "" if stop_after_s is None else f", or it ran on after --stop-after-s {stop_after_s:g}"
    ended = "its policy crashed or ended it, or it was killed"
    words = f"error: this process ended without a result: {ended}{over}"
    said: set[str] = set()

    def warn(text: str) -> None:
        said.add(text)
        say(f"warning: {text}")

    def stopping() -> bool:
        return stop() or time.monotonic() >= stop_at

    snapshot = SnapshotFile(
        directory, identity, every_s=snapshot_s, resume=resume, stopping=stopping, say=say
    )
    with (
        last_words(words) if ":" in scenario.policy or over else nullcontext(),
        time_limit(None if stop_after_s is None else stop_after_s + LAST_S),
        told_warnings(warn),
    ):
        if on_actors:
            start(scenario, prepared.world)  # errors of the policy come before Ray starts
        try:
            with cluster(address, announce) if on_actors else nullcontext():
                finished = prepared.run(progress, snapshot, entry_of(identity).label if on_actors else name)
        except UnfitSnapshotError as unfit:
            raise InvalidInputError(f"{snapshot.path}: {unfit}; {START_ANEW}") from unfit
    write_files(directory, finished.files())
    snapshot.remove()
    summary = finished.result.summary
    for text in summary.policy_warnings or ():
        if text not in said:
            warn(text)
    if stalled := summary.reasons.get("stalled"):
        warn(
            f"{stalled:,} of {summary.jobs:,} jobs are unfinished (stalled): the policy left jobs waiting "
            "while no event was due; test it with ray-sim check-policy"
        )
    return replace(finished, directory=directory)
