"""Figures that each kind of jobs adds to a summary, in the order of their keys there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ray_sim.model.distribution import Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """Figures of the counted jobs of a run; each field is a key of summary.json.

    The fields are numbers, dataclasses or null. List a subclass in `FIGURES`, so that
    its keys stand in every summary.json and its figures are read back. Rows of the printed summary are
    registered with `ray_sim.reports.tables`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFigures(KindFigures):
    """Figures of rigid jobs, and of kinds that pause as they do."""

    restart_share: float | None = None
    """Share of the time with servers that jobs spent in restart pauses; null where no job had servers."""


@dataclass(frozen=True, slots=True)
class DeadlineMisses:
    """Jobs that missed their deadline."""

    late: int
    """Completed after the deadline."""
    never: int
    """Rejected, evicted or unfinished."""
    share: float | None
    """`late` + `never` over the jobs whose outcome is known at the horizon; null where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedFigures(KindFigures):
    """Time without a parameter server, rounding up to whole slots, preemptions and deadlines."""

    stalled_s: float
    """Total time in which jobs had a worker but no parameter server and made no progress."""
    ceil_share: float | None = None
    """Share of the training time of completed chunks that is due to rounding up to whole slots; null where no
    chunk took any time."""
    upload_ceil_share: float | None = None
    """Share of the upload time of all dispatched chunks that is due to rounding up; null as `ceil_share`."""
    preemption_cost_s: float
    """Total worker time that preemptions of chunks cost."""
    deadlines: DeadlineMisses | None = None
    """Null where jobs have no deadlines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFigures(GangFigures):
    """Deadlines of measured jobs, beside the figures of gangs."""

    deadlines: DeadlineMisses
    """Of the jobs that have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticFigures(GangFigures):
    """Tasks, traffic, skew of parameter servers, interference, and errors of the policy's estimates."""

    cross_server_gb: float
    """Traffic between servers, 10^9 bytes."""
    mean_tasks: float | None = None
    """Workers and parameter servers of all jobs that train, averaged from the first submission to the last
    completion; null where no job completes."""
    computing_share: float | None = None
    """Share of the time of these tasks that the samples take at speed 1; null where none trains."""
    ps_imbalance: float | None = None
    """Parameters on a job's fullest parameter server over the average, averaged over the time in which jobs
    trained with parameter servers; null where none did."""
    interference_share: float | None = None
    """Share of the time of training that interference cost; null in a world without it."""
    speed_error: float | None = None
    """Mean relative error |estimate - true| / true of the policy's speed estimates, over all estimates of the
    run; null where there are none."""
    convergence_error: float | None = None
    """Mean error |estimate - true| of the policy's estimates of the work left, as a share of the job's whole
    work; null as `speed_error`."""


@dataclass(frozen=True, slots=True)
class WelfareFigures:
    """Values and payments of announced jobs, over the jobs that count; in the workload's unit of value."""

    welfare: float
    """Sum of the true values of completed jobs at their finish."""
    revenue: float
    """Sum of their payments."""
    surplus: float
    """`welfare` minus `revenue`: what users keep."""
    eviction_rate: float | None
    """Evicted and cancelled jobs over all but those not launched and those that never came."""
    fates: dict[str, int]
    """Number of jobs by the column ``fate``; `failed` and `killed` only where faults may end jobs."""
    jct_from_arrival_s: Distribution
    """Finish minus arrival of completed jobs; `jct_s` counts from the birth."""
    misreporting: int
    """Jobs whose users misreport by the world parameter ``misreport``."""
    clipped: int
    """Statements that were cut to the bounds, of all jobs."""
    bound: float
    """No schedule of the same jobs earns more, even one that knows the future; see docs/certificates.md."""
    ratio: float | None
    """`bound` / `welfare`, >= 1 up to rounding; null where nothing was earned."""
    paid_above_value: int = 0
    """Jobs that paid more than their completion was worth to them."""


@dataclass(frozen=True, slots=True)
class RegretFigures:
    """Gains of misreports over the truth in expected true utility, over sampled jobs; in units of value.

    The gain of a job is that of its best misreport, and 0 where the truth is best.
    """

    max: float
    mean: float
    share: float
    """Share of the sampled jobs whose gain is above rounding, and above three standard errors if drawn."""
    kind: str | None
    """Misreport with the largest gain, such as ``worth 8 until 600 s``; null where no misreport gains."""


@dataclass(frozen=True, slots=True)
class WelfareAudit:
    """Audit of a run of announced jobs, see docs/certificates.md.

    The optimum is that of the jobs that count; sampled jobs are drawn among them. Violations are over
    all jobs.
    """

    jobs: int
    """Jobs that count."""
    optimum_kind: str
    """Source of `optimum_bound`. ``ex post``: the mixed-integer programme; ``prices of rounds``: the cheap
    bound that every run has, used where the programme is too large."""
    optimum_bound: float
    """No schedule of these jobs earns more in this run, even one that knows the future."""
    optimum_ratio: float | None
    """`optimum_bound` / welfare; null where nothing was earned."""
    optimum: float | None
    """Welfare of the best schedule that was found; null where the programme is too large."""
    optimum_proven: bool | None
    """Whether the search ended by itself; null as `optimum`."""
    lp_bound: float | None
    """Optimum of the linear relaxation of that programme; null as `optimum`."""
    launch_plan_bound: float | None
    """No scheduler that learns of durations as the signal tells earns more in expectation; null with
    signal=full, and where that programme is too large."""
    launch_plan_ratio: float | None
    """`launch_plan_bound` / welfare of this run, a ratio of an expectation to one draw; null as both."""
    eviction_line: float | None = None
    """Lemma 4.3: bound on the probability that a failure estimate exceeds eps / 10; null where it is 1 or
    more, and, like all below but `violations`, where the policy has no prices."""
    sampled_jobs: int | None = None
    """Jobs whose misreports were tried."""
    exact_jobs: int | None = None
    """Sampled jobs whose gains are over all futures of all jobs; those of the others are over drawn ones."""
    estimate_error: float | None = None
    """Largest standard error of a gain that counts, in units; 0 where all are exact."""
    regret: RegretFigures | None = None
    """Gains of the misreports that were tried."""
    regret_bound: float | None = None
    """2 (mu + eps / 10) H, a bound on `regret`; null where the mechanism's estimates have no such error."""
    violations: list[str] = field(default_factory=list)
    """Broken rules of the run, one sentence each; empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFigures(GangFigures):
    """Values and payments, and the audit of an audited run."""

    welfare: WelfareFigures
    audit: WelfareAudit | None = None
    """Null unless the run was audited."""


FIGURES: tuple[type[KindFigures], ...] = (
    ChunkedFigures,
    GangFigures,
    ElasticFigures,
    AnnouncedFigures,
    MeasuredFigures,
)


def all_figures(found: Mapping[str, Any], kinds: Sequence[type[KindFigures]] = FIGURES) -> dict[str, Any]:
    """The figures found by name, and null for those that only other kinds of jobs have."""
    return dict.fromkeys(each.name for kind in kinds for each in fields(kind)) | dict(found)


def class_of(
    found: Collection[str], kinds: Sequence[type[KindFigures]] = FIGURES
) -> type[KindFigures] | None:
    """The class with the fewest figures that has all of those found, by name; None if no class has all."""
    fitting = [kind for kind in kinds if set(found) <= {each.name for each in fields(kind)}]
    return min(fitting, key=lambda kind: len(fields(kind)), default=None)
