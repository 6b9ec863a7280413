"""Worlds in which a policy runs: kinds of jobs, and the options of the command line that choose them."""

from __future__ import annotations

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Wake
from ray_sim.engine.kinds.registry import JOB_KINDS, declarable, kinds_for

SCHEDULES = frozenset().union(*(kind.accepts for kind in JOB_KINDS))
"""Values that `Policy.schedules` may have."""

DECLARABLE = declarable()
"""Names that `Policy.sees` may hold."""

_PROFILE = "common"

_BOUNDED = "pd_ors"
"""Policies with a horizon plan by the form of this truth, where they have the choice."""


def jobs_of(policy: type[Policy]) -> tuple[str, ...]:
    """Kinds of jobs that it schedules, e.g. ``rigid``."""
    return tuple(dict.fromkeys(kind.jobs for kind in kinds_for(policy.schedules)))


def respects_types(policy: type[Policy]) -> bool:
    """Whether it schedules jobs that accept certain GPU types only."""
    return policy.respects_types and any(not kind.untyped for kind in kinds_for(policy.schedules))


def respects_shares(policy: type[Policy]) -> bool:
    """Whether it schedules jobs whose tasks ask for a share of a GPU, on devices."""
    return policy.respects_shares and any(kind.devices for kind in kinds_for(policy.schedules))


def options_of(policy: type[Policy]) -> str:
    """Options that its run must have, with common values; empty where any world of rigid jobs will do.

    The bundled profile `common` fills the columns of every kind of job. Workloads that have them need no
    ``--enrich``, and each published system has a profile of its own.
    """
    truths = [kind.truth for kind in kinds_for(policy.schedules)]
    truth = _BOUNDED if policy.bounded and _BOUNDED in truths else truths[0]
    options = {
        f"--enrich {_PROFILE}": truth != JOB_KINDS[0].truth,
        f"-w truth={truth}": truth != JOB_KINDS[0].truth,
        "-w slot_s=3600": policy.slotted or Wake.SLOT in policy.wake_on or "slot_s" in policy.needs,
        "-w horizon_s=360000": policy.bounded or "horizon_s" in policy.needs,
        **{f"-p {each.name}=FILE": each.name in policy.needs for each in policy.parameters},
    }
    return " ".join(option for option, needed in options.items() if needed)
