"""Everything that a policy imports: what it subclasses, sees, asks and answers.

A policy is a subclass of `Policy`, or of `PriorityPolicy` where one number per job says it all. It gets a
`PolicyContext` before the run and a `View` at each decision, and answers with a `Decision`. Arrays in both
are read-only. docs/own_policies.md leads from three lines to a full decision.

====================  ===========================================================================
for                   names
====================  ===========================================================================
every policy          Policy, PolicyContext, View, JobColumns, Decision, NO_JOBS, Wake, Parameter, Streams,
                      WHOLE_TRACE
queues                PriorityPolicy, JobQueue, Order, QueueLevels, PLACEMENT, RULE_NAMES, backfill
placements of one's   VisiblePlacements, PlacementTable, Rows, allocation_changes, keeping_places,
own                   WORKER, PARAMETER_SERVER, ALL_REDUCE
elastic jobs          ElasticPolicy, ElasticContext, ElasticView, ElasticDecision, Estimates, Losses
chunked jobs          ChunkedPolicy, ChunkedContext, ChunkedView, ChunkedDecision, Dispatch, NewKeys,
                      UndispatchedChunks, WorkerLoads, ChunkWork, IncrementQuery, DispatchedChunks,
                      Rule, Offers
announced jobs        AnnouncedPolicy, AnnouncedContext, AnnouncedView, AnnouncedDecision, Launches, Charges,
                      Statements, Outlooks, StatementBounds, signals, longest_rounds,
                      statements_in_rounds, Quotes, Refusal, AuditedJobs, MechanismRecord
state and loops       State, kernel
====================  ===========================================================================
"""

from __future__ import annotations

from ray_sim.engine.allocation_diff import changes_to_target as allocation_changes
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import NO_JOBS, Decision, QueueLevels
from ray_sim.engine.equivalent_servers import keeping_places
from ray_sim.engine.job_queue import JobQueue
from ray_sim.engine.kinds.announced.bounds import StatementBounds
from ray_sim.engine.kinds.announced.decision import AnnouncedDecision, Charges, Launches
from ray_sim.engine.kinds.announced.policy import AnnouncedPolicy
from ray_sim.engine.kinds.announced.rounds import longest_rounds, signals, statements_in_rounds
from ray_sim.engine.kinds.announced.view import AnnouncedContext, AnnouncedView
from ray_sim.engine.kinds.chunked.context import ChunkedContext
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch, NewKeys
from ray_sim.engine.kinds.chunked.increment_query import IncrementQuery, Offers, Rule
from ray_sim.engine.kinds.chunked.policy import ChunkedPolicy
from ray_sim.engine.kinds.chunked.view import ChunkedView, ChunkWork, UndispatchedChunks, WorkerLoads
from ray_sim.engine.kinds.elastic.context import ElasticContext
from ray_sim.engine.kinds.elastic.decision import ElasticDecision, Estimates
from ray_sim.engine.kinds.elastic.policy import ElasticPolicy
from ray_sim.engine.kinds.elastic.view import ElasticView, Losses
from ray_sim.engine.placements import State, VisiblePlacements
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.engine.visible_columns import WHOLE_TRACE, JobColumns
from ray_sim.engine.wake import Wake
from ray_sim.kernels.chunked.increments import DispatchedChunks
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import ALL_REDUCE, PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.parameters import Parameter
from ray_sim.model.progress_rule import PlacementTable
from ray_sim.model.quotes import Quotes, Refusal
from ray_sim.model.statement import Outlooks, Statements
from ray_sim.model.streams import Streams
from ray_sim.model.welfare_audit import AuditedJobs, MechanismRecord
from ray_sim.policy_api.priority import PLACEMENT, PriorityPolicy, backfill

__all__ = [
    "ALL_REDUCE",
    "NO_JOBS",
    "PARAMETER_SERVER",
    "PLACEMENT",
    "RULE_NAMES",
    "WHOLE_TRACE",
    "WORKER",
    "AnnouncedContext",
    "AnnouncedDecision",
    "AnnouncedPolicy",
    "AnnouncedView",
    "AuditedJobs",
    "Charges",
    "ChunkWork",
    "ChunkedContext",
    "ChunkedDecision",
    "ChunkedPolicy",
    "ChunkedView",
    "Decision",
    "Dispatch",
    "DispatchedChunks",
    "ElasticContext",
    "ElasticDecision",
    "ElasticPolicy",
    "ElasticView",
    "Estimates",
    "IncrementQuery",
    "JobColumns",
    "JobQueue",
    "Launches",
    "Losses",
    "MechanismRecord",
    "NewKeys",
    "Offers",
    "Order",
    "Outlooks",
    "Parameter",
    "PlacementTable",
    "Policy",
    "PolicyContext",
    "PriorityPolicy",
    "QueueLevels",
    "Quotes",
    "Refusal",
    "Rows",
    "Rule",
    "State",
    "StatementBounds",
    "Statements",
    "Streams",
    "UndispatchedChunks",
    "View",
    "VisiblePlacements",
    "Wake",
    "WorkerLoads",
    "allocation_changes",
    "backfill",
    "keeping_places",
    "kernel",
    "longest_rounds",
    "signals",
    "statements_in_rounds",
]
