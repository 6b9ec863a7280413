"""Rows that the figures of a kind of job add to the printed summary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from ray_sim.model.figures.announced import AnnouncedFigures, RegretFigures, WelfareAudit, WelfareFigures
from ray_sim.model.figures.base import KindFigures
from ray_sim.model.figures.elastic import ElasticFigures

Rows = Sequence[tuple[str, object]]
"""Labels and values."""


class FigureRows(NamedTuple):
    """Rows of the printed summary by the place where they stand."""

    earned: Rows = ()
    """After the utility."""
    progress: Rows = ()
    """After preemptions and restarts."""
    estimates: Rows = ()
    """Before the figures of the policy."""


@singledispatch
def figure_rows(figures: KindFigures) -> FigureRows:
    """Rows of a kind's figures; figures without a row are in summary.json only.

    Another kind registers its rows with ``@figure_rows.register``.
    """
    return FigureRows()


@figure_rows.register
def _of_elastic_jobs(figures: ElasticFigures) -> FigureRows:
    return FigureRows(
        progress=_known(
            ("tasks that train, mean", figures.mean_tasks),
            ("share of the time of tasks spent computing", figures.computing_share),
            ("fullest parameter server over the average", figures.ps_imbalance),
            ("share of training time that interference cost", figures.interference_share),
        ),
        estimates=_known(
            ("relative error of expected speeds", figures.speed_error),
            ("error of expected work left over all work of a job", figures.convergence_error),
        ),
    )


@figure_rows.register
def _of_announced_jobs(figures: AnnouncedFigures) -> FigureRows:
    audit = () if figures.audit is None else _audit_rows(figures.audit)
    return FigureRows(earned=[*_welfare_rows(figures.welfare), *audit])


def _welfare_rows(figures: WelfareFigures) -> Rows:
    """Earnings, and how jobs ended."""
    fates = [(fate.replace("_", " "), count) for fate, count in figures.fates.items() if count]
    changed = [("statements cut to the bounds", figures.clipped), ("jobs misreported", figures.misreporting)]
    return [
        ("welfare", figures.welfare),
        ("upper bound on welfare", figures.bound),
        ("that bound / welfare", figures.ratio),
        ("revenue", figures.revenue),
        ("payments above the job's value", figures.paid_above_value),
        ("eviction rate", figures.eviction_rate),
        *fates,
        *((label, count) for label, count in changed if count),
    ]


def _audit_rows(audit: WelfareAudit) -> Rows:
    """Findings; figures that do not exist for the policy or the signal are left out."""
    best = "optimal welfare" if audit.optimum_proven else "best welfare found"
    rows: list[tuple[str, object]] = [
        (f"audit: {best}", audit.optimum),
        (f"audit: bound on welfare, {audit.optimum_kind}", audit.optimum_bound),
        ("audit: that bound / welfare", audit.optimum_ratio),
        ("audit: bound on expected welfare, launch plans", audit.launch_plan_bound),
        *_regret_rows("misreports", audit.regret),
        ("audit: bound on gains by misreports", audit.regret_bound),
        ("audit: sampled jobs", audit.sampled_jobs),
        ("audit: line of Lemma 4.3", audit.eviction_line),
        ("audit: fullest round, share of GPUs held", audit.load_max),
        ("audit: fullest round, share of C' booked", audit.booked_max),
    ]
    return [*_known(*rows), *[("audit: violation", text) for text in audit.violations or ["none"]]]


def _regret_rows(misreports: str, regret: RegretFigures | None) -> Rows:
    if regret is None:
        return []
    return [
        (f"audit: largest gain by {misreports}", regret.max),
        (f"audit: share of sampled jobs that gain by {misreports}", regret.share),
    ]


def _known(*rows: tuple[str, object]) -> Rows:
    """The rows that have a value."""
    return [(label, value) for label, value in rows if value is not None]
