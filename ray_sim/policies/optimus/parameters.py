"""Parameters of Optimus."""

from __future__ import annotations

from ray_sim.policies.optimus.placement import RULES
from ray_sim.policies.shared.parameter_blocks import PARAMETER_BLOCKS
from ray_sim.policy_api import Parameter

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "allocation",
        "choice",
        "optimus",
        "how tasks are shared out. optimus: by marginal gains; drf: by dominant shares, in pairs; tetris: by "
        "alignment and work left, in pairs",
        source="docs/models/optimus.md#allocation; Peng et al., section 4.1; drf and tetris are ablations",
        choices=("optimus", "drf", "tetris"),
    ),
    Parameter(
        "remaining",
        "choice",
        "predicted",
        "how long jobs still train. predicted: by the curve fitted to their losses; known: as they do",
        source="docs/models/optimus.md#remaining-work; Peng et al., section 3.1",
        choices=("predicted", "known"),
    ),
    Parameter(
        "normalise",
        "choice",
        "share",
        "what the gain of a task is divided by. share: of its dominant resource; amount: of that resource, "
        "as in the paper",
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
        "shrink",
        "what becomes of a job for whose tasks there is no room. shrink: it gets those that fit, at least "
        "one of each kind; wait: it gets none",
        source="docs/models/optimus.md#placement; shrink as the authors' scheduler",
        choices=("shrink", "wait"),
    ),
    Parameter(
        "keep_places",
        "bool",
        True,
        "whether jobs whose numbers of tasks do not change stay where they are, but for fewer servers; else "
        "all are placed anew, and whoever ends up elsewhere pays a restart",
    ),
    Parameter(
        "least_stay_s",
        "float",
        0.0,
        "a job keeps what it holds for at least this long after a change, but for slow workers",
        unit="s",
        minimum=0.0,
    ),
    Parameter(
        "young_factor",
        "float",
        0.95,
        "what the gains of a job are multiplied by while it has too few losses to be fitted",
        source="docs/models/optimus.md#allocation; Peng et al., section 4.1",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "most_epochs",
        "float",
        100.0,
        "no job is expected to take more epochs",
        source="docs/models/optimus.md#remaining-work; the authors' scheduler",
        minimum=1.0,
    ),
    Parameter(
        "slow_above",
        "float",
        2.0,
        "a worker that takes more than this many times as long as the others, at two decisions in a row, is "
        "replaced, at the cost of a restart",
        source="docs/models/optimus.md#slow-workers; Peng et al.: slower than half of the median",
        minimum=1.0,
    ),
    Parameter(
        "speed_error",
        "float",
        0.0,
        "speeds are taken for this share higher, or lower, than estimated: either for half of the jobs",
        source="docs/models/optimus.md#our-choices; Peng et al., experiment with mistaken estimates",
        minimum=0.0,
        maximum=0.99,
    ),
    Parameter(
        "convergence_error",
        "float",
        0.0,
        "the same for what jobs have left to train",
        source="docs/models/optimus.md#our-choices; Peng et al., experiment with mistaken estimates",
        minimum=0.0,
        maximum=0.99,
    ),
    PARAMETER_BLOCKS,
)
