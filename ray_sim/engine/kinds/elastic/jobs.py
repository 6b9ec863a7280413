"""Elastic jobs: the policy decides how many workers and parameter servers each holds.

`ray_sim.engine.kinds.registry` lists this kind; the engine knows it as a `JobKind` only. Names, ranges and
defaults of `PARAMETERS` are part of scenario files and of the identity of runs: a change breaks files or
changes results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ray_sim.engine.gpu_shares import GPU_SHARES
from ray_sim.engine.kinds.base import BOUND_CELLS, GANGS, JobKind, KindParameter
from ray_sim.engine.kinds.elastic.rules import StepTimeRule
from ray_sim.model.parameter_blocks import AS_WORLD, BlockRule
from ray_sim.model.parameters import MAX_FACTOR, Parameter, Value

if TYPE_CHECKING:
    from ray_sim.certificates.jct import JctLimits, NoJctLimits
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.elastic.facts import ElasticFacts
    from ray_sim.engine.kinds.elastic.run import ElasticRun
    from ray_sim.engine.kinds.facts import WorldSetting
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.result import UtilityCertificate
    from ray_sim.model.streams import Streams
    from ray_sim.model.units import BoolArray, IntArray

ELASTIC = "elastic"
"""Value of `Policy.schedules` of policies that decide how many workers and parameter servers jobs get."""

PARAMETERS = tuple(
    KindParameter(each, "is about elastic jobs")
    for each in (
        Parameter(
            "straggler_probability",
            "float",
            0.0,
            "probability with which a worker of a running elastic job becomes slow, every straggler_every_s; "
            "it stays slow until the job is placed anew",
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
            "time between two instants at which workers become slow",
            unit="s",
            source="docs/models/optimus.md#problem; the scheduling interval of Peng et al., 600 s",
            minimum=0.0,
            exclusive=True,
        ),
        Parameter(
            "data_move_s",
            "float",
            0.0,
            "time to move all data of an elastic job; when its number of workers changes, the share that "
            "goes to other workers delays it, beside restart_cost_s",
            unit="s",
            source="docs/engine.md#elastic-jobs",
            minimum=0.0,
        ),
    )
)


class ElasticJobs(JobKind):
    """Jobs that train samples with workers and parameter servers, under one step-time rule."""

    # `JobKind` explains the class attributes.
    jobs = "elastic"
    faults = frozenset({"stop", "end"})
    accepts = frozenset({GANGS, ELASTIC})
    columns = frozenset({"training_profile", "losses"})
    heeds = frozenset({"interference", "links"})
    observations = frozenset({"training_speed", "slow_workers", "losses"})

    def __init__(self, rule: StepTimeRule) -> None:
        self._rule = rule
        self.truth = rule.truth
        self.summary = rule.summary
        self.source = rule.source
        self.parameters = (*rule.parameters, *PARAMETERS, BOUND_CELLS, GPU_SHARES)

    def facts(self, setting: WorldSetting) -> ElasticFacts:
        """Make the facts of a world, see `ElasticFacts`."""
        from ray_sim.engine.kinds.elastic.facts import ElasticFacts

        return ElasticFacts.of(setting, self._rule)

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> ElasticRun:
        """Start a run. A policy for gangs gives every job the workers and parameter servers it asks for."""
        from ray_sim.engine.kinds.elastic.facts import ElasticFacts
        from ray_sim.engine.kinds.elastic.limits import check_optimum
        from ray_sim.engine.kinds.elastic.run import ElasticRun
        from ray_sim.engine.kinds.elastic.view import ElasticPolicy

        check_optimum(core.world)
        blocks = policy.parameter_blocks if isinstance(policy, ElasticPolicy) else AS_WORLD
        return ElasticRun(core, ElasticFacts.in_world(core.world), streams, blocks)

    def draws(self, values: Mapping[str, Value]) -> bool:
        """Whether workers become slow, or blocks go to random parameter servers, as those of MXNet do."""
        probability = values["straggler_probability"]
        assert isinstance(probability, float)
        return probability > 0 or values["parameter_blocks"] == BlockRule.MXNET

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits:
        """See `training_jct_limits`."""
        from ray_sim.engine.kinds.elastic.limits import training_jct_limits

        return training_jct_limits(world, jobs)

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """See `certify_world_utility`."""
        from ray_sim.engine.kinds.elastic.limits import certify_world_utility

        return certify_world_utility(world, earned, counted)
