"""Tables of runs: the printed summary of one, a row per run, and means over seeds by place and policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from typing import NamedTuple

import polars as pl

from ray_sim.model.figures import AnnouncedFigures, ElasticFigures, KindFigures, WelfareAudit, WelfareFigures
from ray_sim.model.readable import duration
from ray_sim.model.result import JctCertificate, Summary
from ray_sim.reports.gaps import Gap, share_of_means

Rows = list[tuple[str, object]]
"""Labels and values."""


class FigureRows(NamedTuple):
    """Rows of the printed summary by the place where they stand."""

    earned: Sequence[tuple[str, object]] = ()
    """After the utility."""
    progress: Sequence[tuple[str, object]] = ()
    """After preemptions and restarts."""
    estimates: Sequence[tuple[str, object]] = ()
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
    audit = [] if figures.audit is None else _audit_rows(figures.audit)
    return FigureRows(earned=_welfare_rows(figures.welfare) + audit)


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
    best, regret = "optimal welfare" if audit.optimum_proven else "best welfare found", audit.regret
    rows: list[tuple[str, object]] = [
        (f"audit: {best}", audit.optimum),
        (f"audit: bound on welfare, {audit.optimum_kind}", audit.optimum_bound),
        ("audit: that bound / welfare", audit.optimum_ratio),
        ("audit: bound on expected welfare, launch plans", audit.launch_plan_bound),
        ("audit: largest gain by misreports", regret and regret.max),
        ("audit: share of sampled jobs that gain by misreports", regret and regret.share),
        ("audit: bound on gains by misreports", audit.regret_bound),
        ("audit: sampled jobs", audit.sampled_jobs),
        ("audit: line of Lemma 4.3", audit.eviction_line),
    ]
    return [*_known(*rows), *[("audit: violation", text) for text in audit.violations or ["none"]]]


def _known(*rows: tuple[str, object]) -> Rows:
    """The rows that have a value."""
    return [(label, value) for label, value in rows if value is not None]


KEYS = ("workload", "cluster", "setting", "policy")
"""Key columns of the sweep table. `setting` contains partition and world parameters."""

Place = tuple[str, str, str]
"""Key of a place (workload, cluster, setting); policies are compared within a place."""

SWEEP_HEADINGS = {
    "seeds": "seeds",
    "welfare.welfare": "welfare",
    "welfare.share_of_bound": "share of bound",
    "welfare.revenue": "revenue",
    "welfare.eviction_rate": "eviction rate",
    "jct_s.mean": "mean JCT",
    "jct_s.median": "median",
    "jct_s.p90": "p90",
    "jct_s.p99": "p99",
    "certificate.bound_s": "bound",
    "certificate.gap": "gap",
    "utility": "utility",
    "utility_certificate.bound": "utility bound",
    "utility_certificate.gap": "utility gap",
    "utility_certificate.optimum": "optimum",
    "utility_certificate.optimum_ratio": "optimum / utility",
    "queue_s.mean": "mean queue",
    "utilisation.gpu": "GPU util.",
    "makespan_s": "makespan",
    "completed": "completed",
    "rejected": "rejected",
    "unfinished": "unfinished",
    "policy_figures.price_span": "ln(U/L)",
    "policy_counts.admitted_below_1_percent": "earn < 1 %",
}
"""Headings of the columns of the sweep table, beside the keys; see `sweep_headings`."""

_LESS_IS_BETTER = ("jct_s.", "queue_s.", "makespan_s", "rejected", "unfinished", "welfare.eviction_rate")
_MORE_IS_BETTER = (
    "utilisation.",
    "completed",
    "welfare.welfare",
    "welfare.share_of_bound",
    "welfare.revenue",
)
_UTILITY = "utility"
_WELFARE = "welfare.welfare"
_UTILISATION = "utilisation."
_OF_WELFARE = (_WELFARE, "welfare.bound", "welfare.revenue", "welfare.eviction_rate")
_NOT_OF_WELFARE = (
    *("jct_s.median", "jct_s.p90", "jct_s.p99", "queue_s.mean"),
    *("certificate.bound_s", "certificate.gap"),
)
"""Columns that say little of jobs that are announced before they come, and are turned away at a price."""
_OF_POLICY = ("policy_figures.", "policy_counts.")
_BOUNDED = tuple(f"utility_certificate.{name}" for name in ("bound", "gap"))
_OPTIMUM = tuple(f"utility_certificate.optimum{suffix}" for suffix in ("", "_bound", "_ratio", "_proven"))


GAPS = {
    "certificate.gap": Gap("jct_s.mean", "certificate.bound_s", lower=True),
    "utility_certificate.gap": Gap(_UTILITY, "utility_certificate.bound", lower=False),
}
"""Columns of the sweep table that are gaps of several runs."""

SHARES = {
    "utility_certificate.optimum_ratio": ("utility_certificate.optimum", _UTILITY),
    "welfare.share_of_bound": (_WELFARE, "welfare.bound"),
}
"""Columns of the sweep table that are ratios of two means, and the two columns; see `share_of_means`."""

_LEGEND = {
    "d_z": "mean of the differences over their standard deviation",
    "wins": "share of seeds with the better value, equal ones half",
    "p": "after Holm over the differences to this baseline, so that another may judge a pair otherwise",
    "bound": "no schedule of these jobs beats it (docs/certificates.md)",
    "gap": "ratio of mean and bound - 1",
    "B1": "no job waits",
    "B2": "the cluster as one machine, shortest remaining time first",
    "B3": "the cluster as one machine, by mean busy times",
    "B4": "as B3, with all resources and each job's largest rate",
    "restarts": "later starts, and moves",
}
"""Meaning of words in headings and cells of tables of runs."""


def legend(texts: Iterable[str]) -> str:
    """Line with the meaning of the words of `_LEGEND` in headings and cells; empty without one."""
    words = {word for text in texts for word in text.split()}
    return "; ".join(f"{word}: {meaning}" for word, meaning in _LEGEND.items() if word in words)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A finished run with its labels."""

    workload: str
    cluster: str
    setting: str
    policy: str
    seed: int | None
    """Seed; null if the run does not depend on one."""
    summary: Summary

    @property
    def place(self) -> Place:
        """Where its policy is compared with others."""
        return self.workload, self.cluster, self.setting


