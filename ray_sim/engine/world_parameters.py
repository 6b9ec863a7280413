"""World parameters, facts that no policy chooses: what ``-w`` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ray_sim.engine.kinds.base import FACT_OF_PARAMETER, SERVER_FACTS, JobKind
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.kernels.core.arrays import KEEP_ALL, KEEP_CHECKPOINT, KEEP_NOTHING
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameters import MAX_FACTOR, Parameter, Value

PREEMPTION = {"save": KEEP_ALL, "checkpoint": KEEP_CHECKPOINT, "restart": KEEP_NOTHING}
"""What a job keeps by the value of ``-w preemption=``."""

_FAULTS = "docs/faults.md#parameters"

COMMON = (
    Parameter(
        "restart_cost_s",
        "float",
        0.0,
        "pause of a job, holding its servers without progress, each time it resumes or moves",
        unit="s",
        minimum=0.0,
        source="docs/engine.md#jobs",
    ),
    Parameter(
        "checkpoint_s",
        "float",
        0.0,
        "progress between two checkpoints, to the last of which a job falls back that loses a server; "
        "0 = nothing is lost",
        unit="s",
        minimum=0.0,
        source="docs/engine.md#servers-that-come-and-go",
    ),
    Parameter(
        "preemption",
        "choice",
        "save",
        "what a job keeps that the policy suspends or moves. save: all its progress; checkpoint: that of its "
        "last checkpoint; restart: nothing",
        source=_FAULTS,
        choices=tuple(PREEMPTION),
    ),
    Parameter(
        "attempts",
        "choice",
        "merge",
        "replay: a job fails where its attempts in attempt_log end, and goes on with the next one; merge: it "
        "runs for duration_s in one piece",
        source=_FAULTS,
        choices=("merge", "replay"),
    ),
    Parameter(
        "endings",
        "choice",
        "ignore",
        "run: jobs that failed or were killed in the trace end so after their work; wall: killed ones end at "
        "wait_s + span_s after submission at the latest; ignore: all complete",
        source=_FAULTS,
        choices=("ignore", "run", "wall"),
    ),
    Parameter(
        "failure_gpu_h",
        "float",
        None,
        "mean GPU-hours of progress to a random failure of a running job; none = no random failures",
        unit="GPU-h",
        minimum=0.0,
        exclusive=True,
        source=_FAULTS,
    ),
    Parameter(
        "failure_shape",
        "float",
        1.0,
        "shape of the Weibull distribution of random failures; 1 = a constant rate, below 1 = most are early",
        minimum=0.1,
        maximum=10.0,
        source=_FAULTS,
    ),
    Parameter(
        "retries",
        "int",
        3,
        "times that a job which failed at random is tried again; then it has failed; no limit under replay",
        minimum=0,
        source=_FAULTS,
    ),
    Parameter(
        "limits",
        "bool",
        False,
        "kill a job that has held servers for its time_limit_s in one attempt",
        source=_FAULTS,
    ),
    Parameter(
        "overcommit",
        "float",
        1.0,
        "factor on what every server offers: above 1, more is promised than there is",
        minimum=0.0,
        exclusive=True,
        maximum=MAX_FACTOR,
        source="docs/engine.md#world-parameters",
    ),
    Parameter(
        "gpu_types",
        "choice",
        "respect",
        "respect: tasks with GPUs run on servers of the types that their job accepts; ignore: on any",
        source="docs/clusters.md#gpu-types",
        choices=("respect", "ignore"),
    ),
    Parameter(
        "horizon_s",
        "float",
        None,
        "the run ends this long after the first submission; none = when all jobs have ended",
        unit="s",
        minimum=0.0,
        exclusive=True,
        source="docs/engine.md#world-parameters",
    ),
    Parameter(
        "slot_s",
        "float",
        None,
        "slot length, for policies that decide on a grid of slots",
        unit="s",
        minimum=0.0,
        exclusive=True,
        source="docs/engine.md#time-and-order",
    ),
)
"""Parameters of every world; a kind may leave some unheeded."""


def world_parameters(kinds: Sequence[JobKind] = JOB_KINDS) -> tuple[Parameter, ...]:
    """The common parameters, ``truth``, and those of each kind, in this order."""
    truth = Parameter(
        "truth",
        "choice",
        kinds[0].truth,
        "how jobs progress. " + "; ".join(f"{kind.truth}: {kind.summary}" for kind in kinds),
        source="; ".join(dict.fromkeys(kind.source for kind in kinds if kind.source)),
        choices=tuple(kind.truth for kind in kinds),
    )
    own = dict.fromkeys(given.parameter for kind in kinds for given in kind.parameters)
    return (*COMMON, truth, *own)


WORLD_PARAMETERS = world_parameters()


def heeding(parameter: Parameter, kinds: Sequence[JobKind] = JOB_KINDS) -> list[str]:
    """Truths under which a world parameter has an effect."""
    name = FACT_OF_PARAMETER.get(parameter.name, parameter.name)
    owners = [kind.truth for kind in kinds if any(own.parameter.name == name for own in kind.parameters)]
    return owners or [kind.truth for kind in kinds if name not in {*kind.unheeded, *_server_facts(kind)}]


def _server_facts(kind: JobKind) -> set[str]:
    """Facts of servers that have no effect on jobs of a kind."""
    return set(SERVER_FACTS) - kind.heeds


def kind_of(values: Mapping[str, Value], kinds: Sequence[JobKind] = JOB_KINDS) -> JobKind:
    """The kind that the value of ``truth`` names."""
    return next(kind for kind in kinds if kind.truth == values["truth"])


def uses_seed(values: Mapping[str, Value]) -> bool:
    """Whether something is drawn in a world with these values of all `WORLD_PARAMETERS`."""
    return values["failure_gpu_h"] is not None or kind_of(values).draws(values)


def check_heeded(values: Mapping[str, Value], kinds: Sequence[JobKind] = JOB_KINDS) -> None:
    """Refuse values that differ from the default and have no effect under the chosen truth.

    Raises
    ------
    InvalidScenarioError : it names the parameter, the reason and the truths under which it has one
    """
    chosen = kind_of(values, kinds)
    for parameter in world_parameters(kinds):
        name = parameter.name
        if values[name] == parameter.default:
            continue
        why = dict(chosen.unheeded).get(name)
        owners = {
            kind.truth: given.elsewhere
            for kind in kinds
            for given in kind.parameters
            if given.parameter.name == name
        }
        if owners and chosen.truth not in owners:
            why = next(iter(owners.values()))
        if why is not None:
            truths = owners or [kind.truth for kind in kinds if name not in kind.unheeded]
            raise InvalidScenarioError(f"{name}: {why}; set truth={' or '.join(truths)}, or leave it out")
