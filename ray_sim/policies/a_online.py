"""A_online: send each chunk where it adds least to the average flow time; workers serve the fastest first.

Wang, Zhou, Jiao, Zhang, Li, Li: Preemptive Scheduling for Distributed ML Jobs in Edge-Cloud Networks, IEEE
JSAC 40(8), 2022. Symbols, as in docs/models/a_online.md#problem and #increment: D is the number of chunks of
a job, p the length of one chunk on a worker, Q the increment (what a chunk adds to the sum F of flow times),
and zeta says whether a job trains in the cloud only, without communication. The increment has four terms:
upload, waiting, own training and delay of others. C1 to C9 number our choices (#our-choices).

The engine calls `start`, `decide`, `counts` and `timeline_columns`; `GreedyDispatch` calls `keys`
and `offers`, `ChunkPolicy` calls `pick_ps`. Sort orders, ties and the entities that key
the draws decide results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.deadline_urgency import DeadlineUrgency
from ray_sim.policies.shared.chunk_dispatch import PREEMPT
from ray_sim.policies.shared.greedy_dispatch import GreedyDispatch
from ray_sim.policies.shared.parameter_servers import Pick
from ray_sim.policy_api import (
    ChunkedContext,
    ChunkedDecision,
    ChunkedView,
    DispatchedChunks,
    IncrementQuery,
    Offers,
    Parameter,
    Rule,
    Streams,
)

_RULES = {"greedy": Rule.CHEAPEST, "least_loaded": Rule.LEAST_LOADED, "random": Rule.GIVEN_ORDER}

_NOTHING: IntArray = np.empty(0, dtype=np.int64)


class AOnline(GreedyDispatch):
    """Send each chunk where it adds least to the average flow time; workers serve the fastest first."""

    name: ClassVar[str] = "a_online"
    section: ClassVar[str] = "docs/models/a_online.md#algorithm (Wang et al., JSAC 2022)"
    summary: ClassVar[str] = "each chunk where it adds least to flow times, edge or cloud; fastest first"
    sees: frozenset[str] = GreedyDispatch.sees | {"deadline"}
    uses_seed: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "dispatch",
            "choice",
            "greedy",
            "edge worker for a chunk: the one with the smallest increment Q, the one with the least work "
            "left, or a random one; a chunk goes to the cloud if Q is smaller there",
            source="docs/models/a_online.md#dispatch; greedy as Wang et al., the others are ablations",
            choices=tuple(_RULES),
        ),
        Parameter(
            "queue",
            "choice",
            "rate",
            "order on a worker: largest average rate 1 / (D p) first, or first dispatched first, "
            "without preemption",
            source="docs/models/a_online.md#order-on-a-worker; rate as Wang et al., fifo is an ablation",
            choices=("rate", "fifo"),
        ),
        PREEMPT,
        Parameter(
            "uploads",
            "choice",
            "counted",
            "whether earlier chunks that are still in upload at the end of a chunk's own count in its Q",
            source="docs/models/a_online.md#our-choices, C4",
            choices=("counted", "ignored"),
        ),
        Parameter(
            "mixed_cloud",
            "bool",
            True,
            "whether later chunks of a job may go to the cloud after its first went to an edge",
            source="docs/models/a_online.md#our-choices, C2",
        ),
        Parameter(
            "exact_q",
            "bool",
            False,
            "use the exact change of the total instead of the four terms",
            source="docs/models/a_online.md#our-choices, C4",
        ),
        Parameter(
            "deadlines",
            "choice",
            "none",
            "danger: chunks of a job in danger of missing its deadline go before all others, earliest "
            "deadline first; none: deadlines are ignored, as published",
            choices=("none", "danger"),
            source="docs/models/a_online.md#parameters",
        ),
        Parameter(
            "slack",
            "float",
            2.0,
            "deadlines=danger: a job is in danger when the time to its deadline is less than this factor "
            "times the time that its chunks still need",
            minimum=1.0,
            exclusive=True,
            source="docs/models/a_online.md#parameters",
        ),
    )

    def __init__(
        self,
        dispatch: str = "greedy",
        queue: str = "rate",
        preempt: bool = False,
        uploads: str = "counted",
        mixed_cloud: bool = True,
        exact_q: bool = False,
        deadlines: str = "none",
        slack: float = 2.0,
    ) -> None:
        if exact_q and queue == "fifo":
            raise InvalidScenarioError(
                "exact_q: the exact change assumes queues by rate; set queue=rate or exact_q=false"
            )
        self._rule, self._by_rate = _RULES[dispatch], queue == "rate"
        self.mixed, self._exact, self._counted = mixed_cloud, exact_q, uploads == "counted"
        self.overtake = preempt and self._by_rate
        self._urgency = DeadlineUrgency(slack) if deadlines == "danger" else None
        self._betas = np.zeros((64, 2))
        self._beta_count = 0
        """Rows used of (decision time in microseconds, mean beta of the workers)."""

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Find the workers at edges for random dispatch."""
        super().start(world, streams)
        self._streams = streams
        workers = world.workers
        self._edge_workers = np.flatnonzero(~workers.on_demand)
        self._edge_server = workers.server[self._edge_workers]
        if self._urgency is not None:
            self._urgency.start(world)

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        """Record beta, find jobs in danger, dispatch chunks and assign parameter servers."""
        if view.at_slot and self._by_rate:
            self._note_beta(view)
        keys = None if self._urgency is None else self._urgency.look(view)
        decision = super().decide(view)
        if self._urgency is None:
            return decision
        review_us = self._urgency.review_us(view.now_us, dispatched=decision.dispatch is not None)
        return replace(decision, keys=keys, review_us=review_us)

    def _note_beta(self, view: ChunkedView) -> None:
        betas = view.betas()
        if self._beta_count == len(self._betas):
            self._betas = np.concatenate([self._betas, np.zeros_like(self._betas)])
        self._betas[self._beta_count] = view.now_us, betas.mean() if len(betas) else 0.0
        self._beta_count += 1

    def pick_ps(self, view: ChunkedView) -> Pick:
        """Pick uniformly, by a draw keyed by job and slot."""
        slot = view.now_us // (self._world.slot_us or 1)

        def draw(jobs: IntArray) -> FloatArray:
            return self._streams.uniforms("parameter-server", jobs, np.full(len(jobs), slot))

        return draw

    def keys(self, job: int, length_us: IntArray) -> IntArray:
        """Queue keys by the lengths on the workers: D p; by deadline in danger; equal with queue=fifo."""
        if self._urgency is not None and self._urgency.found[job]:
            return np.full_like(length_us, self._urgency.keys[job])
        return length_us * self._world.jobs.chunks[job] if self._by_rate else np.zeros_like(length_us)

    def offers(self, view: ChunkedView, job: int, units: IntArray, sent: DispatchedChunks) -> Offers:
        """Ask the sites for increments Q, times D."""
        of_kind = np.array([job]), self._world.workers.of_kind
        length_us = self._world.chunk_us(*of_kind)
        drawn = self._drawn(view, job, units) if self._rule == Rule.GIVEN_ORDER else _NOTHING
        query = IncrementQuery(
            count=len(units),
            partition=int(view.jobs.partition[job]),
            memory_level=int(self._world.eligible.workers_need[job]),
            ready_us=self._world.ready_us(view.now_us, *of_kind),
            length_us=length_us,
            key=self.keys(job, length_us),
            inverse_rate=length_us * view.jobs.chunks[job],
            rule=self._rule,
            preempt=self.overtake,
            exact=self._exact,
            given_workers=drawn,
            dispatched=sent,
            counted=self._counted,
        )
        return view.increments(query)

    def _drawn(self, view: ChunkedView, job: int, units: IntArray) -> IntArray:
        """Edge worker of each chunk, by a draw keyed by job and chunk; empty if no worker is available."""
        mine = self._worker_partition[self._edge_workers] == view.jobs.partition[job]
        mine &= self._worker_offer[self._edge_workers] >= self._world.eligible.workers_need[job]
        edge_workers = self._edge_workers[mine & view.available[self._edge_server]]
        draws = self._streams.uniforms("dispatch", np.full(len(units), job), units)
        return edge_workers[(draws * len(edge_workers)).astype(np.int64)] if len(edge_workers) else _NOTHING

    def counts(self) -> dict[str, int]:
        """Jobs by destination; jobs that were in danger."""
        in_danger = {} if self._urgency is None else {"in_danger": int(self._urgency.found.sum())}
        return {**super().counts(), **in_danger}

    def timeline_columns(self) -> dict[str, tuple[IntArray, FloatArray]]:
        """Beta, a dual variable of the paper: the sum of (work left) / (D p) over a worker's chunks.

        Values are means over workers, at the decisions in slots, before dispatch.
        """
        if not self._by_rate:
            return {}
        noted = self._betas[: self._beta_count]
        return {"beta": (noted[:, 0].astype(np.int64), noted[:, 1])}
