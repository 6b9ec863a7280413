"""How jobs ended in the trace: one meaning for the words of many traces."""

from __future__ import annotations

from enum import StrEnum

import polars as pl


class Ending(StrEnum):
    """What became of a job in the trace."""

    PASSED = "passed"
    FAILED = "failed"
    KILLED = "killed"
    """Somebody or something ended it: its user, a time limit, a job of higher priority."""


WORDS: dict[Ending, tuple[str, ...]] = {
    Ending.PASSED: (
        "pass",
        "passed",
        "complete",
        "completed",
        "finish",
        "finished",
        "succeeded",
        "success",
        "done",
    ),
    Ending.FAILED: ("fail", "failed", "failure", "error", "node_fail", "out_of_memory", "boot_fail"),
    Ending.KILLED: (
        "kill",
        "killed",
        "cancelled",
        "canceled",
        "aborted",
        "timeout",
        "deadline",
        "evict",
        "evicted",
        "preempted",
    ),
}
"""Words of the traces of Philly, Google, Slurm and Kubernetes. Words that mean one thing here and
another there (`terminated`) are left out on purpose."""


def endings(status: pl.Expr) -> pl.Expr:
    """The `Ending` of each status, whatever its case; null where it is null or a word we do not know."""
    meanings = {word: str(ending) for ending, words in WORDS.items() for word in words}
    word = status.str.strip_chars().str.to_lowercase()
    return word.replace_strict(meanings, default=None, return_dtype=pl.String())
