"""Quotas of teams: what a team may still hold, and its share of what the cohort lends.

Of each team and resource: N nominal, L lent at most, B borrowed at most, U held.

    local = N - L;  pool = sum of L;  used = sum of max(0, U - local)      over the cohort
    available = max(0, local - U) + min(pool - used, L - max(0, U - local) + B)
    share = max over resources of max(0, U - N) / (pool x weight)

A resource that a team's quota does not name neither limits the team nor counts in its cohort.
`ray_sim.policies.batch.serve` and `victims` call these kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.model.cluster import Cluster
from ray_sim.model.teams import Team
from ray_sim.model.units import QUANTA_PER_UNIT, IntArray
from ray_sim.policy_api import PolicyContext

NO_LIMIT = 2**60
"""Quanta that a team without a limit may borrow."""


class Quotas(NamedTuple):
    """M teams, K resources that some quota names."""

    nominal: I64
    """(M, K) quanta, as the next three."""
    borrow: I64
    lend: I64
    held: I64
    """What the running jobs of each team hold, and promised jobs will."""
    named: Bool
    """(M, K) whether the team's quota names the resource."""
    cohort: I64
    """(M,) number of the team's cohort."""
    weight: F64
    """(M,)"""
    need: I64
    """(J, K) quanta of a job's gang."""


def quota_resources(cluster: Cluster) -> tuple[str, ...]:
    """Resources that the quotas of some team name, in the order of the teams."""
    return tuple(dict.fromkeys(quota.resource for team in cluster.teams for quota in team.quotas))


def new_quotas(teams: tuple[Team, ...], resources: tuple[str, ...], need: IntArray) -> Quotas:
    """Quotas of ``teams``, held by nobody; without teams one that is not limited."""
    cohorts = sorted({team.cohort for team in teams})
    shape = (max(len(teams), 1), len(resources))
    quotas = Quotas(
        nominal=np.zeros(shape, np.int64),
        borrow=np.zeros(shape, np.int64),
        lend=np.zeros(shape, np.int64),
        held=np.zeros(shape, np.int64),
        named=np.zeros(shape, np.bool_),
        cohort=np.array([cohorts.index(team.cohort) for team in teams] or [0], np.int64),
        weight=np.array([team.weight for team in teams] or [1.0]),
        need=need,
    )
    for m, team in enumerate(teams):
        for quota in team.quotas:
            at = m, resources.index(quota.resource)
            quotas.nominal[at], quotas.lend[at], quotas.named[at] = quota.nominal, quota.lend, True
            quotas.borrow[at] = NO_LIMIT if quota.borrow is None else quota.borrow
    return quotas


def quota_needs(world: PolicyContext, resources: Sequence[str], amount: IntArray) -> IntArray:
    """(J, K) quanta that each gang counts in quotas; of ``gpu:TYPE`` if it may use GPUs of this type only."""
    types = np.array([each or "" for each in world.cluster.gpu_type])
    pool = world.pool_of(np.arange(len(amount)))[:, 0]
    needs = np.zeros((len(amount), len(resources)), dtype=np.int64)
    for k, name in enumerate(resources):
        resource, _, gpu_type = name.partition(":")
        needs[:, k] = amount[:, world.cluster.resources.index(resource)]
        if gpu_type:
            others = (world.pools & (types != gpu_type)).any(axis=1)
            needs[others[pool], k] = 0
    return needs


def beyond_cluster(cluster: Cluster) -> Iterator[str]:
    """Yield a warning for each resource of which the quotas promise more than the cluster has."""
    for name in quota_resources(cluster):
        resource, _, gpu_type = name.partition(":")
        offered = cluster.capacity[:, cluster.resources.index(resource)]
        types = np.array([each or "" for each in cluster.gpu_type])
        total = int(offered[types == gpu_type].sum() if gpu_type else offered.sum())
        granted = sum(
            quota.nominal for team in cluster.teams for quota in team.quotas if quota.resource == name
        )
        if granted > total:
            unit = QUANTA_PER_UNIT[resource]
            yield f"quotas of {name}: {granted / unit:,.10g} in all, and the cluster has {total / unit:,.10g}"


@kernel
def hold_quota(quotas: Quotas, m: int, job: int, sign: int) -> None:
    """Count a job of team m as held, or no longer with ``sign`` -1."""
    for k in range(quotas.held.shape[1]):
        quotas.held[m, k] += sign * quotas.need[job, k]


@kernel
def _pool(quotas: Quotas, m: int, k: int) -> int:
    """Return the quanta that the cohort of team m lends."""
    pool = 0
    for other in range(len(quotas.cohort)):
        if quotas.cohort[other] == quotas.cohort[m]:
            pool += quotas.lend[other, k]
    return pool


@outlined
def available(quotas: Quotas, m: int, k: int) -> int:
    """Return the quanta of resource k that team m may hold beside what it holds; O(M)."""
    used = 0
    for other in range(len(quotas.cohort)):
        if quotas.cohort[other] == quotas.cohort[m] and quotas.named[other, k]:
            local = quotas.nominal[other, k] - quotas.lend[other, k]
            used += max(0, quotas.held[other, k] - local)
    local = quotas.nominal[m, k] - quotas.lend[m, k]
    above = max(0, quotas.held[m, k] - local)
    shared = min(_pool(quotas, m, k) - used, quotas.lend[m, k] - above + quotas.borrow[m, k])
    return int(max(0, local - quotas.held[m, k]) + shared)


@kernel
def passes(quotas: Quotas, m: int, job: int) -> bool:
    """Whether a job of team m needs at most what is available."""
    for k in range(quotas.held.shape[1]):
        need = quotas.need[job, k]
        if quotas.named[m, k] and need > 0 and need > available(quotas, m, k):
            return False
    return True


@kernel
def within_nominal(quotas: Quotas, m: int, job: int) -> bool:
    """Whether team m stays within its nominal quotas of what the job needs, with the job."""
    for k in range(quotas.held.shape[1]):
        need = quotas.need[job, k]
        if quotas.named[m, k] and need > 0 and quotas.held[m, k] + need > quotas.nominal[m, k]:
            return False
    return True


@kernel
def borrows(quotas: Quotas, m: int, lacking: Bool) -> bool:
    """Whether team m holds more than its nominal quota of a lacking resource; ``lacking`` is (K,)."""
    for k in range(len(lacking)):
        if lacking[k] and quotas.named[m, k] and quotas.held[m, k] > quotas.nominal[m, k]:
            return True
    return False


@kernel
def below_nominal(quotas: Quotas, m: int, lacking: Bool) -> bool:
    """Whether team m holds less than its nominal quota of each lacking resource."""
    for k in range(len(lacking)):
        if lacking[k] and quotas.named[m, k] and quotas.held[m, k] >= quotas.nominal[m, k]:
            return False
    return True


@outlined
def share(quotas: Quotas, m: int, job: int, sign: int) -> float:
    """Return the share of team m with a job more (``sign`` 1), less (-1) or as it is (0); O(M K).

    Infinite if it borrows and has no weight, or its cohort lends nothing.
    """
    most = 0.0
    for k in range(quotas.held.shape[1]):
        if quotas.named[m, k]:
            above = quotas.held[m, k] + sign * quotas.need[job, k] - quotas.nominal[m, k]
            lent = _pool(quotas, m, k) * quotas.weight[m]
            if above > 0:
                most = max(most, above / lent if lent > 0 else np.inf)
    return most