def run_table(rows: Iterable[RunRow]) -> pl.DataFrame:
    """One row per run: the keys, the seed and every number of its summary under a dotted name."""
    keys = (*KEYS, "seed")
    records = [{**{key: getattr(row, key) for key in keys}, **_numbers(row.summary)} for row in rows]
    return pl.DataFrame(records, schema_overrides={"seed": pl.Int64}, infer_schema_length=None)


def sweep_table(rows: Iterable[RunRow]) -> pl.DataFrame:
    """Means over seeds, one row per (workload, cluster, setting, policy) in order of appearance.

    `GAPS` and `SHARES` are ratios of means over the runs that have both numbers, all other columns means over
    the runs that have the number. ``seeds`` is the number of runs of a row: 1 for a run that depends on no
    seed.
    """
    runs = run_table(rows)
    if runs.is_empty():
        return runs
    numbers = [column for column in runs.columns if column not in (*KEYS, "seed")]
    groups = runs.group_by(KEYS, maintain_order=True)
    means = groups.agg(pl.len().alias("seeds"), pl.col(numbers).mean())
    ratios = pl.DataFrame([_ratios(group) for _, group in groups], infer_schema_length=None)
    return means.with_columns(ratios.cast(pl.Float64))


def _ratios(runs: pl.DataFrame) -> dict[str, float | None]:
    """`GAPS` and `SHARES` of the runs of one row of the sweep table; those of columns that they have."""
    found = {name: gap.of(runs) for name, gap in GAPS.items() if {gap.value, gap.bound} <= {*runs.columns}}
    for name, (above, below) in SHARES.items():
        if {above, below} <= {*runs.columns}:
            both = runs.drop_nulls([above, below])
            found[name] = share_of_means(both[above].to_numpy(), both[below].to_numpy())
    return found


def sweep_headings(table: pl.DataFrame) -> dict[str, str]:
    """Columns of `SWEEP_HEADINGS` that a sweep table shows, with their headings.

    Columns that the table lacks are left out; so are resources that no row uses, welfare if no row has any,
    and quantiles and bounds of completion times if every row has a welfare.
    """
    left_out: tuple[str, ...] = ()
    if _WELFARE in table.columns and not table[_WELFARE].count():
        left_out = ("welfare.",)
    elif _WELFARE in table.columns and not table[_WELFARE].null_count():
        left_out = _NOT_OF_WELFARE
    used = columns_in_use(table, _UTILISATION)
    unused = {name for name in table.columns if name.startswith(_UTILISATION) and name not in used}
    columns = [name for name in SWEEP_HEADINGS if name in table.columns and name not in unused]
    shown = [name for name in columns if not name.startswith(left_out)]
    return {name: SWEEP_HEADINGS[name] for name in shown}


def first_warnings(rows: Iterable[RunRow]) -> dict[str, str]:
    """First warning of each policy's runs."""
    first: dict[str, str] = {}
    for row in rows:
        for text in row.summary.policy_warnings or ():
            first.setdefault(row.policy, text)
    return first


def place_title(place: Place) -> str:
    """Title ``workload, cluster, setting`` without empty parts."""
    return ", ".join(label for label in place if label)


def columns_in_use(frame: pl.DataFrame, prefix: str) -> dict[str, str]:
    """Columns with a prefix (`used_`, `utilisation.`) that are not 0 everywhere, and their resources."""
    columns = [column for column in frame.columns if column.startswith(prefix) and frame[column].sum()]
    return {column: column.removeprefix(prefix) for column in columns}


def best_value(values: pl.Series) -> float | None:
    """Best value of a column of the sweep table; None if all rows are equal or no direction is better."""
    if values.n_unique() < 2 or not values.dtype.is_numeric():
        return None
    more = values.name == _UTILITY or values.name.startswith(_MORE_IS_BETTER)
    best = values.max() if more else values.min() if values.name.startswith(_LESS_IS_BETTER) else None
    return float(best) if isinstance(best, int | float) else None


