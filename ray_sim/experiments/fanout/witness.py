"""A process that says what has happened when this one ends without a word.

Ray's core ends the driver from C++ when its object store is gone, before Python can say anything.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_GOOD_END = b"done\n"

_WAIT_AND_TELL = """
import sys
words, *rest = [*sys.stdin.buffer, b""]
if b"done\\n" not in rest:
    sys.stderr.buffer.write(words)
"""
"""Reads the words, then until the end of its input; silent if the last line before is `_GOOD_END`."""


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """If this process ends within the block and Python does not, one line of text goes to standard error."""
    command = [sys.executable, "-I", "-S", "-c", _WAIT_AND_TELL]
    # In a session of its own: a signal to the terminal's group is for the process that it watches.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as witness:
        assert witness.stdin is not None
        witness.stdin.write(f"{text}\n".encode())
        witness.stdin.flush()
        try:
            yield
        finally:
            with suppress(BrokenPipeError):  # somebody killed the witness
                witness.stdin.write(_GOOD_END)
                witness.stdin.close()
