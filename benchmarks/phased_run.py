"""`ray-sim run` phase by phase, in the process of this module."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from benchmarks.children import answer

_T = TypeVar("_T")

_AGAIN = 3
"""Repetitions of compiled work, to separate it from loading the compiled code."""


class Clock:
    """Wall seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the block's time to the phase."""
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began

    def settled(self, name: str, work: Callable[[], _T]) -> _T:
        """Add the least time of the work to the phase, and the excess of its first execution to `load`."""
        times = []
        for _ in range(1 + _AGAIN):
            with self.phase(name):
                result = work()
            times.append(self.seconds[name])
        self.seconds[name] = min(times)
        self.seconds["load"] = self.seconds.get("load", 0.0) + times[0] - min(times)
        return result


def main(workload: str, cluster_name: str, out: str) -> None:
    """Simulate FIFO in one pool with the steps of `ray-sim run`, in their order."""
    began = time.perf_counter()
    clock = Clock()
    with clock.phase("imports"):
        for module in ("ray_sim.cli", "ray_sim.cli.console"):  # the imports of the command
            import_module(module)
        from ray_sim.engine.build_world import build_world
        from ray_sim.engine.compiled import run_compiled
        from ray_sim.engine.policy_context import PolicyContext
        from ray_sim.engine.result import build_result, certify_completed
        from ray_sim.experiments.results.result_directories import write_files
        from ray_sim.experiments.results.result_files import encode_result
        from ray_sim.experiments.run import read_base, realise
        from ray_sim.experiments.run_identity import HashedInputs
        from ray_sim.experiments.scenario import parse_scenario
        from ray_sim.policies.registry import create_policy
    with clock.phase("identify"):
        options = {"workload": workload, "cluster": cluster_name, "params": {"placement": "pooled"}}
        scenario = parse_scenario(options, "phases")
        inputs = HashedInputs()
        identity = inputs.identify(scenario)
        cluster = inputs.cluster(scenario.cluster)
    with clock.phase("read"):
        frame = read_base(scenario.workload)
    with clock.phase("realise"):
        jobs = realise(scenario.workload, scenario.seed, frame, cluster.resources)
    world = clock.settled("world", lambda: build_world(jobs.table, cluster))
    with clock.phase("policy"):
        policy = create_policy(scenario.policy, scenario.params)
        order = policy.order(PolicyContext(world, policy.sees, policy.name))
        assert order is not None, "fifo is an order rule"
    outcome = clock.settled("loop", lambda: run_compiled(world, order, None))
    clock.settled("certificate", lambda: certify_completed(world, outcome, None))
    result = clock.settled("frames", lambda: build_result(world, outcome))
    clock.seconds["frames"] -= clock.seconds["certificate"]  # part of making the result
    with clock.phase("encode"):
        files = encode_result(result, identity.manifest())
    with clock.phase("write"):
        write_files(Path(out), files)
    answer({**clock.seconds, "whole": time.perf_counter() - began})


if __name__ == "__main__":
    main(*sys.argv[1:])
