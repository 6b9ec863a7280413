"""What people see while work goes on."""

from __future__ import annotations

import contextlib
import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.cli.console import print_legend, print_rows, print_table, print_text, say
from ray_sim.model.readable import number
from ray_sim.progress import Pace
from ray_sim.reports.small_tables import COMPARED


def paced(seconds: list[int]) -> Pace:
    """A pace whose reports come at these seconds."""
    return Pace(iter(map(float, seconds)).__next__)


def test_a_pace_counts_from_the_first_unit_on() -> None:
    # 400 of 1,000 were there at first. The kernels take 90 s, until 410; then 100 in 10 s: 490 at 10/s.
    pace = paced([0, 90, 95, 100])
    assert pace.text(400, 1000) == ""
    assert pace.text(410, 1000) == ""
    assert pace.text(450, 1000) == "8/s"
    assert pace.text(510, 1000) == "10/s, 0:00:49 left"


def test_a_pace_begins_anew_with_the_next_step_of_the_work() -> None:
    # The first step does 999 in 20 s. The next starts at 50 s, and does 98 in 20 s: 200 left at 4.9/s.
    pace = paced([0, 1, 21, 30, 50, 70])
    assert [pace.text(done, 1000) for done in (0, 1, 1000)][-1] == "50/s, 0:00:00 left"
    assert [pace.text(done, 300) for done in (0, 2, 100)] == ["", "", "4.9/s, 0:00:41 left"]


def test_a_slow_pace_has_two_digits() -> None:
    pace = paced([0, 30, 60, 90, 120])
    assert [pace.text(done, 103) for done in range(5)][-1] == "0.033/s, 0:49:30 left"


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2)), min_size=1, max_size=30))
def test_a_remaining_time_is_said_from_three_units_and_ten_seconds_after_the_first_unit_on(
    reports: list[tuple[float, int]],
) -> None:
    now, done, first = 0.0, 0, None
    clock = [now]
    pace = Pace(lambda: clock[0])
    pace.text(0, 100)
    for wait, units in reports:
        now, done = now + wait, done + units
        clock[0] = now
        text = pace.text(done, 100)
        if first is None and done:
            first = now, done
        known = first is not None and done - first[1] >= 3 and now - first[0] >= 10
        assert ("left" in text) == known


def test_a_note_on_the_work_is_apart_from_the_time_left() -> None:
    pace = paced([0, 2, 12])
    assert pace.line(0, 30) == "0 of 30"
    assert pace.line(10, 30) == "10 of 30"
    assert pace.line(30, 30, "least mean JCT: fifo") == "30 of 30, 2/s, 0:00:00 left, least mean JCT: fifo"


LISTING = (
    ["policy", "rule", "mean JCT s"],
    [
        ("fifo", "the job that came first is served first, whatever it needs", 1234567.0),
        ("sjf", "short", 3.5),
    ],
)


def test_a_table_in_a_pipe_has_a_line_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(*LISTING)
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["policy", "rule", "mean", "JCT", "s"]
    assert first == f"fifo    {LISTING[1][0][1]}   1,234,567"
    assert second.split() == ["sjf", "short", "3.5"]


@pytest.mark.parametrize("width", [24, 40, 60, 80])
def test_rows_on_a_terminal_are_no_wider_than_it_and_lose_nothing(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_rows([("rule of fifo", LISTING[1][0][1])])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    assert printed.split() == ["rule", "of", "fifo", *str(LISTING[1][0][1]).split()]


WORDS = st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=5).map(" ".join)


@given(
    width=st.integers(10, 120),
    headings=st.lists(WORDS, min_size=1, max_size=7),
    cells=st.lists(st.lists(WORDS | st.integers(0, 10**9), min_size=7, max_size=7), min_size=1, max_size=3),
)
def test_any_table_on_a_terminal_keeps_to_its_width_and_loses_no_word(
    width: int, headings: list[str], cells: list[list[str | int]]
) -> None:
    printed = io.StringIO()
    rows = [row[: len(headings)] for row in cells]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("COLUMNS", str(width))
        print_table(headings, rows)
    texts = [number(cell) for row in rows for cell in row]
    words = [word for text in texts for word in text.split()]
    # A column with one text may be told once, in a list with commas.
    columns = [[number(cell) for cell in column] for column in zip(*rows, strict=True)]
    told = [text for column in columns for text in (column if len(set(column)) > 1 else column[:1])]
    without_commas = " ".join(told).replace(",", "").split()
    assert Counter(without_commas) <= Counter(printed.getvalue().replace(",", "").split())
    # Words stay whole, and so does a cell beside a label as wide as the terminal.
    label = max(map(len, headings)) + 2
    widest = label + max(map(len, texts if label >= width else words))
    assert max(map(len, printed.getvalue().splitlines())) <= max(width, widest)


def test_a_table_too_wide_for_columns_becomes_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["policy", "mean JCT s", "makespan s"], [("fifo", 1234567.0, 2), ("sjf", 3.5, 4)]
    monkeypatch.setenv("COLUMNS", "27")  # columns of 6, 9 and 8, with two blanks between them
    print_table(*table)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 27
    monkeypatch.setenv("COLUMNS", "26")
    print_table(*table)
    assert capsys.readouterr().out.splitlines() == [
        "policy      fifo",
        "mean JCT s  1,234,567",
        "makespan s  2",
        "",
        "policy      sjf",
        "mean JCT s  3.5",
        "makespan s  4",
    ]


@pytest.mark.parametrize("width", range(22, 60))
def test_a_line_never_ends_inside_a_duration(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    durations = ["13 h 58 min", "1,234 d 2 h", "4.5 s"]
    text = f"-{durations[0]} [-{durations[1]}, {durations[2]}]"
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(["policy", "difference"], [("las", text), ("sjf", "-")])
    print_rows([("now", text)])
    print_text(text)
    printed = capsys.readouterr().out
    assert [printed.count(each) for each in durations] == [3, 3, 3]
    assert printed.isascii()  # what is copied has plain blanks


def test_a_legend_explains_the_words_of_a_table_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    print_legend(["lower bound", "gap", "B3 of gpu", "restarts", *COMPARED])
    words = [line.partition(":")[0] for line in capsys.readouterr().out.split("; ")]
    assert words == ["d_z", "wins", "p", "bound", "gap", "B3", "restarts"]
    print_legend(["mean JCT", "boundary"])
    assert capsys.readouterr().out == ""


def test_names_of_a_trace_do_not_reach_the_terminal_raw(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jvc"
    print_rows([(evil, evil), ("n", 3)])
    print_table([evil], [[evil]], title=evil)
    say(f"warning: {evil}")
    printed = "".join(capsys.readouterr())
    assert printed.isascii()
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert printed.count(r"\x1b]0;owned\x07\x1b[2Jvc") == 6
