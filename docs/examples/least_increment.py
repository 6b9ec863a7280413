"""Level 3 for jobs in chunks: each chunk goes to the edge worker where it adds least to the flow times."""

import numpy as np
from chunks_in_turn import ChunksInTurn

from ray_sim.policy_api import ChunkedDecision, Dispatch, DispatchedChunks, IncrementQuery, Rule


class LeastIncrement(ChunksInTurn):
    """Queues in order of dispatch; the sites tell at which workers the increments are least."""

    sees = frozenset({"chunk_profile", "worker_load"})

    def decide(self, view):
        rows, dispatched = [], DispatchedChunks.none()  # what this decision sends
        for job in np.union1d(view.waiting, view.running).tolist():
            chunks = view.undispatched(np.array([job])).unit
            query = self.question(view, job, len(chunks), dispatched)
            workers = view.increments(query).worker if len(chunks) else chunks
            if not len(workers):  # no edge server may train them: to a cloud, if there is one
                workers = np.repeat(self.workers_for(view, job)[:1], len(chunks))
            if len(workers):
                rows += [(job, int(chunk), int(w), 0) for chunk, w in zip(chunks, workers, strict=True)]
                work_us = self.world.chunk_us(np.array([job]), workers)
                more = DispatchedChunks(
                    worker=workers,
                    key=np.zeros_like(work_us),
                    inverse_rate=work_us * view.jobs.chunks[job],
                    ready_us=self.world.ready_us(view.now_us, np.array([job]), workers),
                    work_us=work_us,
                )
                dispatched = dispatched.plus(more)
        columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        dispatch = Dispatch(*columns, overtake=False)
        return ChunkedDecision.of(self.parameter_servers(view), dispatch=dispatch)

    def question(self, view, job, count, dispatched):
        """Query: the workers at which ``count`` chunks, uploaded from now on, add least to flow times."""
        world, of_kind = self.world, (np.array([job]), self.world.workers.of_kind)
        length_us = world.chunk_us(*of_kind)
        return IncrementQuery(
            count=count,
            partition=int(view.jobs.partition[job]),
            memory_level=int(world.eligible.workers_need[job]),
            ready_us=world.ready_us(view.now_us, *of_kind),
            length_us=length_us,
            key=np.zeros_like(length_us),  # equal keys: in order of dispatch
            inverse_rate=length_us * view.jobs.chunks[job],
            rule=Rule.CHEAPEST,
            preempt=False,
            exact=True,
            given_workers=np.empty(0, dtype=np.int64),  # for Rule.GIVEN_ORDER only
            dispatched=dispatched,
        )
