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
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.cluster import Cluster
from ray_sim.model.teams import Team
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray, IntArray
from ray_sim.policy_api import PolicyContext

NO_LIMIT = 2**60
"""Quanta that a team may borrow without a limit, and hold of a resource that its quota does not name."""


class Quotas(NamedTuple):
    """M teams, K resources that some quota names; quanta, (M, K), in the first five."""

    nominal: I64
    borrow: I64
    lend: I64
    pool: I64
    """What the team's cohort lends."""
    held: I64
    """What the running jobs of each team hold, and promised jobs will."""
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
    nominal, borrow, lend, held = np.zeros((4, max(len(teams), 1), len(resources)), dtype=np.int64)
    nominal[:] = NO_LIMIT
    for m, team in enumerate(teams):
        for quota in team.quotas:
            k = resources.index(quota.resource)
            nominal[m, k], lend[m, k] = quota.nominal, quota.lend
            borrow[m, k] = NO_LIMIT if quota.borrow is None else quota.borrow
    cohort = np.unique([team.cohort for team in teams] or [""], return_inverse=True)[1].astype(np.int64)
    pool = np.stack([lend[cohort == each].sum(axis=0) for each in cohort])
    weight = np.array([team.weight for team in teams] or [1.0])
    return Quotas(nominal, borrow, lend, pool, held, cohort, weight, need)


def _of_type(cluster: Cluster, name: str) -> tuple[int, BoolArray]:
    """Resource, by index, that a quota named ``RESOURCE`` or ``gpu:TYPE`` is of, and (S,) its servers."""
    resource, _, gpu_type = name.partition(":")
    mine = [not gpu_type or each == gpu_type for each in cluster.gpu_type]
    return cluster.resources.index(resource), np.array(mine)


def quota_needs(world: PolicyContext, resources: Sequence[str], amount: IntArray) -> IntArray:
    """(J, K) quanta that each gang counts in quotas; of ``gpu:TYPE`` if it may use GPUs of this type only."""
    pool = world.pool_of(np.arange(len(amount)))[:, 0]
    needs = np.zeros((len(amount), len(resources)), dtype=np.int64)
    for k, name in enumerate(resources):
        resource, mine = _of_type(world.cluster, name)
        others = np.asarray((world.pools & ~mine).any(axis=1))
        needs[:, k] = np.where(others[pool], 0, amount[:, resource])
    return needs


def beyond_cluster(cluster: Cluster) -> Iterator[str]:
    """Yield a warning for each resource of which the quotas promise more than the cluster has."""
    for name in quota_resources(cluster):
        resource, mine = _of_type(cluster, name)
        total = int(cluster.capacity[mine, resource].sum())
        granted = sum(
            quota.nominal for team in cluster.teams for quota in team.quotas if quota.resource == name
        )
        if granted > total:
            unit = QUANTA_PER_UNIT[cluster.resources[resource]]
            yield f"quotas of {name}: {granted / unit:,.10g} in all, and the cluster has {total / unit:,.10g}"


@kernel
def hold_quota(quotas: Quotas, m: int, job: int, sign: int) -> None:
    """Count a job of team m as held, or no longer with ``sign`` -1."""
    for k in range(quotas.held.shape[1]):
        quotas.held[m, k] += sign * quotas.need[job, k]


@outlined
def available(quotas: Quotas, m: int, k: int) -> int:
    """Return the quanta of resource k that team m may hold beside what it holds; O(M)."""
    used, own = 0, 0
    for other in range(len(quotas.cohort)):
        if quotas.cohort[other] == quotas.cohort[m]:
            beyond = quotas.held[other, k] - (quotas.nominal[other, k] - quotas.lend[other, k])
            used += max(0, beyond)
            own = beyond if other == m else own
    shared = min(quotas.pool[m, k] - used, quotas.lend[m, k] - max(0, own) + quotas.borrow[m, k])
    return int(max(0, -own) + shared)


@kernel
def passes(quotas: Quotas, m: int, job: int) -> bool:
    """Whether a job of team m needs at most what is available."""
    for k in range(quotas.held.shape[1]):
        if quotas.need[job, k] > 0 and quotas.need[job, k] > available(quotas, m, k):
            return False
    return True


@kernel
def borrows(quotas: Quotas, m: int, asked: I64, times: int) -> bool:
    """Whether team m, with ``times`` what is ``asked``, (K,), holds above a nominal quota of some of it."""
    for k in range(len(asked)):
        if asked[k] > 0 and quotas.held[m, k] + times * asked[k] > quotas.nominal[m, k]:
            return True
    return False


@outlined
def share(quotas: Quotas, m: int, job: int, sign: int) -> float:
    """Return the share of team m with a job more (``sign`` 1), less (-1) or as it is (0); O(K).

    Infinite if it borrows and has no weight, or its cohort lends nothing.
    """
    most = 0.0
    for k in range(quotas.held.shape[1]):
        above = quotas.held[m, k] + sign * quotas.need[job, k] - quotas.nominal[m, k]
        lent = quotas.pool[m, k] * quotas.weight[m]
        if above > 0:
            most = max(most, above / lent if lent > 0 else np.inf)
    return most
