from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from workloads.status import UNDECIDED, WORDS, Ending, endings


def _ending(word: str | None) -> str | None:
    frame = pl.DataFrame({"status": [word]}, schema={"status": pl.String()})
    found: str | None = frame.select(endings(pl.col("status"))).item()
    return found


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("Pass", Ending.PASSED),  # Philly
        ("Killed", Ending.KILLED),
        ("Failed", Ending.FAILED),
        ("COMPLETED", Ending.PASSED),  # Slurm
        ("CANCELLED", Ending.KILLED),
        ("TIMEOUT", Ending.KILLED),
        ("NODE_FAIL", Ending.FAILED),
        ("CANCELLED by 1000", Ending.KILLED),  # sacct, with the user who did it
        ("cancelled by root", Ending.KILLED),
        ("CANCELLED+", Ending.KILLED),  # cut to ten characters
        ("CANCELL+", Ending.KILLED),
        ("OUT_OF_ME+", Ending.FAILED),
        ("LAUNCH_FA+", Ending.FAILED),
        ("RECONFIG_+", Ending.FAILED),
        ("COMPLETED+", Ending.PASSED),
        ("PREEMPTED", Ending.KILLED),
        ("DEADLINE", Ending.KILLED),
        ("BOOT_FAIL", Ending.FAILED),
        ("FINISH", Ending.PASSED),  # Google
        ("EVICT", Ending.KILLED),
        (" Succeeded ", Ending.PASSED),  # Kubernetes
    ],
)
def test_the_words_of_known_traces_mean_what_they_mean_there(word: str, ending: Ending) -> None:
    assert _ending(word) == ending


@pytest.mark.parametrize(
    "word",
    [None, "", "running", "Terminated", "0", "passed?", "+", "FAI+", "failed by 1000", "CANCELLED by "],
)
def test_any_other_word_says_nothing(word: str | None) -> None:
    assert _ending(word) is None


def test_a_word_that_is_cut_counts_where_all_words_of_slurm_that_begin_so_mean_the_same() -> None:
    # sacct's job states and what they come to; `--format=State%N` cuts them to N characters, the last a plus.
    slurm = {word.upper(): ending for ending in Ending for word in WORDS[ending]} | dict.fromkeys(
        ["COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "RESIZING", "REVOKED", "RUNNING", "SUSPENDED"]
    )
    for state, ending in slurm.items():
        for width in range(5, len(state) + 1):
            begin = state[: width - 1]
            others = {meaning for word, meaning in slurm.items() if word.startswith(begin)}
            assert _ending(f"{begin}+") == (ending if len(others) == 1 else None), begin
    assert _ending("COMPL+") is None  # COMPLETED or COMPLETING


def test_no_word_has_two_meanings() -> None:
    words = [word for meanings in (*WORDS.values(), UNDECIDED) for word in meanings]
    assert len(words) == len(set(words))
    assert words == [word.lower().strip() for word in words]


def test_the_guide_lists_every_word() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")
    for ending, words in WORDS.items():
        assert f"| {ending} | {', '.join(words)} |" in guide
