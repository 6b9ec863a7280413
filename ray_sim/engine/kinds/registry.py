"""Kinds of jobs by the value of ``-w truth=`` that chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ray_sim.engine.kinds.announced.jobs import AnnouncedJobs
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.kinds.chunked.jobs import ChunkedJobs
from ray_sim.engine.kinds.elastic.jobs import ElasticJobs
from ray_sim.engine.kinds.elastic.rules import PdOrsRule, PlacementRule
from ray_sim.engine.kinds.measured.jobs import MeasuredJobs
from ray_sim.engine.kinds.rigid.jobs import RigidJobs
from ray_sim.engine.visible_columns import COLUMNS, OBSERVATIONS, WHOLE_TRACE
from ray_sim.model.errors import InvalidScenarioError

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy

JOB_KINDS: tuple[JobKind, ...] = (
    RigidJobs(),
    ElasticJobs(PlacementRule()),
    ElasticJobs(PdOrsRule()),
    ChunkedJobs(),
    AnnouncedJobs(),
    MeasuredJobs(),
)


def kinds_for(schedules: str, kinds: Sequence[JobKind] = JOB_KINDS) -> list[JobKind]:
    """The kinds that take policies with this value of `Policy.schedules`."""
    return [kind for kind in kinds if schedules in kind.accepts]


def declarable(kinds: Sequence[JobKind] = JOB_KINDS) -> frozenset[str]:
    """Names that a policy may declare in `sees`."""
    own = (kind.columns | kind.observations for kind in kinds)
    return (COLUMNS | OBSERVATIONS | {WHOLE_TRACE}).union(*own)


def refuse_policy(kind: JobKind, policy: Policy, name: str) -> None:
    """Raise unless the policy is for jobs of this kind.

    Raises
    ------
    InvalidScenarioError : it names the kinds that the policy is for, and how to choose one
    """
    if policy.schedules in kind.accepts:
        return
    fitting = kinds_for(policy.schedules)
    jobs = ", ".join(dict.fromkeys(each.jobs for each in fitting)) or policy.schedules
    truths = " or ".join(each.truth for each in fitting)
    advice = f"set -w truth={truths}, or " if fitting else ""
    raise InvalidScenarioError(
        f"policy {name} is for {jobs} jobs, but truth={kind.truth} has {kind.jobs} jobs: "
        f"{advice}choose a policy for {kind.jobs} jobs"
    )
