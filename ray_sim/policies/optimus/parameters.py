"""Parameters of Optimus."""

from __future__ import annotations

from ray_sim.policies.optimus.placement import RULES
from ray_sim.policies.shared.elastic_options import PARAMETER_BLOCKS
from ray_sim.policy_api import Parameter

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "as_published",
        "bool",
        False,
        "whether normalise, misfit and keep_places are as in the paper, unless given",
        source="docs/models/optimus.md#our-choices",
    ),
    Parameter(
        "allocation",
        "choice",
        "optimus",
        "allocation of tasks. optimus: by marginal gains; drf: by dominant shares, in pairs; tetris: by "
        "alignment and work left, in pairs",
        source="docs/models/optimus.md#allocation; Peng et al., section 4.1; drf and tetris are ablations",
        choices=("optimus", "drf", "tetris"),
    ),
    Parameter(
        "remaining",
        "choice",
        "predicted",
        "remaining work of jobs. predicted: by the curve fitted to their losses; known: the true value",
        source="docs/models/optimus.md#remaining-work; Peng et al., section 3.1",
        choices=("predicted", "known"),
    ),
    Parameter(
        "normalise",
        "choice",
        None,
        "divisor of the gain of a task. share: of its dominant resource; amount: of that resource [share; "
        "amount with as_published]",
        source="docs/models/optimus.md#allocation; amount as Peng et al., section 4.1",
        choices=("share", "amount"),
    ),
    Parameter(
        "placement",
        "choice",
        "even",
        "even: evenly over as few servers as hold the job; spread, pack: each task on the freest, or the "
        "fullest, server with room",
        source="docs/models/optimus.md#placement; even as Peng et al., section 4.2",
        choices=tuple(RULES),
    ),
    Parameter(
        "misfit",
        "choice",
        None,
        "action when the tasks of a job do not fit. shrink: the job gets those that fit, at least "
        "one of each kind; wait: it gets none, unless no job runs [shrink; wait with as_published]",
        source="docs/models/optimus.md#placement; wait as Peng et al., shrink as the authors' scheduler",
        choices=("shrink", "wait"),
    ),
    Parameter(
        "keep_places",
        "bool",
        None,
        "whether jobs with unchanged numbers of tasks stay where they are unless they fit on fewer servers; "
        "else all jobs are placed anew, and a job that moves pays a restart [true; false with as_published]",
        source="docs/models/optimus.md#placement",
    ),
    Parameter(
        "job_order",
        "choice",
        "demand",
        "number by which jobs are placed, the smallest first. demand: dominant share; tasks: number of tasks",
        source="docs/models/optimus.md#placement; demand as Peng et al., tasks as the authors' scheduler",
        choices=("demand", "tasks"),
    ),
    Parameter(
        "least_stay_s",
        "float",
        0.0,
        "least time between two changes of a job's placements, except to replace slow workers",
        unit="s",
        minimum=0.0,
        source="docs/models/optimus.md#restart-threshold",
    ),
    Parameter(
        "least_stay_by",
        "choice",
        "same",
        "same: least_stay_s for every job; length, size: times the mean of running jobs over the job's own "
        "remaining time or number of tasks",
        source="docs/models/optimus.md#restart-threshold; length and size in the manner of Peng et al.",
        choices=("same", "length", "size"),
    ),
    Parameter(
        "young_factor",
        "float",
        0.95,
        "factor on the gains of a job with too few losses to fit",
        source="docs/models/optimus.md#allocation; Peng et al., section 4.1",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "most_epochs",
        "float",
        100.0,
        "bound on the expected total epochs of a job",
        source="docs/models/optimus.md#remaining-work; the authors' scheduler",
        minimum=1.0,
    ),
    Parameter(
        "slow_above",
        "float",
        2.0,
        "a worker that takes more than this many times as long as the others at two consecutive decisions is "
        "replaced, at the cost of a restart",
        source="docs/models/optimus.md#slow-workers; Peng et al.: slower than half of the median",
        minimum=1.0,
    ),
    Parameter(
        "speed_error",
        "float",
        0.0,
        "share by which estimated speeds are wrong: too high for half of the jobs, too low for the others",
        source="docs/models/optimus.md#our-choices; Peng et al., experiment with mistaken estimates",
        minimum=0.0,
        maximum=0.99,
    ),
    Parameter(
        "convergence_error",
        "float",
        0.0,
        "share by which estimates of the remaining work are wrong, as in speed_error",
        source="docs/models/optimus.md#our-choices; Peng et al., experiment with mistaken estimates",
        minimum=0.0,
        maximum=0.99,
    ),
    PARAMETER_BLOCKS,
)
