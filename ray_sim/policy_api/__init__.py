"""Everything that a policy imports: what it subclasses, sees, asks and answers.

A policy is a subclass of `Policy`, or of `PriorityPolicy` where one number per job says it all. It gets a
`PolicyContext` before the run and a `View` at each decision, and answers with a `Decision`. Arrays in both
are read-only. docs/own_policies.md leads from three lines to a full decision.

====================  ===========================================================================
for                   names
====================  ===========================================================================
every policy          Policy, PolicyContext, View, JobColumns, Decision, Causes, NO_JOBS, Wake, Parameter,
                      Streams, WHOLE_TRACE
queues                PriorityPolicy, JobQueue, Order, QueueLevels, PLACEMENT, NO_ROOM, KNOWING_RULES,
                      RULE_NAMES, GPU_TYPE, FASTEST, KEY, backfill
placements of one's   VisiblePlacements, Placer, PlacementTable, Rows, allocation_changes, keeping_places,
own                   WORKER, PARAMETER_SERVER, ALL_REDUCE
elastic jobs          ElasticPolicy, ElasticContext, ElasticView, ElasticDecision, Estimates, Losses
chunked jobs          ChunkedPolicy, ChunkedContext, ChunkedView, ChunkedDecision, Dispatch, NewKeys,
                      UndispatchedChunks, WorkerLoads, ChunkWork, IncrementQuery, DispatchedChunks,
                      Rule, Offers
measured jobs         MeasuredDecision, Guests, JobSpeeds
announced jobs        AnnouncedPolicy, AnnouncedContext, AnnouncedView, AnnouncedDecision, Launches, Charges,
                      Statements, Outlooks, StatementBounds, signals, longest_rounds,
                      statements_in_rounds, Quotes, Refusal, RoundedJobs, MechanismRecord
state and loops       State, Stateless, joined, section, within, all_within, sorted_indices, kernel
====================  ===========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray_sim.lazy_names import lazy_names

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy as Policy
    from ray_sim.engine.decision import NO_JOBS as NO_JOBS
    from ray_sim.engine.decision import Causes as Causes
    from ray_sim.engine.decision import Decision as Decision
    from ray_sim.engine.decision import QueueLevels as QueueLevels
    from ray_sim.engine.decision import Wake as Wake
    from ray_sim.engine.job_queue import FASTEST as FASTEST
    from ray_sim.engine.job_queue import JobQueue as JobQueue
    from ray_sim.engine.kinds.announced.bounds import StatementBounds as StatementBounds
    from ray_sim.engine.kinds.announced.decision import AnnouncedDecision as AnnouncedDecision
    from ray_sim.engine.kinds.announced.decision import Charges as Charges
    from ray_sim.engine.kinds.announced.decision import Launches as Launches
    from ray_sim.engine.kinds.announced.rounds import RoundedJobs as RoundedJobs
    from ray_sim.engine.kinds.announced.rounds import longest_rounds as longest_rounds
    from ray_sim.engine.kinds.announced.rounds import signals as signals
    from ray_sim.engine.kinds.announced.rounds import statements_in_rounds as statements_in_rounds
    from ray_sim.engine.kinds.announced.view import AnnouncedContext as AnnouncedContext
    from ray_sim.engine.kinds.announced.view import AnnouncedPolicy as AnnouncedPolicy
    from ray_sim.engine.kinds.announced.view import AnnouncedView as AnnouncedView
    from ray_sim.engine.kinds.chunked.decision import ChunkedDecision as ChunkedDecision
    from ray_sim.engine.kinds.chunked.decision import Dispatch as Dispatch
    from ray_sim.engine.kinds.chunked.decision import NewKeys as NewKeys
    from ray_sim.engine.kinds.chunked.increment_query import IncrementQuery as IncrementQuery
    from ray_sim.engine.kinds.chunked.increment_query import Offers as Offers
    from ray_sim.engine.kinds.chunked.increment_query import Rule as Rule
    from ray_sim.engine.kinds.chunked.view import ChunkedContext as ChunkedContext
    from ray_sim.engine.kinds.chunked.view import ChunkedPolicy as ChunkedPolicy
    from ray_sim.engine.kinds.chunked.view import ChunkedView as ChunkedView
    from ray_sim.engine.kinds.chunked.view import ChunkWork as ChunkWork
    from ray_sim.engine.kinds.chunked.view import UndispatchedChunks as UndispatchedChunks
    from ray_sim.engine.kinds.chunked.view import WorkerLoads as WorkerLoads
    from ray_sim.engine.kinds.elastic.decision import ElasticDecision as ElasticDecision
    from ray_sim.engine.kinds.elastic.decision import Estimates as Estimates
    from ray_sim.engine.kinds.elastic.view import ElasticContext as ElasticContext
    from ray_sim.engine.kinds.elastic.view import ElasticPolicy as ElasticPolicy
    from ray_sim.engine.kinds.elastic.view import ElasticView as ElasticView
    from ray_sim.engine.kinds.elastic.view import Losses as Losses
    from ray_sim.engine.kinds.measured.decision import Guests as Guests
    from ray_sim.engine.kinds.measured.decision import MeasuredDecision as MeasuredDecision
    from ray_sim.engine.kinds.measured.speeds import JobSpeeds as JobSpeeds
    from ray_sim.engine.migrations import allocation_changes as allocation_changes
    from ray_sim.engine.migrations import keeping_places as keeping_places
    from ray_sim.engine.placements import VisiblePlacements as VisiblePlacements
    from ray_sim.engine.placer import Placer as Placer
    from ray_sim.engine.policy_context import PolicyContext as PolicyContext
    from ray_sim.engine.states import State as State
    from ray_sim.engine.states import Stateless as Stateless
    from ray_sim.engine.states import all_within as all_within
    from ray_sim.engine.states import joined as joined
    from ray_sim.engine.states import section as section
    from ray_sim.engine.states import sorted_indices as sorted_indices
    from ray_sim.engine.states import within as within
    from ray_sim.engine.view import View as View
    from ray_sim.engine.visible_columns import WHOLE_TRACE as WHOLE_TRACE
    from ray_sim.engine.visible_columns import JobColumns as JobColumns
    from ray_sim.kernels.chunked.increments import DispatchedChunks as DispatchedChunks
    from ray_sim.kernels.compile import kernel as kernel
    from ray_sim.kernels.core.arrays import ALL_REDUCE as ALL_REDUCE
    from ray_sim.kernels.core.arrays import PARAMETER_SERVER as PARAMETER_SERVER
    from ray_sim.kernels.core.arrays import WORKER as WORKER
    from ray_sim.kernels.core.job_rows import Rows as Rows
    from ray_sim.kernels.core.placement import RULE_NAMES as RULE_NAMES
    from ray_sim.kernels.core.replay_state import Order as Order
    from ray_sim.model.parameters import Parameter as Parameter
    from ray_sim.model.progress_rule import PlacementTable as PlacementTable
    from ray_sim.model.quotes import Quotes as Quotes
    from ray_sim.model.quotes import Refusal as Refusal
    from ray_sim.model.statement import Outlooks as Outlooks
    from ray_sim.model.statement import Statements as Statements
    from ray_sim.model.streams import Streams as Streams
    from ray_sim.model.welfare_audit import MechanismRecord as MechanismRecord
    from ray_sim.policy_api.priority import GPU_TYPE as GPU_TYPE
    from ray_sim.policy_api.priority import KEY as KEY
    from ray_sim.policy_api.priority import KNOWING_RULES as KNOWING_RULES
    from ray_sim.policy_api.priority import NO_ROOM as NO_ROOM
    from ray_sim.policy_api.priority import PLACEMENT as PLACEMENT
    from ray_sim.policy_api.priority import PriorityPolicy as PriorityPolicy
    from ray_sim.policy_api.priority import backfill as backfill

__getattr__, __dir__, __all__ = lazy_names(__name__)
