"""Announced jobs: submitted with a statement of work before they come, started once, never preempted."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ray_sim.engine.kinds.announced.misreports import PARAMETERS as MISREPORTS
from ray_sim.engine.kinds.base import JobKind, KindParameter
from ray_sim.model.parameters import Parameter

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
    from ray_sim.engine.kinds.announced.run import AnnouncedRun
    from ray_sim.engine.kinds.facts import WorldSetting
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.streams import Streams
    from ray_sim.model.units import IntArray

ANNOUNCED = "announced"
"""Value of `Policy.schedules` of policies for announced jobs."""

_SOURCE = "docs/models/posted_price.md#problem; Babaioff et al., section 2"

_BOUNDS = (
    Parameter(
        "signal",
        "choice",
        "full",
        "what the platform is told of the duration when an announced job comes. full: the duration; partial: "
        "the binary digits of its rounds; none: nothing, so that a job may pay more than it is worth",
        source=_SOURCE,
        choices=("none", "partial", "full"),
    ),
    Parameter(
        "most_gpus",
        "int",
        None,
        "C_m, the most GPUs that a statement may name; none = the most that is reported, with a warning",
        source=_SOURCE,
        minimum=1,
        maximum=2**20,
    ),
    Parameter(
        "most_duration_s",
        "float",
        None,
        "D_m, the longest duration of a job; none = the longest that is reported, with a warning",
        unit="s",
        source=_SOURCE,
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "most_value",
        "float",
        None,
        "H: positive values in statements are from 1 to this; none = the highest that is reported, with a "
        "warning",
        source=_SOURCE,
        minimum=1.0,
        maximum=1e9,
    ),
    Parameter(
        "most_delay_s",
        "float",
        None,
        "S_m, the longest time after the birth at which a value may be above 0; none = the longest that is "
        "reported, with a warning where it counts",
        unit="s",
        source=_SOURCE,
        minimum=0.0,
    ),
    Parameter(
        "clip_statements",
        "bool",
        False,
        "whether statements beyond the bounds are cut to them, and counted; else they are refused",
        source="docs/engine.md#announced-jobs",
    ),
)


class AnnouncedJobs(JobKind):
    """Jobs that are known by a statement of work before they come."""

    truth = "announced"
    jobs = "announced"
    accepts = frozenset({ANNOUNCED})
    summary = "a job is announced at its birth, comes later, and runs once for its duration on a pool of GPUs"
    untyped = "announced jobs run on one pool of equal GPUs"
    source = _SOURCE
    columns = frozenset({"statements"})
    faults = frozenset({"end"})
    unheeded = MappingProxyType(
        {
            "restart_cost_s": "announced jobs are never preempted",
            **dict.fromkeys(("attempts", "retries", "preemption", "checkpoint_s"), "announced jobs run once"),
            "availability": "nodes of announced jobs do not fail",
        }
    )
    parameters = tuple(KindParameter(each, "is about announced jobs") for each in (*_BOUNDS, *MISREPORTS))

    def facts(self, setting: WorldSetting) -> AnnouncedFacts:
        """Make the facts of a world, see `AnnouncedFacts`."""
        from ray_sim.engine.kinds.announced.facts import AnnouncedFacts

        return AnnouncedFacts.of(setting)

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> AnnouncedRun:
        """Start a run."""
        from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
        from ray_sim.engine.kinds.announced.run import AnnouncedRun
        from ray_sim.engine.kinds.announced.view import AnnouncedPolicy

        assert isinstance(policy, AnnouncedPolicy), "takes ANNOUNCED"
        return AnnouncedRun(core, AnnouncedFacts.in_world(core.world), policy)

    def jct_limits(self, world: World, jobs: IntArray) -> None:
        """None: a bound on the welfare stands in its place."""
