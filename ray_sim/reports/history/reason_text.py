"""Sentences on the reasons of waits, with their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.reasons import Reason, Stretches
from ray_sim.reports.history.run_facts import RunFacts

LABELS = {
    Reason.NOT_ARRIVED: "not arrived yet",
    Reason.CHUNKS: "no chunk in progress",
    Reason.OUTAGE: "servers unavailable",
    Reason.FULL: "servers full",
    Reason.FRAGMENTED: "free capacity in pieces",
    Reason.NO_SERVER: "placement rule finds no servers",
    Reason.BEHIND: "behind other jobs",
    Reason.POLICY: "decision of the policy",
}
"""Heading of each reason in tables."""

_TASKS = ("worker", "parameter server")
"""Tasks of each role."""


@dataclass(frozen=True, slots=True)
class ReasonText:
    """Text on one part of a wait."""

    cause: str
    """Sentence without demand and free capacity."""
    needs: str = ""
    """Demand of the job, e.g. ``8 gpu, 32 cpu``; empty where the reason is not capacity."""
    free: str = ""
    """Free capacity of the same resources on the job's servers; empty as `needs`."""
    servers: str = ""
    """Number of these servers, their vc, and how many are unavailable; empty as `needs`."""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        if not self.needs:
            return self.cause
        return f"{self.cause}: needs {self.needs}, {self.free} free on {self.servers}"


def reason_text(facts: RunFacts, job: int, stretches: Stretches, n: int, *, one_server: bool) -> ReasonText:
    """Text on one part of a wait.

    Parameters
    ----------
    one_server : whether the policy's placement rule gives the job one server
    """
    cause = _cause(facts, job, stretches, n, one_server=one_server)
    reason = Reason(int(stretches.reason[n]))
    if facts.chunked or reason is Reason.NOT_ARRIVED:
        return ReasonText(cause)
    whole = facts.whole_demand(job)
    free = amounts(facts, stretches.free[n], of=whole)
    servers = _servers(facts, job, facts.eligible(job), int(stretches.unavailable[n]))
    return ReasonText(cause, amounts(facts, whole), free, servers)


def _cause(facts: RunFacts, job: int, stretches: Stretches, n: int, *, one_server: bool) -> str:
    match Reason(int(stretches.reason[n])):
        case Reason.NOT_ARRIVED:
            return "announced; it has not arrived yet"
        case Reason.CHUNKS:
            return (
                "no chunk makes progress: they upload, wait on workers, or are not dispatched; "
                "the results do not tell which"
            )
        case Reason.FULL | Reason.OUTAGE if facts.chunked:
            return _parameter_server_cause(facts, job, unavailable=int(stretches.unavailable[n]))
        case Reason.OUTAGE if stretches.unavailable[n] == facts.eligible(job).sum():
            return "no server is available, and they would be enough"
        case Reason.OUTAGE:
            return "servers are unavailable, and would be enough with those that are free"
        case Reason.FULL:
            return f"{'its vc' if facts.partitions else 'the cluster'} is full"
        case Reason.FRAGMENTED:
            return f"free capacity is in pieces, {_fitting(facts.arrays.gang[job], stretches.tasks[n])}"
        case Reason.NO_SERVER:
            where = "on several servers, on no single one" if one_server else "for all its tasks"
            does = "gives it a single server" if one_server else "finds no servers for them"
            return f"there is room {where}; placement rule {facts.placement} {does}"
        case Reason.BEHIND if stretches.ahead[n] == 0:
            return "there is room, but a job before it in the queue does not fit, and no job passes that one"
        case Reason.BEHIND:
            jobs = f"{int(stretches.ahead[n]):,} waiting job{'s' if stretches.ahead[n] != 1 else ''}"
            strict = "; no job passes one that does not fit" if facts.strict else ""
            return f"there is room, but {jobs} started first{strict}"
        case Reason.POLICY:
            return "there is room, and the policy does not start it yet"


def _parameter_server_cause(facts: RunFacts, job: int, *, unavailable: int) -> str:
    """Sentence on a chunked job for which no parameter server is free."""
    serving = facts.serving(job)
    if not serving.any():
        return "its partition has no parameter server"
    where = _servers(facts, job, serving, unavailable)
    return f"no parameter server for it is free on {where}; its chunks may upload or wait on workers too"


def _fitting(gang: IntArray, fitting: IntArray) -> str:
    """Clause on the first role whose tasks do not all fit; if each role fits, on the roles together."""
    lacking = np.flatnonzero(fitting < gang)
    if not len(lacking):
        return "where its workers and its parameter servers do not fit together"
    role = int(lacking[0])
    kind = f"{_TASKS[role]}s" if (gang > 0).sum() > 1 else "tasks"
    return f"where {int(fitting[role]):,} of {int(gang[role]):,} {kind} fit"


def rejection_text(facts: RunFacts, job: int, reason: str | None) -> str:
    """Sentence on a rejected job."""
    if reason != "never_fits":
        return f"rejected: {reason}"
    eligible = facts.eligible(job)
    if not eligible.any():
        return "rejected on arrival: no server belongs to its partition"
    if facts.chunked:
        return "rejected on arrival: no worker, or no parameter server, of its partition has enough memory"
    whole = facts.whole_demand(job)
    total = amounts(facts, facts.arrays.capacity[eligible].sum(axis=0), of=whole)
    largest = amounts(facts, facts.arrays.capacity[eligible].max(axis=0), of=whole)
    servers = _servers(facts, job, eligible)
    return (
        f"rejected on arrival: needs {amounts(facts, whole)}; {servers} have {total} when empty, "
        f"the largest of them {largest}"
    )


def amounts(facts: RunFacts, quanta: IntArray, of: IntArray | None = None) -> str:
    """Text such as ``8 gpu, 32 cpu``.

    Parameters
    ----------
    of : (R,) name only the resources that are above 0 here; those of `quanta` by default
    """
    named = np.flatnonzero((quanta if of is None else of) > 0)
    names, units = list(facts.resources), list(facts.resources.values())
    parts = [f"{amount_text(float(quanta[r] / units[r]))} {names[r]}" for r in named]
    return ", ".join(parts) or "nothing"


def amount_text(amount: float) -> str:
    """Amount with its decimals, at most three, so that a demand differs from a little less that is free."""
    return f"{amount:,.3f}".rstrip("0").rstrip(".")


def _servers(facts: RunFacts, job: int, servers: BoolArray, unavailable: int = 0) -> str:
    """Number of these servers, (S,), of a job's partition, e.g. ``2 of 3 servers of vc a, 1 unavailable``."""
    count = int(servers.sum())
    some = f"{count - unavailable:,} of " if unavailable else ""
    where = f" of vc {facts.partitions[int(facts.arrays.job_part[job])]}" if facts.partitions else ""
    rest = f", {unavailable:,} unavailable" if unavailable else ""
    return f"{some}{count:,} server{'s' if count != 1 else ''}{where}{rest}"
