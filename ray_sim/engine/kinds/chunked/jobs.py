"""Chunked jobs: workers train chunks of their data one by one, while a parameter server serves the job."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ray_sim.engine.kinds.base import JobKind, KindParameter
from ray_sim.model.parameters import MAX_FACTOR, Parameter

if TYPE_CHECKING:
    from ray_sim.certificates.jct import JctLimits
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.chunked.facts import ChunkFacts
    from ray_sim.engine.kinds.chunked.run import ChunkedRun
    from ray_sim.engine.kinds.facts import WorldSetting
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.streams import Streams
    from ray_sim.model.units import IntArray

CHUNKED = "chunked"
"""Value of `Policy.schedules` of policies that dispatch chunks."""


class ChunkedJobs(JobKind):
    """Jobs whose chunks are dispatched to workers at the edge or in a cloud."""

    truth = "a_online"
    jobs = "chunked"
    accepts = frozenset({CHUNKED})
    summary = (
        "chunks are trained by workers, each for a time of its own, while the job has a parameter server"
    )
    source = "docs/models/a_online.md#problem; Wang et al."
    columns = frozenset({"chunk_profile", "deadline"})
    heeds = frozenset({"delays"})
    untyped = "workers that train chunks are chosen by load and memory only"
    observations = frozenset({"worker_load"})
    faults = frozenset({"end", "stop"})
    unheeded = MappingProxyType(
        {
            "overcommit": "workers of chunks have slots of their own",
            "restart_cost_s": "chunks that are preempted pay preemption_cost_s",
            "attempts": "the attempts of a trace are told in time, chunks are done one by one",
            "checkpoint_s": "a chunk that is lost begins anew, a completed one stays",
        }
    )
    parameters = (
        KindParameter(
            Parameter(
                "slot_fill",
                "choice",
                "whole",
                "what chunk lengths and upload ends are rounded up to. whole: slots; fractional: "
                "microseconds",
                source="docs/models/a_online.md#our-choices, C6",
                choices=("whole", "fractional"),
            ),
            "is about chunks",
        ),
        KindParameter(
            Parameter(
                "speed_up",
                "float",
                1.0,
                "factor on the mini-batches that every worker trains in a time; bounds stay those of 1",
                source="docs/models/a_online.md#problem; Wang et al., speed augmentation 1 + eps",
                minimum=1 / MAX_FACTOR,
                maximum=MAX_FACTOR,
            ),
            "is about workers of chunks",
        ),
        KindParameter(
            Parameter(
                "preemption_cost_s",
                "float",
                0.0,
                "chunks: time that a chunk needs its worker longer each time it has lost it to another in "
                "the midst of progress; rounded up like its length",
                unit="s",
                source="docs/models/a_online.md#problem; preemption is free in Wang et al.",
                minimum=0.0,
            ),
            "is about chunks",
        ),
        KindParameter(
            Parameter(
                "deadline_factor",
                "float",
                None,
                "deadline of a chunked job after its submission, as a multiple of its shortest time; "
                "none = utility_due_s where the workload has it, else no deadlines",
                minimum=0.0,
                exclusive=True,
                source="docs/engine.md#chunked-jobs",
            ),
            "is about jobs in chunks",
        ),
    )

    def facts(self, setting: WorldSetting) -> ChunkFacts:
        """Make the facts of a world with the deadlines of its jobs, see `ChunkFacts`."""
        from ray_sim.engine.kinds.chunked.deadlines import deadlines_us
        from ray_sim.engine.kinds.chunked.facts import ChunkFacts

        facts, factor = ChunkFacts.of(setting), setting.values["deadline_factor"]
        assert factor is None or isinstance(factor, float)
        return replace(facts, due_us=deadlines_us(setting.table, facts.at_speed_one, factor))

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> ChunkedRun:
        """Start a run."""
        from ray_sim.engine.kinds.chunked.facts import ChunkFacts
        from ray_sim.engine.kinds.chunked.run import ChunkedRun

        return ChunkedRun(core, ChunkFacts.in_world(core.world))

    def alone_us(self, world: World) -> None:
        """None: `duration_s` is not read."""

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits:
        """Chunks on the workers of their partition, and in its cloud."""
        from ray_sim.engine.kinds.chunked.facts import ChunkFacts
        from ray_sim.engine.kinds.chunked.jct_limits import chunk_limits

        return chunk_limits(world, ChunkFacts.in_world(world), jobs)
