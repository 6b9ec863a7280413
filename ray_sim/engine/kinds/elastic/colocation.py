"""Jobs that share servers: one slows the other by interference, and they share network interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.states import FINITE, State, within
from ray_sim.kernels.elastic.colocation import (
    MOST_PARTS,
    PARTS,
    change_bandwidth,
    new_colocation,
    note_changes,
    slow_rates,
)
from ray_sim.kernels.handle import handle
from ray_sim.model.cluster import LinkChanges
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.interference import InterferenceProfile, channels_of
from ray_sim.model.job import TrainingProfile
from ray_sim.model.progress_rule import PlacementRows
from ray_sim.model.training_progress import SpeedProgress
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ColocationFacts:
    """Facts of a world whose jobs heed what others hold on their servers."""

    job_type: IntArray
    """(J,)"""
    profile: InterferenceProfile | None
    """None where jobs share interfaces only."""
    channels: BoolArray
    """(S, Q) which channels each server has."""
    changes: LinkChanges | None
    """Changes of bandwidth, in microseconds since the first submission."""
    shares_interfaces: bool
    """Whether jobs share the bandwidth of a server's interface."""

    @classmethod
    def of(cls, setting: WorldSetting, training: TrainingProfile, shares: bool) -> ColocationFacts | None:
        """The facts; None where no job heeds what others hold. ``shares`` is `shares_interfaces`."""
        cluster, profile, links = setting.cluster, setting.cluster.interference, setting.cluster.links
        if profile is None and links is None and not shares:
            return None
        types, channels = np.zeros(len(setting.table), np.int64), np.zeros((len(cluster), 0), np.bool_)
        if profile is not None:
            types = profile.types_of(training.model, training.model_names)
            sockets = np.ones(len(cluster), np.int64) if cluster.sockets is None else cluster.sockets
            channels = channels_of(profile, sockets)
        if links is not None:
            since_us = np.maximum(links.time_us - setting.table.origin_us, 0)
            links = replace(links, time_us=since_us)
        return cls(types, profile, channels, links, shares)

    @property
    def interferes(self) -> bool:
        """Whether jobs slow each other on channels."""
        return self.profile is not None


class RunColocation:
    """Progress rule with interference: speeds of another rule, divided by slowdowns by jobs on a server."""

    disturbing: ClassVar[bool] = True

    def __init__(
        self,
        facts: ColocationFacts,
        rows: int,
        server_names: Sequence[str],
        alone: Callable[[FloatArray], SpeedProgress],
    ) -> None:
        """``alone`` makes the rule of jobs alone from the `links`, which it is to read each time."""
        profile, none = facts.profile, np.zeros((1, 0), dtype=np.int64)
        index = new_colocation(
            facts.job_type,
            none if profile is None else profile.worker_load,
            none if profile is None else profile.ps_load,
            none.astype(np.float64) if profile is None else profile.sensitivity,
            1 if profile is None else profile.own_tasks,
            facts.channels,
            rows,
            facts.shares_interfaces,
        )
        self._index, self._bandwidth, self._excess = handle(index), index.bandwidth, index.excess
        self._profile, self._server_names = profile, server_names
        self._others: IntArray = np.empty(len(facts.job_type), dtype=np.int64)
        self._changes = facts.changes
        self._changed = 0
        self.links: FloatArray = index.links
        """(S,) how many times as long as nominal a transfer over each interface takes now, >= 1."""

        self.slowdown: FloatArray = np.ones(len(facts.job_type))
        """(J,) factor by which others slow each job, as its rate was last computed."""
        self._alone = alone(self.links)

    @property
    def next_us(self) -> int:
        """When the bandwidth of an interface changes next."""
        changes = self._changes
        if changes is None or self._changed == len(changes):
            return NEVER_US
        return int(changes.time_us[self._changed])

    def change_links(self, now_us: int) -> IntArray:
        """Carry out the changes of bandwidth up to now; returns the jobs, sorted, on those servers."""
        changes, first = self._changes, self._changed
        assert changes is not None, "called when some are due"
        self._changed = last = int(np.searchsorted(changes.time_us, now_us, side="right"))
        due = slice(first, last)
        return self._named(
            change_bandwidth(self._index, changes.server[due], changes.bandwidth[due], self._others)
        )

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """Note what ``jobs`` hold now; returns the others, sorted, on servers that they left or came to.

        Raises
        ------
        InvalidScenarioError : tasks on a server ask for more than `MOST_PARTS` of a channel
        """
        others = self._named(note_changes(self._index, placements.held, jobs, self._others))
        if self._excess[0] >= 0:
            self._refuse_excess()
        return others

    def _refuse_excess(self) -> None:
        assert self._profile is not None
        server, channel = self._excess.tolist()
        raise InvalidScenarioError(
            f"interference={self._profile.name}: tasks on server '{self._server_names[server]}' ask for more "
            f"than {MOST_PARTS / PARTS:.2g} times its channel '{self._profile.channels[channel]}'; let types "
            "ask for less, or give tasks demands, so that fewer fit on a server"
        )

    def _named(self, n: int) -> IntArray:
        others = self._others[:n].copy()
        others.sort()
        return others

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs``, over the slowdown by others, which is set."""
        rates = np.empty(len(jobs))
        slow_rates(self._index, jobs, self._alone.rates(placements, jobs), self.slowdown, rates)
        return rates

    def state(self) -> State:
        """Arrays that `restore` takes; who stands where follows from the placements."""
        return {"changed": np.array([self._changed]), "bandwidth": self._bandwidth.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state, before all jobs are noted anew."""
        most = 0 if self._changes is None else len(self._changes)
        self._changed = int(within(state, "changed", 0, most)[0])
        self._bandwidth[:] = within(state, "bandwidth", 1 / FINITE, FINITE)
        self.links[:] = 1.0 / self._bandwidth
