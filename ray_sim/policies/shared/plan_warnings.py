"""Warnings of policies that plan at arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ray_sim.model.units import FloatArray

MOST_NAMED = 3
"""Jobs named in a warning, the most valuable first."""

PUBLISHED_SPAN = 31.0
"""Upper end of ln(U / L), 22 to 31, for the published ranges of utility decay (th2 in [0.01, 1])."""


def slowing_warning(policy: str, options: Sequence[str]) -> list[str]:
    """Warn if other jobs, links or slow workers may slow a job below the planned speeds.

    Parameters
    ----------
    options : world options that may slow jobs
    """
    if not options:
        return []
    return [
        f"policy {policy} plans by the speeds of jobs alone, on nominal links and without slow "
        f"workers, but this world has {', '.join(options)}, which may slow jobs without a limit that "
        f"helps: plans may end before the work is done. -p unfinished=extend plans the rest again"
    ]


def horizon_warning(policy: str, jobs: int) -> list[str]:
    """Warn that none of these jobs can end in time, so that all will be rejected."""
    return [
        f"policy {policy}: none of {jobs} jobs can earn utility by the horizon at the planned speeds, "
        f"even alone on the empty servers, so all will be rejected: give a longer horizon_s, more "
        f"servers, or other jobs"
    ]


def short_plan_warning(policy: str, short: int, admitted: int, *, extends: bool, by_world: bool) -> list[str]:
    """Warn if jobs had work left when their plan ended."""
    if not short:
        return []
    cures = ["-p unfinished=extend plans the rest again"] if not extends else []
    cures += [] if by_world else ["-p speeds=world plans by the speeds of this world"]
    return [
        f"policy {policy}: {short} of {admitted} admitted jobs had work left when "
        "their plan ended: they trained slower than planned, paused, or lost servers"
        + "".join(f"; {cure}" for cure in cures)
    ]


def price_warning(
    policy: str, span: float | None, counted: Mapping[str, int], refused: FloatArray
) -> list[str]:
    """Say what became of jobs where ln(U / L) is above the published ranges, or L more than jobs can pay.

    Parameters
    ----------
    span : ln(U / L); None: there is no market
    counted : counts of the policy
    refused : (n, 4) of jobs refused by price: number, largest utility, cost of the best plan, cost at L
    """
    never = int((refused[:, 3] >= refused[:, 1]).sum())
    poor, crowded = counted["admitted_below_1_percent"], counted["refused_infeasible"]
    if span is None or not (never or (span > PUBLISHED_SPAN and poor + crowded + len(refused))):
        return []
    wide = f", above the 22 to {PUBLISHED_SPAN:g} of the published ranges" if span > PUBLISHED_SPAN else ""
    always = f", {never} of them at any load: at L their work costs more than they are worth" if never else ""
    first = refused[np.lexsort((refused[:, 0], -refused[:, 1]))[:MOST_NAMED]]
    return [
        f"policy {policy}: ln(U/L) is {span:.1f}{wide}: {poor} of {counted['admitted']} admitted jobs earn "
        f"less than 1 % of their most, {crowded} jobs found no room, {len(refused)} were refused by "
        f"price{always}"
        + "".join(
            f"; row {job:.0f} of jobs.parquet: worth at most {worth:.4g}, cost {cost:.4g}, at L {least:.4g}"
            for job, worth, cost, least in first
        )
    ]
