"""Warnings of policies that plan at arrival."""

from __future__ import annotations

from collections.abc import Sequence

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


def price_span_warning(policy: str, span: float | None) -> list[str]:
    """Warn if ln(U / L) is larger than in the published ranges; None: there is no market."""
    if span is None or span <= PUBLISHED_SPAN:
        return []
    return [
        f"policy {policy}: ln(U/L) is {span:.1f}, above the 22 to {PUBLISHED_SPAN:g} of the "
        f"published ranges: prices count for nothing until servers are nearly full, so jobs are admitted "
        f"that earn next to nothing. -p price_span=10 raises L until ln(U/L) is 10; it gives up the "
        f"guarantee that the dual starts at half the optimum or less (D_0 <= OPT/2)"
    ]
