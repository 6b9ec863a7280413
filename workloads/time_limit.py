"""Time limit on the answers of object stores; their own clients may wait without end."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, TypeVar, cast

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.text import shown

TIMEOUT_VARIABLE = "RAY_SIM_STORE_TIMEOUT_S"
"""Environment variable: seconds that a store may take for an answer."""

TIMEOUT_S = 60.0
"""Default in seconds, without the variable."""

MAX_TIMEOUT_S = 86_400.0

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Limit on the time that a store may take to answer."""

    url: str
    """URL that is read, without credentials."""
    seconds: float
    error: type[InvalidInputError]
    """Raised when the time is over."""

    @classmethod
    def of_environment(cls, url: str, error: type[InvalidInputError]) -> TimeLimit:
        """The limit that the user has set, see `TIMEOUT_VARIABLE`.

        Raises
        ------
        error : it is no number of seconds in the range
        """
        text = os.environ.get(TIMEOUT_VARIABLE, str(TIMEOUT_S))
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_TIMEOUT_S:
            raise error(
                f"{TIMEOUT_VARIABLE}: must be above 0, at most {MAX_TIMEOUT_S:,.0f} s, got '{shown(text)}'"
            )
        return cls(url, seconds, error)

    def answer(self, ask: Callable[[], _Value]) -> _Value:
        """Result of ``ask`` within the limit; its exceptions are raised here.

        Raises
        ------
        error : no answer in time; the thread that waits for it does not keep the process
        """
        answers: SimpleQueue[tuple[_Value | None, BaseException | None]] = SimpleQueue()

        def wait() -> None:
            try:
                answers.put((ask(), None))
            except BaseException as failure:  # raised again in the thread that asked
                answers.put((None, failure))

        Thread(target=wait, daemon=True).start()
        try:
            value, failure = answers.get(timeout=self.seconds)
        except Empty:
            raise self.error(
                f"{self.url}: the store did not answer within {self.seconds:g} s; check its address and the "
                f"network, or allow more seconds in {TIMEOUT_VARIABLE}"
            ) from None
        if failure is not None:
            raise failure
        return cast("_Value", value)

    def file(self, opened: Callable[[], IO[bytes]]) -> IO[bytes]:
        """Open a file and read each part of it within the limit."""
        return cast("IO[bytes]", _TimedFile(self, self.answer(opened)))


class _TimedFile(io.RawIOBase):
    """Reads a file of a store within the limit."""

    def __init__(self, limit: TimeLimit, file: IO[bytes]) -> None:
        self._limit = limit
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None else size
        return self._limit.answer(lambda: self._file.read(wanted))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
