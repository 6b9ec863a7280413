"""The facts of a world that no policy chooses: what `-w` takes."""

from __future__ import annotations

from collections.abc import Mapping

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameter_blocks import EVEN, BlockRule
from ray_sim.model.parameters import Parameter, Value

MAX_FACTOR = 1000.0
"""The largest factor on speeds and capacities; with it, sums over a cluster still fit in 64 bits."""

WORLD_PARAMETERS = (
    Parameter(
        "restart_cost_s",
        "float",
        0.0,
        "pause of a job, holding its servers without progress, each time it resumes or moves",
        unit="s",
        minimum=0.0,
    ),
    Parameter(
        "checkpoint_s",
        "float",
        0.0,
        "progress between two checkpoints, to the last of which a job falls back that loses a server; "
        "0 = nothing is lost",
        unit="s",
        minimum=0.0,
    ),
    Parameter(
        "overcommit",
        "float",
        1.0,
        "factor on what every server offers: above 1, more is promised than there is",
        minimum=0.0,
        exclusive=True,
        maximum=MAX_FACTOR,
    ),
    Parameter(
        "horizon_s",
        "float",
        None,
        "the run ends this long after the first submission; none = when all jobs have ended",
        unit="s",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "slot_s",
        "float",
        None,
        "slot length, for policies that decide on a grid of slots",
        unit="s",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "truth",
        "choice",
        "rigid",
        "how jobs progress. rigid: a job runs for its duration while all its tasks are placed; placement: "
        "elastic jobs train as fast as their workers, parameter servers and their places allow; pd_ors: the "
        "same in the form of one paper; a_online: chunks are trained by workers, each for a time of its own, "
        "while the job has a parameter server",
        source="docs/training.md#speed; docs/models/a_online.md#problem; Peng et al., Yu et al., Wang et al.",
        choices=("rigid", "placement", "pd_ors", "a_online"),
    ),
    Parameter(
        "nic",
        "choice",
        "per_task",
        "what has a job's bandwidth to itself under truth=placement. per_task: each worker and parameter "
        "server; per_server: all on a server together; per_link: each pair of them",
        source="docs/training.md#placement-the-general-form",
        choices=("per_task", "per_server", "per_link"),
    ),
    Parameter(
        "parameter_blocks",
        "choice",
        EVEN,
        "how the parameters of a model go to its parameter servers under truth=placement, unless the policy "
        "has a rule of its own. even: in equal slices; the others deal out its blocks, and the fullest "
        "server counts. paa: Optimus's algorithm; mxnet: blocks below 10^6 parameters go whole to a random "
        "server, others evenly to all; tensorflow: whole blocks in turn",
        source="docs/training.md#parameter-blocks; Peng et al., EuroSys 2018, section 5.3",
        choices=(EVEN, *BlockRule),
    ),
    Parameter(
        "request_s",
        "float",
        0.0,
        "time that each request for parameters takes the worker that makes it and the parameter server that "
        "serves it under truth=placement, there and back; a worker makes one for each block, or piece of one",
        unit="s",
        source="docs/training.md#parameter-blocks; Peng et al., EuroSys 2018: PAA makes few requests",
        minimum=0.0,
    ),
    Parameter(
        "straggler_probability",
        "float",
        0.0,
        "probability with which a worker of a running elastic job becomes slow, every straggler_every_s; it "
        "stays slow until the job is placed anew",
        source="docs/models/optimus.md#slow-workers",
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter(
        "straggler_slowdown",
        "float",
        3.0,
        "how many times as long a slow worker takes",
        source="docs/models/optimus.md#slow-workers; Peng et al.: slower than half of the median",
        minimum=1.0,
        maximum=MAX_FACTOR,
    ),
    Parameter(
        "straggler_every_s",
        "float",
        600.0,
        "time between two occasions at which workers become slow",
        unit="s",
        source="docs/models/optimus.md#problem; the scheduling interval of Peng et al., 600 s",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "data_move_s",
        "float",
        0.0,
        "time to move all data of an elastic job; when its number of workers changes, the share that goes to "
        "other workers delays it, beside restart_cost_s",
        unit="s",
        source="docs/engine.md#elastic-jobs",
        minimum=0.0,
    ),
    Parameter(
        "slot_fill",
        "choice",
        "whole",
        "what chunk lengths and upload ends are rounded up to. whole: slots; fractional: microseconds",
        source="docs/models/a_online.md#our-choices, C6",
        choices=("whole", "fractional"),
    ),
    Parameter(
        "speed_up",
        "float",
        1.0,
        "factor on the mini-batches that every worker trains in a time; bounds stay those of 1",
        source="docs/models/a_online.md#problem; Wang et al., speed augmentation 1 + eps",
        minimum=1 / MAX_FACTOR,
        maximum=MAX_FACTOR,
    ),
    Parameter(
        "preemption_cost_s",
        "float",
        0.0,
        "chunks: time that a chunk needs its worker longer each time it has lost it to another in the midst "
        "of progress; rounded up like its length",
        unit="s",
        source="docs/models/a_online.md#problem; preemption is free in Wang et al.",
        minimum=0.0,
    ),
    Parameter(
        "deadline_factor",
        "float",
        None,
        "chunked jobs: a job is due so many times its shortest possible time after its submission; none = no "
        "deadlines, but utility_due_s where the workload has it",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "optimum_nodes",
        "int",
        None,
        "the utility certificate also has the exact optimum in whole slots, searched with at most so many "
        "nodes; for few jobs, slots and servers under truth=pd_ors. none = it has not",
        source="docs/models/certificates.md#exact-optimum; Yu et al. compare with an offline optimum",
        minimum=1,
    ),
)


_WHOLE_JOBS = ("rigid", "placement", "pd_ors")
_ELASTIC = (("placement", "pd_ors"), "is about elastic jobs")
_CHUNKS = (("a_online",), "is about chunks")
_ONLY_UNDER: dict[str, tuple[tuple[str, ...], str]] = {
    "slot_fill": _CHUNKS,
    "speed_up": (("a_online",), "is about workers of chunks"),
    "preemption_cost_s": _CHUNKS,
    "deadline_factor": (("a_online",), "is about jobs in chunks"),
    "optimum_nodes": (("pd_ors",), "the exact optimum knows how jobs train there only"),
    "overcommit": (_WHOLE_JOBS, "workers of chunks have slots of their own"),
    "restart_cost_s": (_WHOLE_JOBS, "chunks that are preempted pay preemption_cost_s"),
    "checkpoint_s": (_WHOLE_JOBS, "a chunk that loses its server begins anew"),
    "nic": (("placement",), "is about the places of elastic jobs"),
    "parameter_blocks": (("placement",), "is about the parameter servers of elastic jobs"),
    "request_s": (("placement",), "is about the parameter servers of elastic jobs"),
    "straggler_probability": _ELASTIC,
    "straggler_slowdown": _ELASTIC,
    "straggler_every_s": _ELASTIC,
    "data_move_s": _ELASTIC,
}
"""Truths under which a parameter has an effect, and why only there."""


def uses_seed(values: Mapping[str, Value]) -> bool:
    """Whether something is drawn in a world with these values of all `WORLD_PARAMETERS`."""
    probability = values["straggler_probability"]
    assert isinstance(probability, float)
    return probability > 0 or values["parameter_blocks"] == BlockRule.MXNET


def check_truth(values: Mapping[str, Value]) -> None:
    """Refuse facts that have no effect under the chosen truth."""
    defaults = {parameter.name: parameter.default for parameter in WORLD_PARAMETERS}
    for name, (truths, why) in _ONLY_UNDER.items():
        if values[name] != defaults[name] and values["truth"] not in truths:
            raise InvalidScenarioError(f"{name}: {why}; set truth={' or '.join(truths)}, or leave it out")
