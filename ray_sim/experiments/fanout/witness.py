"""A process that says what has happened when this one ends without a word.

Ray's core ends the driver from C++ when its object store is gone, before Python can say anything.
"""

from __future__ import annotations

import faulthandler
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_GOOD_END = b"done\n"

_WAIT_AND_TELL = """
import sys
words, *rest = [*sys.stdin.buffer, b""]
if b"done\\n" not in rest:
    stack = [line for line in rest if line.startswith((b"Fatal", b"  File"))]
    sys.stderr.buffer.writelines([words, *stack[:4]])
"""
"""Reads the words, then until the end of its input; silent if the last line before is `_GOOD_END`."""


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """If this process ends within the block and Python does not, one line of text goes to standard error.

    After a crash the innermost Python calls follow it.
    """
    command = [sys.executable, "-I", "-S", "-c", _WAIT_AND_TELL]
    # In a session of its own: a signal to the terminal's group is for the process that it watches.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as witness:
        assert witness.stdin is not None
        witness.stdin.write(f"{text}\n".encode())
        witness.stdin.flush()
        enabled = faulthandler.is_enabled()
        faulthandler.enable(witness.stdin, all_threads=False)
        try:
            yield
        finally:
            faulthandler.disable()
            if enabled:
                faulthandler.enable(sys.__stderr__ or sys.stderr)
            with suppress(BrokenPipeError):  # somebody killed the witness
                witness.stdin.write(_GOOD_END)
                witness.stdin.close()
