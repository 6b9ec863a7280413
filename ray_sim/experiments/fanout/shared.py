"""Inputs that configurations share in Ray's object store: workloads, drawn jobs, clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ray_sim.experiments.fanout.tasks import Drawn, Item, draw
from ray_sim.experiments.inputs.server_files import split_world
from ray_sim.experiments.run_identity import Base, HashedInputs
from ray_sim.experiments.sweep_entries import Configuration
from ray_sim.model.cluster import Cluster

if TYPE_CHECKING:
    from ray import ObjectRef

Reference: TypeAlias = "ObjectRef[Drawn] | ObjectRef[Base] | ObjectRef[Cluster]"
"""References to shared objects that a task receives with its items."""


class Shared:
    """Shared objects, each stored once and released after the last configuration that needs it."""

    def __init__(self, configurations: Iterable[Configuration], inputs: HashedInputs) -> None:
        import ray

        self._draw = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(draw)
        self._inputs = inputs
        self._uses = Counter(key for each in configurations for key in self._keys(each))
        self._frames: dict[str, ObjectRef[Base]] = {}
        self._jobs: dict[str, ObjectRef[Drawn]] = {}
        self._servers: dict[str, ObjectRef[Cluster]] = {}

    def in_order(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Sort configurations by their jobs, so that few drawn workloads are in memory at a time."""
        first: dict[str, int] = {}
        places = [first.setdefault(self._keys(each)[1], index) for index, each in enumerate(configurations)]
        order = sorted(range(len(configurations)), key=places.__getitem__)
        return [configurations[index] for index in order]

    def task(self, configurations: Sequence[Configuration]) -> tuple[list[Item], list[Reference]]:
        """Items to run in one task, and the objects they need."""
        objects: dict[Reference, int] = {}
        here = Counter(self._keys(each)[1] for each in configurations)
        items = []
        for each in configurations:
            key = self._keys(each)[1]
            jobs = objects.setdefault(
                self._jobs_of(each, only_here=here[key] == self._uses[key]), len(objects)
            )
            servers = objects.setdefault(self._servers_of(each), len(objects))
            items.append(Item(each.identity, key, jobs, servers))
        return items, list(objects)

    def renew(self, configuration: Configuration) -> None:
        """Draw the jobs again for another attempt, since they may be lost with the machine that held them."""
        self._jobs.pop(self._keys(configuration)[1], None)

    def release(self, configuration: Configuration) -> None:
        """Release the objects that no later configuration needs."""
        for key in self._keys(configuration):
            self._uses[key] -= 1
            if not self._uses[key]:
                for refs in (self._frames, self._jobs, self._servers):
                    refs.pop(key, None)

    def _jobs_of(self, configuration: Configuration, only_here: bool) -> Reference:
        """Jobs drawn for all tasks; or the frame, if a single task needs the jobs and draws them itself."""
        import ray

        scenario = configuration.identity.scenario
        frame, jobs, _ = self._keys(configuration)
        if frame not in self._frames:
            self._frames[frame] = ray.put(self._inputs.base(scenario.workload))
        if jobs not in self._jobs:
            if only_here:
                return self._frames[frame]
            resources = self._inputs.cluster(scenario.cluster).resources
            draw = self._draw.options(name=f"draw {configuration.entry.workload}, seed {scenario.seed}")
            self._jobs[jobs] = draw.remote(scenario.workload, scenario.seed, self._frames[frame], resources)
        return self._jobs[jobs]

    def _servers_of(self, configuration: Configuration) -> Reference:
        import ray

        scenario = configuration.identity.scenario
        key = self._keys(configuration)[2]
        if key not in self._servers:
            self._servers[key] = ray.put(self._inputs.servers(scenario.cluster, scenario.world))
        return self._servers[key]

    def _keys(self, configuration: Configuration) -> tuple[str, str, str]:
        """Keys of the frame, the jobs and the cluster of a configuration."""
        scenario = configuration.identity.scenario
        workload = scenario.workload
        seed = scenario.seed if workload.uses_seed else "any"
        resources = ",".join(self._inputs.cluster(scenario.cluster).resources)
        return (
            f"frame {workload.file}, {workload.profiles}",
            f"jobs {workload.model_dump_json()} seed {seed} for {resources}",
            f"cluster {scenario.cluster}, {split_world(scenario.world)[1]}",
        )
