"""Base class of policies: when they are asked, what they may see, what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
from typing_extensions import TypeVar

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.states import State, Stateful, section
from ray_sim.engine.visible_columns import JobColumns
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.errors import RunFailedError
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

ContextT = TypeVar("ContextT", default=Any, contravariant=True)
"""Class of the world facts that a policy gets."""
ViewT = TypeVar("ViewT", default=Any, contravariant=True)
"""Class of the views that a policy gets."""

_CONSTANT = (str, tuple, frozenset, type(None), PolicyContext, JobColumns, Streams)
"""Types of attributes that cannot change, so need no saving."""


class Policy(ABC, Generic[ContextT, ViewT]):
    """A scheduler. One instance serves one run.

    A subclass implements `decide`. What it remembers between decisions must come out of `state` and go
    back in by `restore`, so that a run can be continued elsewhere; attributes that are numbers, arrays
    or services, or have a `state` and `restore` of their own, do so by themselves.
    """

    name: ClassVar[str] = ""
    """Name in results; the class's name where empty."""
    summary: ClassVar[str] = ""
    """One line for listings; the docstring's first where empty."""
    section: ClassVar[str] = ""
    """Page and heading that define the policy, then the paper: ``docs/models/x.md#algorithm (...)``."""
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    """Keyword arguments of the constructor."""
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.SERVER_CHANGE
    sees: frozenset[str] = frozenset()
    """Columns and observations it may read, out of `COLUMNS` and `OBSERVATIONS`."""
    slotted: ClassVar[bool] = False
    """Decide only at slot boundaries; events in between wait for the next one."""
    schedules: ClassVar[str] = GANGS
    """Jobs that it is for. `GANGS`: each job holds what it asks for, or nothing. Base classes of policies for
    other kinds of jobs have other values."""
    bounded: ClassVar[bool] = False
    """Whether it plans up to a horizon, which its worlds then must have."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Parameters of its own, and of the world such as ``slot_s``, without which it is refused; for listings,
    beside what `slotted`, `bounded` and `schedules` say."""
    respects_types: ClassVar[bool] = True
    """Whether it keeps to the GPU types that jobs accept; if not, worlds where they do not accept all are
    refused."""
    respects_shares: ClassVar[bool] = True
    """Whether it places tasks that ask for a share of a GPU where a device has room for them; if not, worlds
    with such tasks are refused."""
    unchanging: ClassVar[frozenset[str]] = frozenset()
    """Attributes that do not change during a run, e.g. a trained network: no part of `state`."""
    uses_seed: ClassVar[bool] = False
    """Whether it draws from its streams."""

    @property
    def draws(self) -> bool:
        """Whether its runs draw random numbers."""
        return self.uses_seed

    def input_files(self) -> Mapping[str, Path]:
        """Files that `start` reads, by the parameter that names each; none by default.

        Their contents are part of a run's identity, in place of the values of those parameters. It is called
        before `start`.
        """
        return {}

    def start(self, world: ContextT, streams: Streams) -> None:  # optional hook
        """Prepare for a run."""

    @abstractmethod
    def decide(self, view: ViewT) -> Decision:
        """Answer one view."""

    def state(self) -> State:
        """Arrays from which `restore` goes on alike: every attribute that can change.

        Raises
        ------
        RunFailedError : an attribute is no number, array or constant, and has no state of its own
        """
        saved: State = {}
        for name, value in self._changing():
            if isinstance(value, Stateful):
                saved |= {f"{name}.{key}": array for key, array in value.state().items()}
            elif isinstance(value, (np.ndarray, np.generic, int, float)):
                saved[name] = np.array(value)
            elif not isinstance(value, _CONSTANT):
                raise RunFailedError(
                    f"policy {self.name or type(self).__name__} keeps a {type(value).__name__} in "
                    f"{name}; give it a state() and restore() of its own, or use arrays, or name it in "
                    "`unchanging` if it never changes"
                )
        return saved

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state, after `start`."""
        for name, value in self._changing():
            if isinstance(value, Stateful):
                value.restore(section(state, name))
            elif isinstance(value, np.ndarray):
                setattr(self, name, state[name].copy())
            elif isinstance(value, (np.generic, int, float)):
                setattr(self, name, type(value)(state[name].item()))

    def _changing(self) -> list[tuple[str, Any]]:
        """Names and values of attributes that may change during a run."""
        return [(name, value) for name, value in vars(self).items() if name not in self.unchanging]

    def counts(self) -> Mapping[str, int]:
        """Counts for the summary; none by default."""
        return {}

    def figures(self) -> Mapping[str, float]:
        """Numbers that describe the run and are no counts, for the summary; none by default."""
        return {}

    def warnings(self) -> Sequence[str]:
        """Sentences that a user should read before trusting the result; none by default."""
        return ()

    def timeline_columns(self) -> Mapping[str, tuple[IntArray, FloatArray]]:
        """Columns for the timeline, by name: instants in ascending order, and values; none by default."""
        return {}

    def order(self, world: PolicyContext) -> Order | None:
        """The order rule of the compiled loop, if the policy is nothing but one."""
        return None
