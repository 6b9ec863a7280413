"""Base classes of trained agents: policies that see what an environment shows, and answer by its actions.

Users subclass `QueueAgent` and `PlacementAgent` (docs/environments.md); `harmony` is one. The rounds of
`ray_sim/agents/` make observations and decisions for agents and environments alike, so what both show is
changed there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ray_sim.agents import placement_round, queue_round
from ray_sim.agents.features import Needs, sees_of
from ray_sim.agents.placement_round import PlacementRound, PlacementSettings
from ray_sim.agents.queue_round import QueueRound, QueueSettings
from ray_sim.agents.round import Observation, Round
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams


class Agent(Policy[PolicyContext, View]):
    """A policy that answers one observation with one action, as often as an environment would ask.

    Its class attributes are the settings of the environment that it was trained in. Snapshots of a run leave
    `trained` out; a network in another attribute is named in `unchanging`.
    """

    unchanging = frozenset({"trained"})

    entries: ClassVar[Mapping[str, Needs]]
    """Entries of observations by name."""
    observe: tuple[str, ...] | None = None
    """Names of entries of observations; None for the default of the environment."""
    scaled: bool = False
    trained_file: str | Path | None = None
    """File of a trained network, which `load` reads; its content is part of a run's identity."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Declare in `sees` what the observations show."""
        super().__init_subclass__(**options)
        if "observe" in vars(cls):
            cls.sees = vars(cls).get("sees", frozenset()) | sees_of(cls.observe, cls.entries)

    _round: Round | None = None

    def input_files(self) -> Mapping[str, Path]:
        """`trained_file`."""
        return {} if self.trained_file is None else {"trained_file": Path(self.trained_file)}

    @cached_property
    def trained(self) -> Any:
        """The network that `load` reads from `trained_file`."""
        assert self.trained_file is not None, "`trained` is loaded from `trained_file`"
        return self.load(Path(self.trained_file))

    def load(self, file: Path) -> Any:
        """Read a trained network; override it with `trained_file`."""
        name = type(self).__name__
        raise InvalidInputError(f"policy {name}: trained_file={file} needs a method load(file) that reads it")

    def declare(self, observe: tuple[str, ...] | None) -> None:
        """Show these entries of this instance, and declare them in `sees`.

        Raises
        ------
        UnknownNameError : there is no such entry
        """
        if observe is not None:
            self.observe, self.sees = observe, sees_of(observe, self.entries)

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Prepare for a run; call it where you override it."""
        if self._round is None or not self._round.serves(world):
            self._round = self.new_round(world)

    @abstractmethod
    def new_round(self, world: PolicyContext) -> Round:
        """Make what shows a world and takes actions."""

    @property
    def round(self) -> Round:
        """What shows the world and takes actions; after `start`."""
        assert self._round is not None
        return self._round

    def decide(self, view: View) -> Decision:
        """Ask for actions until none is valid."""
        current = self.round
        current.open(view)
        while current.pending:
            current.take(self.act(current.observation()))
        return current.decision()

    @abstractmethod
    def act(self, observation: Observation) -> int:
        """Choose a valid action: one where ``observation["action_mask"]`` is 1."""


class PlacementAgent(Agent):
    """Agent of `ray_sim/Placement-v1`: it places the tasks of new jobs at slot boundaries."""

    slotted: ClassVar[bool] = True
    respects_shares: ClassVar[bool] = False
    entries = placement_round.ENTRIES
    most_jobs: int = PlacementSettings().most_jobs
    most_new: int | None = None
    models: tuple[str, ...] | None = None
    blank_types: bool = PlacementSettings().blank_types
    sees = sees_of(placement_round.STATE, placement_round.ENTRIES)

    def new_round(self, world: PolicyContext) -> PlacementRound:
        """See `PlacementRound`."""
        settings = PlacementSettings(
            self.most_jobs, self.most_new, self.observe, self.scaled, self.models, self.blank_types
        )
        return PlacementRound(world, settings)


class QueueAgent(Agent):
    """Agent of `ray_sim/Queue-v1`: it chooses which waiting job starts next."""

    entries = queue_round.ENTRIES
    most_jobs: int = QueueSettings().most_jobs
    placement: str = QueueSettings().placement
    sees = sees_of(None, queue_round.ENTRIES)

    def new_round(self, world: PolicyContext) -> QueueRound:
        """See `QueueRound`."""
        return QueueRound(world, QueueSettings(self.most_jobs, self.observe, self.scaled, self.placement))
