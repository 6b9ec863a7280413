"""Link to the actor of one site, which replaces it if it dies."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ray_sim.engine.sites.site import Commands, Query, Request
from ray_sim.engine.states import State
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import IntArray

if TYPE_CHECKING:
    from ray import ObjectRef

    Actor = Any  # Ray knows the methods of classes that it decorates, and these must work without it

MAX_DEATHS = 5
"""Number of deaths of one actor, without progress in between, that ends the run with an error."""

_REQUESTS_PER_STATE = 2_000
"""Number of requests between two snapshots of a site; it limits how many a replacement gets again."""


def named(label: str) -> dict[str, str]:
    """Options of a Ray actor with this name; in a namespace of its own, as others may have the same label."""
    return {"name": label, "namespace": secrets.token_hex(8)}


class SiteLink:
    """Link to the actor of one site: it logs the requests since the last snapshot and replaces a dead actor.

    ``create_replacement`` creates a new actor, on any node: the node of the first actor may be gone.
    `sequence` numbers the requests from 1; `deaths`, `messages` and `bytes` count.
    """

    def __init__(self, create: Callable[[], Actor], create_replacement: Callable[[], Actor]) -> None:
        self._create_replacement = create_replacement
        self._actor = create()
        self._saved: State | None = None
        self._requests: list[Request] = []
        self._sent_requests = 0
        self._answer: ObjectRef[tuple[IntArray, int]] | None = None
        self.sequence = 0
        self.deaths = 0
        self.messages = 0
        self.bytes = 0

    def add(self, now_us: int, commands: Commands | None) -> None:
        """Log a request; the next `send` sends it. None: no commands, only the reports at ``now_us``."""
        self.sequence += 1
        self._requests.append((self.sequence, now_us, commands))

    @property
    def unsent(self) -> int:
        """Number of requests logged and not sent."""
        return len(self._requests) - self._sent_requests

    def send(self) -> None:
        """Send the unsent requests in one message, without waiting."""
        if self.unsent:
            requests = self._requests[self._sent_requests :]
            self._answer = self._actor.carry_out.remote(requests)
            self._sent_requests = len(self._requests)
            self.messages += 1
            self.bytes += sum(commands.nbytes for _, _, commands in requests if commands is not None)

    def receive(self) -> tuple[IntArray, int]:
        """Answer to the last message: its reports, and the instant in us of the next one; waits for it."""
        answer: tuple[IntArray, int] = self._get(self._answer, lambda: self._answer)
        self.bytes += answer[0].nbytes
        if len(self._requests) >= _REQUESTS_PER_STATE:
            self.keep_state()
        return answer

    def settle(self) -> None:
        """Wait until the requests sent, if any, have been carried out."""
        if self._answer is not None:
            self.receive()

    def ask(self, query: Query) -> Callable[[], State]:
        """Send a query; return a function that waits for the answer, so that sites answer in parallel."""
        self.send()
        pending = self._actor.ask.remote(query)

        def answer() -> State:
            found: State = self._get(pending, lambda: self._actor.ask.remote(query))
            self.messages += 1
            self.bytes += sum(array.nbytes for array in found.values())
            return found

        return answer

    def ask_for_state(self) -> Callable[[], State]:
        """Ask for the state after all logged requests; return a function that waits for it.

        No request may be added before that function is called: it clears the log.
        """
        self.send()

        def ask() -> Any:
            return self._actor.state.remote()  # `_actor` is a replacement after a death

        pending = ask()

        def received() -> State:
            state: State = self._get(pending, ask)
            self._start_from(state)
            return state

        return received

    def keep_state(self) -> None:
        """Fetch a snapshot of the site and clear the log."""
        self.ask_for_state()()

    def restore(self, state: State, sequence: int) -> None:
        """Continue from a state; ``sequence`` is the number of its last request."""
        self.sequence = sequence
        self._start_from(state)
        self._actor.restore.remote(state)

    def _start_from(self, state: State) -> None:
        self._saved = state
        self._requests, self._sent_requests, self._answer = [], 0, None

    def _get(self, pending: Any, ask_again: Callable[[], Any]) -> Any:
        """Wait for an answer; if the actor dies, replace it and ask the replacement."""
        import ray

        for _ in range(MAX_DEATHS):
            try:
                return ray.get(pending)
            except (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError) as death:
                last: Exception = death
                self._revive()
                pending = ask_again()
        raise RunFailedError(
            f"a site's actor died {MAX_DEATHS} times in a row; the last time: {first_line(last)}"
        )

    def _revive(self) -> None:
        """Replace the actor: restore the last snapshot and send all requests since."""
        self.deaths += 1
        self._actor = self._create_replacement()
        if self._saved is not None:
            self._actor.restore.remote(self._saved)
        self._sent_requests = 0
        self._answer = None
        self.send()

    def close(self) -> None:
        """End the actor."""
        import ray

        ray.kill(self._actor)


def first_line(error: BaseException) -> str:
    """First line of the message of an error, its class without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
