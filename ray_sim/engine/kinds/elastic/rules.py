"""Step-time rules of elastic jobs: one class for each value of ``-w truth=`` that has elastic jobs.

A further rule is a subclass of `StepTimeRule`, listed in `ray_sim.engine.kinds.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ray_sim.engine.kinds.base import KindParameter
from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.job import JobTable, TrainingProfile
from ray_sim.model.parameter_blocks import EVEN, BlockRule
from ray_sim.model.parameters import Parameter, Value
from ray_sim.model.training_progress import Nic, SpeedProgress, pd_ors_progress, placement_progress
from ray_sim.model.units import FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.solvers.training_limits import ServerPool, TrainingLimits


@dataclass(frozen=True, slots=True)
class StepTimeInputs:
    """Facts of a run from which a step-time rule makes its progress rule."""

    profile: TrainingProfile
    speed: FloatArray
    """(S,) of each server, > 0."""
    straggling: FloatArray
    """(J,) >= 1; the run changes it, so rates must read it each time."""
    loads: DealtLoads | None
    """Loads of parameter servers; equal slices where None."""
    values: Mapping[str, Value]
    """Values of all world parameters."""
    links: FloatArray | None
    """(S,) >= 1, factor on transfers over each server's interface; the run changes it. 1 where None."""


class StepTimeRule(ABC):
    """Rule of the time of a training step, from workers, parameter servers and their places."""

    truth: ClassVar[str]
    """Value of ``-w truth=``."""
    summary: ClassVar[str]
    source: ClassVar[str] = ""
    parameters: ClassVar[tuple[KindParameter, ...]] = ()
    """World parameters that only this rule heeds, or other rules that list them too."""
    deals_blocks: ClassVar[bool] = False
    """Whether parameter servers may bear unequal loads."""
    in_whole_slots: ClassVar[bool] = False
    """Whether the exact optimum in whole slots is known for it."""

    def shares_interfaces(self, values: Mapping[str, Value]) -> bool:
        """Whether the jobs on a server share the bandwidth of its interface."""
        return False

    def training(self, table: JobTable) -> TrainingProfile | None:
        """The training of the jobs as the rule sees it; None where the workload does not say it of all."""
        return table.training

    @abstractmethod
    def progress(self, inputs: StepTimeInputs) -> SpeedProgress:
        """Make the progress rule of a run.

        Raises
        ------
        InvalidInputError : a number with which a step takes no time, or no number at all
        """

    def limits(
        self, profile: TrainingProfile, jobs: IntArray, pool: ServerPool, values: Mapping[str, Value]
    ) -> TrainingLimits | None:
        """Bounds on speed and need of these jobs on a pool of servers; None where none are known."""
        return None


NIC = KindParameter(
    Parameter(
        "nic",
        "choice",
        "per_task",
        "what has a job's bandwidth to itself under truth=placement. per_task: each worker and parameter "
        "server; per_server: all on a server together, of all jobs; per_link: each pair of them",
        source="docs/training.md#placement-the-general-form",
        choices=("per_task", "per_server", "per_link"),
    ),
    "is about the places of elastic jobs",
)
PARAMETER_BLOCKS = KindParameter(
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
    "is about the parameter servers of elastic jobs",
)
REQUEST_S = KindParameter(
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
    "is about the parameter servers of elastic jobs",
)
OPTIMUM_NODES = KindParameter(
    Parameter(
        "optimum_nodes",
        "int",
        None,
        "maximum number of nodes in the search for the exact optimum of utility in whole slots, which the "
        "certificate then has; for few jobs, slots and servers under truth=pd_ors. none = no search",
        source="docs/certificates.md#exact-optimum; Yu et al. compare with an offline optimum",
        minimum=1,
    ),
    "the exact optimum knows how jobs train there only",
)


class PlacementRule(StepTimeRule):
    """General form: training, and the bottleneck transfer of the actual placement."""

    truth: ClassVar[str] = "placement"
    summary: ClassVar[str] = (
        "elastic jobs train as fast as their workers, parameter servers and their places allow"
    )
    source: ClassVar[str] = "docs/training.md#speed; Peng et al."
    parameters: ClassVar[tuple[KindParameter, ...]] = (NIC, PARAMETER_BLOCKS, REQUEST_S)
    deals_blocks: ClassVar[bool] = True

    def shares_interfaces(self, values: Mapping[str, Value]) -> bool:
        """With nic=per_server; the others give each job, or part of it, a bandwidth of its own."""
        return _nic(values) == Nic.PER_SERVER

    def progress(self, inputs: StepTimeInputs) -> SpeedProgress:
        """See `PlacementProgress`."""
        request_s = inputs.values["request_s"]
        assert isinstance(request_s, float)
        return placement_progress(
            inputs.profile,
            inputs.speed,
            _nic(inputs.values),
            inputs.straggling,
            inputs.loads,
            request_s,
            inputs.links,
        )

    def limits(
        self, profile: TrainingProfile, jobs: IntArray, pool: ServerPool, values: Mapping[str, Value]
    ) -> TrainingLimits | None:
        """See `placement_limits`."""
        from ray_sim.solvers.training_limits import placement_limits

        return placement_limits(profile, jobs, pool, _nic(values))


def _nic(values: Mapping[str, Value]) -> Nic:
    return Nic[str(values["nic"]).upper()]


class PdOrsRule(StepTimeRule):
    """Form of one paper: every worker takes the same time for a sample."""

    truth: ClassVar[str] = "pd_ors"
    summary: ClassVar[str] = "the same in the form of one paper"
    source: ClassVar[str] = "docs/models/pd_ors.md#problem; Yu et al."
    parameters: ClassVar[tuple[KindParameter, ...]] = (OPTIMUM_NODES,)
    in_whole_slots: ClassVar[bool] = True

    def training(self, table: JobTable) -> TrainingProfile | None:
        """With the bandwidths of pairs, where the workload has them."""
        if table.training is None or table.pairs is None:
            return table.training
        return table.pairs.of_training(table.training)

    def progress(self, inputs: StepTimeInputs) -> SpeedProgress:
        """See `PdOrsProgress`."""
        return pd_ors_progress(inputs.profile, inputs.speed, inputs.straggling, inputs.links)

    def limits(
        self, profile: TrainingProfile, jobs: IntArray, pool: ServerPool, values: Mapping[str, Value]
    ) -> TrainingLimits | None:
        """See `pd_ors_limits`."""
        from ray_sim.solvers.training_limits import pd_ors_limits

        return pd_ors_limits(profile, jobs, pool)
