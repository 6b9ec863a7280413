"""ray_sim: replays cluster traces against schedulers for distributed training."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ray_sim.siblings import ALWAYS, UnderRaySim, import_sibling

if TYPE_CHECKING:
    from ray_sim import plots as plots
    from ray_sim.engine.build_world import build_world as build_world
    from ray_sim.engine.contract import Policy as Policy
    from ray_sim.engine.decision import Decision as Decision
    from ray_sim.engine.kinds.chunked.decision import ChunkedDecision as ChunkedDecision
    from ray_sim.engine.kinds.chunked.decision import Dispatch as Dispatch
    from ray_sim.engine.kinds.chunked.decision import NewKeys as NewKeys
    from ray_sim.engine.kinds.chunked.policy import ChunkedPolicy as ChunkedPolicy
    from ray_sim.engine.kinds.chunked.view import ChunkedView as ChunkedView
    from ray_sim.engine.kinds.elastic.decision import ElasticDecision as ElasticDecision
    from ray_sim.engine.kinds.elastic.decision import Estimates as Estimates
    from ray_sim.engine.kinds.elastic.policy import ElasticPolicy as ElasticPolicy
    from ray_sim.engine.kinds.elastic.view import ElasticView as ElasticView
    from ray_sim.engine.policy_context import PolicyContext as PolicyContext
    from ray_sim.engine.simulation import Simulation as Simulation
    from ray_sim.engine.view import View as View
    from ray_sim.engine.wake import Wake as Wake
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
    from workloads.store import load_workload as load_workload
    from workloads.workload import Workload as Workload

__version__ = "0.1.0"

for _name in ALWAYS:
    import_sibling(_name)
sys.meta_path.insert(0, UnderRaySim())

_HOMES = {
    "ChunkedDecision": "ray_sim.engine.kinds.chunked.decision",
    "ChunkedPolicy": "ray_sim.engine.kinds.chunked.policy",
    "ChunkedView": "ray_sim.engine.kinds.chunked.view",
    "Decision": "ray_sim.engine.decision",
    "Dispatch": "ray_sim.engine.kinds.chunked.decision",
    "ElasticDecision": "ray_sim.engine.kinds.elastic.decision",
    "ElasticPolicy": "ray_sim.engine.kinds.elastic.policy",
    "ElasticView": "ray_sim.engine.kinds.elastic.view",
    "Estimates": "ray_sim.engine.kinds.elastic.decision",
    "NewKeys": "ray_sim.engine.kinds.chunked.decision",
    "Parameter": "ray_sim.model.parameters",
    "Policy": "ray_sim.engine.contract",
    "PolicyContext": "ray_sim.engine.policy_context",
    "PriorityPolicy": "ray_sim.policy_api.priority",
    "RaySimError": "ray_sim.model.errors",
    "RunResult": "ray_sim.model.result",
    "Simulation": "ray_sim.engine.simulation",
    "SweepResults": "ray_sim.experiments.sweep_results",
    "Trim": "ray_sim.model.metrics",
    "View": "ray_sim.engine.view",
    "Wake": "ray_sim.engine.wake",
    "Workload": "workloads.workload",
    "build_world": "ray_sim.engine.build_world",
    "compare": "ray_sim.interface.studies",
    "convert": "ray_sim.interface.files",
    "describe": "ray_sim.interface.files",
    "kernel": "ray_sim.kernels.compile",
    "load": "ray_sim.interface.files",
    "load_cluster": "ray_sim.experiments.inputs.cluster_file",
    "load_workload": "workloads.store",
    "plan": "ray_sim.interface.studies",
    "report": "ray_sim.interface.files",
    "run": "ray_sim.interface.studies",
    "simulate": "ray_sim.experiments.run",
    "sweep": "ray_sim.interface.studies",
}

__all__ = list(_HOMES)
__all__ += ["plots"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `ray-sim --help` loads nothing heavy."""
    if name == "plots":
        return importlib.import_module("ray_sim.plots")
    if name not in _HOMES:
        raise AttributeError(f"module 'ray_sim' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Names that completion offers, also before they are imported."""
    return sorted({*globals(), *__all__})