def summary_rows(summary: Summary) -> list[tuple[str, object]]:
    """Outcome of a run as labels and values."""
    rows: list[tuple[str, object]] = [*_known(("simulated, not counted", summary.trimmed_jobs))]
    rows += [("jobs", summary.jobs), ("completed", summary.completed)]
    rows += [(f"not completed, {reason}", count) for reason, count in summary.reasons.items()]
    samples = {
        "JCT s": summary.jct_s,
        "JCT or horizon s": summary.jct_or_horizon_s,
        "group JCT s": summary.group_jct_s,
        "queueing delay s": summary.queue_s,
    }
    for label, sample in samples.items():
        if sample is not None:
            rows += [(f"{label}, {name}", value) for name, value in asdict(sample).items()]
    rows.append(("makespan s", summary.makespan_s))
    used = {name: share for name, share in summary.utilisation.items() if share}
    rows += [(f"utilisation, {name}", share) for name, share in (used or summary.utilisation).items()]
    if summary.certificate is not None:
        rows += _certificate_rows(summary.certificate)
    rows += _known(("no lower bound on mean JCT", summary.no_certificate))
    rows += _utility_rows(summary)
    own = FigureRows() if summary.figures is None else figure_rows(summary.figures)
    rows += own.earned
    rows += [("preemptions", summary.preemptions), ("restarts", summary.restarts)]
    rows += own.progress
    if summary.interruptions or summary.lost_s:
        rows += [("servers lost by jobs", summary.interruptions), ("progress lost s", summary.lost_s)]
    wasted = summary.wasted_gpu_h or {}
    rows += [(f"wasted GPU-h, {reason}", gpu_h) for reason, gpu_h in wasted.items()]
    rows += own.estimates
    figures = {**(summary.policy_counts or {}), **(summary.policy_figures or {})}
    return rows + [(f"policy, {name.replace('_', ' ')}", number) for name, number in figures.items()]


_SECONDS = re.compile(r" s(?=$|,)")
"""The unit in a label such as ``JCT s, mean`` or ``makespan s``."""


def in_human_units(rows: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Rows (label, value) with values in seconds as durations, and labels without the unit."""
    return [
        (_SECONDS.sub("", label), duration(value))
        if isinstance(value, int | float) and _SECONDS.search(label)
        else (label, value)
        for label, value in rows
    ]


def _certificate_rows(found: JctCertificate) -> Rows:
    return [
        ("lower bound on mean JCT s", found.bound_s),
        ("gap: mean JCT / bound - 1", found.gap),
        *_known(
            ("the largest bound", None if found.binding is None else found.binding_text),
            ("the bound assumes speed 1, the run had", found.speed_up),
            ("the bound ignores queueing", found.only_b1 if found.lp_s is None else None),
            ("no bound by linear programme", found.no_lp),
            ("no bound B4", found.no_b4),
        ),
    ]


def _utility_rows(summary: Summary) -> Rows:
    """Rows on utility and its bounds; empty for jobs without a utility."""
    found, rows = summary.utility_certificate, _known(("utility", summary.utility))
    if found is None:
        return rows
    rows += [("upper bound on utility", found.bound), ("gap: bound / utility - 1", found.gap)]
    hopeless = ("jobs that could not complete, even alone", found.hopeless or None)
    rows += _known(hopeless, ("no utility bound by linear programme", found.no_u3))
    if found.optimum is not None:
        best = "optimum" if found.optimum_proven else "best utility found"
        rows += [(f"{best} in whole slots", found.optimum), (f"{best} / utility", found.optimum_ratio)]
        if not found.optimum_proven:
            rows.append(("no schedule in whole slots earns more than", found.optimum_bound))
    return rows


def _numbers(summary: Summary) -> dict[str, float | None]:
    flat = summary.flat()
    core: dict[str, float | None] = {
        f"{name}.{statistic}": flat.get(f"{name}.{statistic}")
        for name in ("jct_s", "queue_s")
        for statistic in ("mean", "median", "p90", "p99")
    }
    core |= {name: flat.get(name) for name in ("certificate.bound_s", "certificate.gap", "makespan_s")}
    if summary.utility is not None:
        optimum = _OPTIMUM if _OPTIMUM[0] in flat else ()
        core |= {name: flat.get(name) for name in (_UTILITY, *_BOUNDED, *optimum)}
    if _WELFARE in flat:
        core |= {name: flat.get(name) for name in _OF_WELFARE}
    core |= {f"utilisation.{name}": value for name, value in summary.utilisation.items()}
    core |= {name: value for name, value in flat.items() if name.startswith(_OF_POLICY)}
    return core | {
        name: float(getattr(summary, name))
        for name in (
            *("jobs", "completed", "rejected", "evicted", "unfinished"),
            *("preemptions", "restarts", "interruptions", "lost_s"),
        )
    }
