"""Question of a plan, from the options of `ray-sim plan`: what is fixed, what varies, and the goal."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ray_sim.experiments.capacity.goal import Goal
from ray_sim.experiments.inputs.cluster_file import MAX_SERVERS, SOLE, load_cluster, with_counts
from ray_sim.experiments.scenario import Scenario, key_values
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.text import number_of

MAX_MIXES = 100_000
"""Largest number of mixes of servers; a larger one is taken for an error in a range."""

Mix = tuple[int, ...]
"""Number of servers of each entry that varies, in the order of the options."""

_RANGE = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Axis:
    """An entry of the cluster file whose number of servers varies."""

    name: str
    low: int
    high: int
    price: float = 1.0
    """Price of one server, in any unit of money."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Alternatives of a plan."""

    axes: tuple[Axis, ...]
    policies: tuple[str, ...]
    """Empty where the policy does not vary."""
    fixed_price: float = 0.0
    """Price of the servers that do not vary."""

    def price(self, mix: Mix) -> float:
        """Price of all servers."""
        return self.fixed_price + sum(axis.price * count for axis, count in zip(self.axes, mix, strict=True))

    def mixes(self) -> list[Mix]:
        """All mixes with at least one server, cheapest first; of equal prices those with fewer servers."""
        ranges = (range(axis.low, axis.high + 1) for axis in self.axes)
        mixes = [mix for mix in itertools.product(*ranges) if any(mix) or not self.axes]
        return sorted(mixes, key=lambda mix: (self.price(mix), sum(mix), mix))

    def cluster(self, reference: str, mix: Mix) -> str:
        """Reference of the cluster with these numbers of servers."""
        counts = {axis.name: count for axis, count in zip(self.axes, mix, strict=True)}
        return with_counts(reference, counts) if counts else reference

    def label(self, mix: Mix) -> str:
        """Text of a mix, such as ``a100.count=3, v100.count=0``; empty without axes."""
        return ", ".join(f"{axis.name}.count={count}" for axis, count in zip(self.axes, mix, strict=True))


def parse_choices(varied: Iterable[str], prices: Iterable[str], cluster: str) -> Choices:
    """Parse the options ``--vary`` and ``--price`` for a cluster, whose file may have prices, too."""
    axes: list[Axis] = []
    policies: tuple[str, ...] = ()
    price_of = {name: _price(name, str(text)) for name, text in key_values(prices, "--price").items()}
    for key, given in key_values(varied, "--vary").items():
        if key == "policy":
            policies = _policies(str(given))
        elif key.endswith(".count") and key != ".count":
            name = key.removesuffix(".count")
            axes.append(_axis(name, str(given)))
        else:
            raise InvalidScenarioError(
                f"--vary {key}: expected NAME.count=FROM:TO with an entry of the cluster file, or policy=A,B"
            )
    if not axes and not policies:
        raise InvalidScenarioError("--vary: expected at least one, such as servers.count=10:200")
    choices = Choices(tuple(axes), policies)
    size = math.prod(axis.high - axis.low + 1 for axis in axes)
    if size > MAX_MIXES:
        raise InvalidScenarioError(f"--vary: {size:,} mixes; at most {MAX_MIXES:,}, shorten a range")
    if not choices.mixes():
        raise InvalidScenarioError("--vary: leaves no server; let a range reach above 0")
    return _priced(choices, cluster, price_of)


def _priced(choices: Choices, ref: str, price_of: Mapping[str, float]) -> Choices:
    """The choices with the price of each entry of the cluster: as given, else as in its file, else 1."""
    there = {axis.name: max(axis.high, 1) for axis in choices.axes}
    cluster = load_cluster(with_counts(ref, there) if there else ref)
    names = dict.fromkeys(cluster.entry)
    sole = {SOLE: cluster.entry[0]} if len(names) == 1 else {}
    given = {sole.get(name, name): price for name, price in price_of.items()}
    for name in given:
        if name not in names:
            raise InvalidScenarioError(
                f"--price {name}: expected an entry of the cluster: {', '.join(names)}"
            )
    own = cluster.price or (1.0,) * len(cluster)
    prices = [(name, given.get(name, price)) for name, price in zip(cluster.entry, own, strict=True)]
    axes = [replace(axis, price=dict(prices)[sole.get(axis.name, axis.name)]) for axis in choices.axes]
    varied = {sole.get(axis.name, axis.name) for axis in axes}
    fixed = sum(price for name, price in prices if name not in varied)
    return replace(choices, axes=tuple(axes), fixed_price=fixed)


def _axis(name: str, text: str) -> Axis:
    found = _RANGE.fullmatch(text)
    low, high = (int(found[1]), int(found[2])) if found else (1, 0)
    if not 0 <= low <= high <= MAX_SERVERS:
        raise InvalidScenarioError(
            f"--vary {name}.count={text}: expected FROM:TO with whole numbers, "
            f"0 <= FROM <= TO <= {MAX_SERVERS:,}"
        )
    return Axis(name, low, high)


def _price(name: str, text: str) -> float:
    try:
        price = number_of(text)
    except ValueError:
        price = math.nan
    if not 0 < price < math.inf:
        raise InvalidScenarioError(f"--price {name}={text}: expected a number above 0")
    return price


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise InvalidScenarioError(f"--vary policy={text}: expected different names with commas between them")
    return names


def within(small: Mix, large: Mix) -> bool:
    """Whether a mix has at most as many servers of every kind as another."""
    return all(a <= b for a, b in zip(small, large, strict=True))


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Question of a plan."""

    scenario: Scenario
    """Everything that does not vary; its seed is the first one."""
    goal: Goal
    choices: Choices
    seed_count: int
    """Number of seeds, common to all scenarios; one run each where nothing is drawn."""

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies to compare."""
        return self.choices.policies or (self.scenario.policy,)

    @property
    def seeds(self) -> range:
        """Seeds of the runs."""
        return range(self.scenario.seed, self.scenario.seed + self.seed_count)

    @property
    def most(self) -> Mix:
        """The most servers of every kind."""
        return tuple(axis.high for axis in self.choices.axes)

    def cluster(self, mix: Mix) -> str:
        """Reference of the cluster with a mix of servers."""
        return self.choices.cluster(self.scenario.cluster, mix)

    def at(self, policy: str, mix: Mix) -> Scenario:
        """Scenario of a policy on a mix of servers; parameters and label are those of `scenario`'s policy."""
        changes: dict[str, object] = {"cluster": self.cluster(mix), "policy": policy}
        if policy != self.scenario.policy:
            changes |= {"params": {}, "label": None}
        return self.scenario.model_copy(update=changes)
