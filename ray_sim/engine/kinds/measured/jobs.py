"""Measured jobs: gangs on GPUs of one type, as fast as a table of measured speeds says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray_sim.engine.kinds.base import BOUND_CELLS, GANGS, JobKind, KindParameter
from ray_sim.model.parameters import Parameter

if TYPE_CHECKING:
    from ray_sim.certificates.jct import JctLimits, NoJctLimits
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.facts import WorldSetting
    from ray_sim.engine.kinds.measured.facts import MeasuredFacts
    from ray_sim.engine.kinds.measured.run import MeasuredRun
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.streams import Streams
    from ray_sim.model.units import IntArray

MEASURED = "measured"
"""Value of `Policy.schedules` of policies that plan by measured speeds."""

_PAGE = "docs/models/gavel.md#speeds"

PARAMETERS = tuple(
    KindParameter(each, "is about jobs whose speeds were measured")
    for each in (
        Parameter(
            "consolidation",
            "bool",
            True,
            "whether a gang on several servers has its unconsolidated speed; false = the consolidated one "
            "wherever it is, as in the simulator of Narayanan et al.",
            source=_PAGE,
        ),
        Parameter(
            "unmeasured_spread",
            "choice",
            "refuse",
            "a gang whose speed was measured on one server only. refuse: it stays on one; consolidated: it "
            "is as fast on several",
            choices=("refuse", "consolidated"),
            source=_PAGE,
        ),
        Parameter(
            "scale",
            "choice",
            "none",
            "a job whose model was not measured on its number of GPUs. none: it is rejected; nearest: it has "
            "the speed on the next smaller number that was measured, in proportion",
            choices=("none", "nearest"),
            source=_PAGE,
        ),
        Parameter(
            "packing",
            "bool",
            False,
            "whether two jobs of one GPU may share it, at the speeds measured for the pair",
            source="docs/models/gavel.md#packing",
        ),
        Parameter(
            "mixed_types",
            "choice",
            "refuse",
            "a gang on GPUs of several types. refuse: no policy may place one; slowest: it has the least of "
            "its speeds there",
            choices=("refuse", "slowest"),
            source=_PAGE,
        ),
    )
)


class MeasuredJobs(JobKind):
    """Gangs at the measured speed of their GPU type, on one server or over several."""

    truth = "measured"
    jobs = "measured"
    accepts = frozenset({GANGS, MEASURED})
    summary = "a job does its steps at the speed measured for its model on the GPU type that it holds"
    source = "docs/models/gavel.md#speeds; Narayanan et al., OSDI 2020"
    parameters = (*PARAMETERS, BOUND_CELLS)
    columns = frozenset({"steps", "measured_speeds"})
    heeds = frozenset({"speeds"})
    faults = frozenset({"stop", "end"})
    task_by_task = False

    def facts(self, setting: WorldSetting) -> MeasuredFacts:
        """Make the facts of a world, see `MeasuredFacts`."""
        from ray_sim.engine.kinds.measured.facts import MeasuredFacts

        return MeasuredFacts.of(setting)

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> MeasuredRun:
        """Start a run."""
        from ray_sim.engine.kinds.measured.run import MeasuredRun

        return MeasuredRun(core)

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits | None:
        """Gangs at their fastest speed, and GPUs priced by type."""
        from ray_sim.engine.kinds.measured.limits import measured_jct_limits

        return measured_jct_limits(world, jobs)
