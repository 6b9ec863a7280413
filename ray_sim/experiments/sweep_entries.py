"""A sweep that has been read: its runs, with their labels, hashes and settings."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ray_sim.experiments.inputs.cluster_file import Label
from ray_sim.experiments.run_identity import HashedInputs, RunIdentity
from ray_sim.experiments.scenario import Scenario, Spec, Value, setting_label
from ray_sim.reports.statistics import pairs_needed
from ray_sim.reports.tables import Place

Detail = Literal["full", "numbers"]
"""Detail of each run in MLflow: ``full``, or ``numbers`` for parameters and metrics only."""


class PolicySpec(Spec):
    """A policy with its parameters, and the entries of the world that differ for it."""

    name: str
    params: dict[str, Value] = Field(default_factory=dict)
    world: dict[str, Value] = Field(default_factory=dict)
    """Entries that replace or extend those of the sweep's `world` in the runs of this policy."""
    label: Label | None = None
    """Name in tables and charts; None is `configuration`."""

    @property
    def configuration(self) -> str:
        """``las(knob=2)``, ``a_online{truth=a_online, slot_s=60}``, or the bare name."""
        params = f"({setting_label(self.params)})" if self.params else ""
        world = f"{{{setting_label(self.world)}}}" if self.world else ""
        return f"{self.name}{params}{world}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of a sweep: the hash of its result, and the labels in tables."""

    content_hash: str
    workload: str
    cluster: str
    setting: str
    """Partition, world parameters and trim that differ from the defaults."""
    policy: str
    """Label of the policy, or its `PolicySpec.configuration`."""
    seed: int | None
    """Seed; None if every seed gives the same result."""
    scenario_hash: str
    """Hash that results of other code share; see `RunIdentity`."""
    shared_world: str | None = None
    """World of the sweep, as JSON, where the policy has entries of its own; None where it has none."""
    labelled: str | None = None
    """`PolicySpec.configuration` where `policy` is a label; None where it has none."""

    @property
    def place(self) -> Place:
        """Where its policy is compared with others."""
        return self.workload, self.cluster, self.setting

    @property
    def label(self) -> str:
        """Label of the run, e.g. ``week, pool-368, restart_cost_s=30, las(knob=2), seed 1``."""
        seed = "" if self.seed is None else f"seed {self.seed}"
        return ", ".join(filter(None, [*self.place, self.policy, seed]))

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        content_hash: str,
        seed: int | None,
        scenario_hash: str,
        shared_world: Mapping[str, Value] | None = None,
    ) -> Entry:
        """Entry of a scenario with these hashes; ``shared_world`` is the world of its sweep."""
        partitioned: dict[str, Value] = (
            {} if scenario.partition == "none" else {"partition": scenario.partition}
        )
        trimmed = {} if scenario.trim is None else scenario.trim.model_dump()
        shared = scenario.world if shared_world is None else shared_world
        own = {
            key: value for key, value in scenario.world.items() if key not in shared or shared[key] != value
        }
        configuration = PolicySpec(name=scenario.policy, params=scenario.params, world=own).configuration
        return cls(
            content_hash=content_hash,
            workload=scenario.workload.label,
            cluster=scenario.cluster,
            setting=setting_label({**partitioned, **shared, **trimmed}),
            policy=scenario.label or configuration,
            seed=seed,
            scenario_hash=scenario_hash,
            shared_world=json.dumps(shared) if own else None,
            labelled=configuration if scenario.label else None,
        )


def entry_of(identity: RunIdentity, shared_world: Mapping[str, Value] | None = None) -> Entry:
    """Entry of an identified scenario; ``shared_world`` is the world of its sweep."""
    hashes = identity.content_hash, identity.seed, identity.scenario_hash
    return Entry.of(identity.scenario, *hashes, shared_world)


@dataclass(frozen=True, slots=True)
class Configuration:
    """An entry with everything needed to run it."""

    entry: Entry
    identity: RunIdentity


@dataclass(frozen=True, slots=True)
class Sweep:
    """A checked sweep.

    Order: workloads, clusters, world, partition, trim, policies, seeds; the last varies fastest, and inside
    an entry the key written last. A configuration that does not depend on a seed appears once.
    """

    name: str
    configurations: tuple[Configuration, ...]
    repeated: int
    """Number of combinations left out because an earlier one is the same run under another label."""
    inputs: HashedInputs
    """Files and policies that the sweep names."""
    log: Detail
    """Detail of each run that MLflow gets."""


def seeds_warning(entries: Iterable[Entry]) -> str | None:
    """One line of warning if the seeds of a sweep are too few for any verdict, else None.

    Only places (workload, cluster, setting) with two policies count, one of which depends on its seed.
    """
    places: dict[Place, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in entries:
        seeds = places[entry.place][entry.policy]
        if entry.seed is not None:
            seeds.add(entry.seed)
    short = []
    for policies in places.values():
        count = max(len(seeds) for seeds in policies.values())
        needed = pairs_needed(max(1, len(policies) - 1))
        if len(policies) > 1 and 0 < count < needed:
            short.append((needed, len(policies), count))
    if not short:
        return None
    needed, compared, count = max(short)
    return (
        f"{count} seed{'s are' if count > 1 else ' is'} too few for `ray-sim compare` to tell {compared} "
        f"policies apart at 5 %: {needed} needed, e.g. seeds: {{count: {needed}}}"
    )


def same_failures(sweep: Sweep) -> str | None:
    """One line if servers fail at the same times under several seeds, those of a file, else None."""
    drawn = [each for each in sweep.configurations if each.entry.seed is not None]
    if len({each.entry.seed for each in drawn}) < 2:
        return None
    scenarios = [each.identity.scenario for each in drawn]
    named = {
        each.cluster
        for each in scenarios
        if sweep.inputs.servers(each.cluster, each.world).availability is not None
    }
    if not named:
        return None
    return (
        f"{', '.join(sorted(named))}: servers fail at the times of the availability file under every seed, "
        "so no interval covers other times; list several draws of `ray-sim failures`, "
        "world: {availability: [a.csv, b.csv]}"
    )
