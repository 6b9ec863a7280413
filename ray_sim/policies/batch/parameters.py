"""Parameters of the policy `batch`."""

from __future__ import annotations

from ray_sim.policy_api import PLACEMENT, Parameter, backfill

_PAGE = "docs/models/batch.md"
_DAY_S = 86400.0
_WEEK_S = 7 * _DAY_S

DEFAULT_WEIGHTS = (1000.0, 1000.0, 0.0, 1000.0)


def _seconds(name: str, default: float, meaning: str, where: str, *, exclusive: bool = True) -> Parameter:
    source = f"{_PAGE}#{where}"
    return Parameter(name, "float", default, meaning, "s", source, minimum=0.0, exclusive=exclusive)


def _choice(name: str, choices: tuple[str, ...], meaning: str, where: str, default: int = 0) -> Parameter:
    return Parameter(name, "choice", choices[default], meaning, source=f"{_PAGE}#{where}", choices=choices)


PARAMETERS = (
    PLACEMENT,
    backfill(True),
    _choice(
        "order",
        ("fifo", "priority", "multifactor"),
        "fifo: submission; priority: class, then submission; multifactor: a weighted sum (Slurm)",
        "order",
    ),
    Parameter(
        "reserve",
        "int",
        1,
        "jobs without room that get a reservation: 0 none, 1 EASY, many conservative backfilling",
        source=f"{_PAGE}#rules; Mu'alem and Feitelson, 2001",
        minimum=0,
        maximum=2**20,
    ),
    _choice(
        "preempt",
        ("never", "lower", "lower_or_newer"),
        "jobs of the own team, without teams any, that may be stopped: of a lower class, or also newer ones",
        "who-is-stopped",
    ),
    _choice(
        "reclaim",
        ("never", "lower", "any"),
        "jobs of other teams of the cohort, while these borrow, that may be stopped",
        "who-is-stopped",
        default=2,
    ),
    _choice(
        "sharing",
        ("first_come", "fair"),
        "whose turn it is and who is stopped: first_come, or fair by dominant share over weight (Kueue)",
        "quotas",
    ),
    _seconds(
        "grace_s",
        0.0,
        "time that a stopped job runs on; its room is promised to the job that it leaves for",
        "who-is-stopped",
        exclusive=False,
    ),
    _seconds("default_limit_s", _DAY_S, "planned run time of jobs without time_limit_s", "rules"),
    Parameter(
        "weights",
        "floats",
        DEFAULT_WEIGHTS,
        "weights of multifactor: age, fair share, size, class",
        source=f"{_PAGE}#order; Slurm",
        minimum=0.0,
    ),
    _seconds("max_age_s", _WEEK_S, "wait from which on age counts fully", "order"),
    _seconds("half_life_s", _WEEK_S, "time in which usage loses half its effect", "order"),
)
