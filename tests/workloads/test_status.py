from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from workloads.status import WORDS, Ending, endings


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
        ("FINISH", Ending.PASSED),  # Google
        ("EVICT", Ending.KILLED),
        (" Succeeded ", Ending.PASSED),  # Kubernetes
    ],
)
def test_the_words_of_known_traces_mean_what_they_mean_there(word: str, ending: Ending) -> None:
    assert _ending(word) == ending


@pytest.mark.parametrize("word", [None, "", "running", "Terminated", "0", "passed?"])
def test_any_other_word_says_nothing(word: str | None) -> None:
    assert _ending(word) is None


def test_no_word_has_two_meanings() -> None:
    words = [word for meanings in WORDS.values() for word in meanings]
    assert len(words) == len(set(words))
    assert words == [word.lower().strip() for word in words]


def test_the_guide_lists_every_word() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")
    for ending, words in WORDS.items():
        assert f"| {ending} | {', '.join(words)} |" in guide
