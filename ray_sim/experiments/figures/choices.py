"""Choices of a figure: what its paper leaves open, our value, and the alternatives that are run as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ray_sim.experiments.scenario import Spec


class Changes(Spec):
    """Changes that an alternative makes to the sweep of its figure."""

    world: dict[str, Any] = Field(default_factory=dict)
    """Entries that the world gets, or has changed."""
    policies: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Parameters by name of the policy, for each of its entries that does not give them."""
    workloads: dict[str, Any] = Field(default_factory=dict)
    """Entries that each workload gets, or has changed; nested ones too."""
    clusters: dict[str, str] = Field(default_factory=dict)
    """Other cluster by the name in the sweep."""

    def changed(self, sweep: Mapping[str, Any]) -> dict[str, Any]:
        """Content of the sweep file with the changes; it has as many combinations, in the same order."""
        return {
            **sweep,
            "world": {**(sweep.get("world") or {}), **self.world},
            "policies": [self._policy(each) for each in sweep["policies"]],
            "workloads": [_merged(each, self.workloads) for each in sweep["workloads"]],
            "clusters": [self.clusters.get(each, each) for each in sweep["clusters"]],
        }

    def _policy(self, entry: str | Mapping[str, Any]) -> object:
        policy: Mapping[str, Any] = {"name": entry} if isinstance(entry, str) else entry
        if not (params := self.policies.get(policy["name"])):
            return entry
        return {**policy, "params": {**params, **policy.get("params", {})}}


class Choice(Spec):
    """A choice: an entry of the block `choices`."""

    id: Annotated[str, Field(pattern=r"^C\d+$")]
    """Its id on the page of the model."""
    ours: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    """Source of the doubt."""
    alternatives: Annotated[dict[str, Changes], Field(min_length=1)]


def each_id_once(choices: list[Choice]) -> list[Choice]:
    """Refuse two choices with one id."""
    ids = [choice.id for choice in choices]
    if repeated := [each for each in ids if ids.count(each) > 1]:
        raise ValueError(f"'{repeated[0]}' is the id of two choices; join them")
    return choices


def with_seeds(sweep: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Content of the sweep file with this number of seeds: its first ones, or further ones after them."""
    given = sweep.get("seeds", [0])
    seeds = list(range(given["count"]) if isinstance(given, dict) else given)
    return {**sweep, "seeds": [*seeds, *range(max(seeds) + 1, max(seeds) + 1 + count)][:count]}


def _merged(entry: Any, changes: Mapping[str, Any]) -> Any:
    """The mapping with these entries, nested ones too; anything else as it is."""
    if not isinstance(entry, dict):
        return entry
    nested = {
        key: _merged(entry[key], value)
        if isinstance(value, dict) and isinstance(entry.get(key), dict)
        else value
        for key, value in changes.items()
    }
    return {**entry, **nested}


def named(choices: Sequence[Choice]) -> Iterator[tuple[str, str, Changes]]:
    """Yield id of the choice, name and changes of each alternative."""
    for choice in choices:
        for name, changes in choice.alternatives.items():
            yield choice.id, name, changes
