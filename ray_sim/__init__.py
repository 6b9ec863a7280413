"""ray_sim: replays cluster traces against schedulers for distributed training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ray_sim.lazy_names import lazy_names
from ray_sim.siblings import ALWAYS, UnderRaySim, import_sibling

if TYPE_CHECKING:
    from ray_sim import plots as plots
    from ray_sim.engine.build_world import build_world as build_world
    from ray_sim.engine.contract import Policy as Policy
    from ray_sim.engine.decision import Decision as Decision
    from ray_sim.engine.decision import Wake as Wake
    from ray_sim.engine.kinds.chunked.decision import ChunkedDecision as ChunkedDecision
    from ray_sim.engine.kinds.chunked.decision import Dispatch as Dispatch
    from ray_sim.engine.kinds.chunked.decision import NewKeys as NewKeys
    from ray_sim.engine.kinds.chunked.view import ChunkedPolicy as ChunkedPolicy
    from ray_sim.engine.kinds.chunked.view import ChunkedView as ChunkedView
    from ray_sim.engine.kinds.elastic.decision import ElasticDecision as ElasticDecision
    from ray_sim.engine.kinds.elastic.decision import Estimates as Estimates
    from ray_sim.engine.kinds.elastic.view import ElasticPolicy as ElasticPolicy
    from ray_sim.engine.kinds.elastic.view import ElasticView as ElasticView
    from ray_sim.engine.policy_context import PolicyContext as PolicyContext
    from ray_sim.engine.simulation import Simulation as Simulation
    from ray_sim.engine.view import View as View
    from ray_sim.experiments.inputs.cluster_file import load_cluster as load_cluster
    from ray_sim.experiments.run import simulate as simulate
    from ray_sim.experiments.sweep_results import SweepResults as SweepResults
    from ray_sim.interface.files import convert as convert
    from ray_sim.interface.files import describe as describe
    from ray_sim.interface.files import load as load
    from ray_sim.interface.files import report as report
    from ray_sim.interface.studies import compare as compare
    from ray_sim.interface.studies import plan as plan
    from ray_sim.interface.studies import run as run
    from ray_sim.interface.studies import sweep as sweep
    from ray_sim.kernels.compile import kernel as kernel
    from ray_sim.model.errors import RaySimError as RaySimError
    from ray_sim.model.metrics import Trim as Trim
    from ray_sim.model.parameters import Parameter as Parameter
    from ray_sim.model.result import RunResult as RunResult
    from ray_sim.policy_api.priority import PriorityPolicy as PriorityPolicy
    from workloads.describe import Workload as Workload
    from workloads.store import load_workload as load_workload

__version__ = "0.1.0"

for _name in ALWAYS:
    import_sibling(_name)
sys.meta_path.insert(0, UnderRaySim())

__getattr__, __dir__, __all__ = lazy_names(__name__)
