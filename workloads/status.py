"""Meaning of the status words of several traces: passed, failed or killed.

Used by `--unsuccessful drop`. A word that moves to another meaning changes results; docs/workloads.md lists
them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import polars as pl


class Ending(StrEnum):
    """Outcome of a job in the trace."""

    PASSED = "passed"
    FAILED = "failed"
    KILLED = "killed"
    """Ended by its user, a time limit, an operator or a job of higher priority."""


WORDS: dict[Ending, tuple[str, ...]] = {
    Ending.PASSED: (
        *("pass", "passed", "complete", "completed", "finish", "finished", "succeeded", "success", "done"),
    ),
    Ending.FAILED: (
        *("fail", "failed", "failure", "error", "node_fail", "out_of_memory", "oomkilled", "boot_fail"),
        *("launch_failed", "reconfig_fail"),
    ),
    Ending.KILLED: (
        *("kill", "killed", "cancelled", "canceled", "aborted", "timeout", "deadline", "evict", "evicted"),
        "preempted",
    ),
}
"""Words of the traces of Philly, Google, Slurm and Kubernetes, in lower case."""

UNDECIDED = (
    *("terminated", "completing", "configuring", "pending", "requeued", "resizing", "revoked", "running"),
    *("signaling", "special_exit", "stage_out", "stopped", "suspended"),
)
"""Words that do not say how a job ended: Slurm's states before the end, and `terminated`, which is success in
Alibaba's GPU trace of 2020 and a killed job in other systems."""

SHORTEST = 4
"""Fewest letters of a truncated word that count."""


def endings(status: pl.Expr) -> pl.Expr:
    """The `Ending` of each status, ignoring case; null for a null or an unknown word.

    Slurm adds the user who cancelled a job, ``CANCELLED by 1000``, and truncates words to a column's width,
    ``OUT_OF_ME+``. A truncated word counts if all words with these first letters mean the same.
    """
    word = status.str.strip_chars().str.to_lowercase().str.replace("^(cancell?ed) by .*$", "${1}")
    return word.replace_strict(_MEANINGS, default=None, return_dtype=pl.String())


def _meanings() -> Iterator[tuple[str, Ending]]:
    """Yield every word, and every truncation with one meaning, with that meaning."""
    known = {word: ending for ending, words in WORDS.items() for word in words}
    yield from known.items()
    for whole, ending in known.items():
        for letters in range(SHORTEST, len(whole) + 1):
            begin = whole[:letters]
            meanings = {known.get(word) for word in (*known, *UNDECIDED) if word.startswith(begin)}
            if meanings == {ending}:
                yield f"{begin}+", ending


_MEANINGS = {word: str(ending) for word, ending in _meanings()}

ENDED = frozenset(_MEANINGS)
"""Words in lower case that say how a job ended."""
