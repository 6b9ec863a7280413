"""Explanations of the jobs of a stored run: its result read together with its workload and cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.pools import partition_names
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.server_files import split_world
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import MANIFEST, read_result
from ray_sim.experiments.results.stored_runs import read_run_manifest
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, WorkloadSpec
from ray_sim.experiments.source_digest import imported_sha256
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.parameters import resolve
from ray_sim.model.result import RunResult
from ray_sim.model.text import names_text, shown
from ray_sim.model.units import QUANTA_PER_UNIT
from ray_sim.policies.registry import create_policy
from ray_sim.reports.history.explanation import Explanation, RunExplainer
from ray_sim.reports.history.holdings import RunFacts
from workloads.sources import is_url
from workloads.store import read_provenance


def explain_job(directory: Path, job_id: str) -> Explanation:
    """Explain a job of a stored run.

    Raises
    ------
    InvalidInputError : the directory is no result, the run has no such job, or its workload or cluster is
        missing or has changed since the run
    """
    result = read_result(directory)
    known = result.jobs["job_id"]
    found = (known == job_id).arg_max() if len(known) else None
    if found is None or known[found] != job_id:
        names = known.to_list()
        begin = [each for each in names if each.startswith(job_id)]
        near = names_text(begin[:3] or get_close_matches(job_id, names, n=3))
        hint = f"the closest are {near}" if near else "the column job_id of jobs.parquet lists them"
        raise InvalidInputError(f"{directory}: no job '{shown(job_id)}' among {len(known):,} jobs; {hint}")
    return run_explainer(directory, result).explain(found)


def run_explainer(directory: Path, result: RunResult) -> RunExplainer:
    """Explainer of a stored run; raises as `explain_job`."""
    return RunExplainer(run_facts(directory, result), result.jobs, result.events)


def run_facts(directory: Path, result: RunResult) -> RunFacts:
    """Servers and demands of a stored run, from its workload and cluster; raises as `explain_job`."""
    manifest = read_run_manifest(directory)
    scenario, recorded, inputs = manifest.scenario, manifest.inputs, HashedInputs()
    spec = scenario.workload
    if spec.file is not None:
        if not is_url(spec.file) and not Path(spec.file).is_file():
            raise InvalidInputError(
                f"{spec.file}: no such file, but it is the workload of {directory}; a relative path counts "
                "from the current directory: run the command where the run was started, or put the file back"
            )
        _check_unchanged(directory, spec.file, inputs.workload_sha256(spec.file), recorded.workload_sha256)
    _, server_files = split_world(scenario.world)
    named = [each for each in server_files if each is not None]
    sources = ", ".join([scenario.cluster, *named, "or a file that the cluster names"])
    cluster_sha256 = inputs.cluster_sha256(scenario.cluster, scenario.world)
    _check_unchanged(directory, sources, cluster_sha256, recorded.cluster_sha256)
    world = prepare(scenario, inputs).world
    if not world.table.job_id.equals(result.jobs["job_id"]):
        raise InvalidInputError(
            f"{directory / MANIFEST}: its workload {spec.path or spec.label} now gives other jobs than "
            "those of jobs.parquet; run the scenario again"
        )
    declared = _declared(scenario, manifest.code.policy_source_sha256)
    return replace(facts_of(world, declared), epoch_utc=_epoch_utc(spec))


def _epoch_utc(spec: WorkloadSpec) -> datetime | None:
    """Instant of second 0 of the replayed jobs; None where they do not come at dates."""
    if spec.path is None or not spec.keeps_times:
        return None
    provenance = read_provenance(spec.path)
    return None if provenance is None else provenance.epoch_utc


def facts_of(world: World, declared: dict[str, object]) -> RunFacts:
    """Facts of a world, where the policy has these values of its parameters."""
    placement = declared.get("placement")
    eligible = world.facts.eligible if isinstance(world.facts, ChunkFacts) else None
    return RunFacts(
        servers=world.cluster.server_names,
        resources=world.facts.resources,
        arrays=world.arrays,
        there=world.there,
        cloud=world.cluster.in_cloud,
        job_ids=world.table.job_id,
        gpu_types=world.cluster.gpu_type,
        partitions=partition_names(world),
        ps_levels=None if eligible is None else (eligible.ps_offer, eligible.ps_need),
        strict=declared.get("backfill") is False,
        placement=placement if isinstance(placement, str) else None,
        quotas={
            team.name: quota.nominal / QUANTA_PER_UNIT["gpu"]
            for team in world.cluster.teams
            for quota in team.quotas
            if quota.resource == "gpu"
        },
    )


def _declared(scenario: Scenario, source_sha256: object) -> dict[str, object]:
    """Parameters of the policy with their values; none if its files are gone, or not those of the run.

    A parameter `placement` with choices that are no placement rules, as that of optimus, is left out.

    Parameters
    ----------
    source_sha256 : of the policy's own files in the run; None for a policy without
    """
    try:
        policy = create_policy(scenario.policy, scenario.params)
    except InvalidInputError:
        return {}
    if imported_sha256(type(policy)) != source_sha256:
        return {}
    values = resolve(scenario.policy, policy.parameters, scenario.params)
    others = {each.name for each in policy.parameters if not set(each.choices) <= set(QUEUE_RULES)}
    return {name: value for name, value in values.items() if name != "placement" or name not in others}


def _check_unchanged(directory: Path, source: str, found: str, recorded: object) -> None:
    if found != recorded:
        raise InvalidInputError(
            f"{source}: changed since the run of {directory} (its SHA-256 differs from that in {MANIFEST}); "
            "restore it, or run the scenario again"
        )
