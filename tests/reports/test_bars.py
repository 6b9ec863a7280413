from __future__ import annotations

from ray_sim.reports.bars import ASCII, bar, sparkline


def test_the_highest_bar_of_a_line_is_full_and_the_others_in_proportion() -> None:
    # Eight heights, 0 to 7: 3.5 of 7 rounds to 4.
    assert sparkline([0.0, 1.0, 2.0, 1.0], 10) == "▁▅█▅"
    assert sparkline([0.0, 0.0], 10) == "▁▁"


def test_neighbours_share_a_bar_by_their_mean_where_there_are_too_many() -> None:
    # Means of (0, 2), (4, 4) and of (8, 8): 1, 4, 8.
    assert sparkline([0.0, 2.0, 4.0, 4.0, 8.0, 8.0], 3) == "▂▅█"


def test_a_bar_is_as_long_as_its_share_to_an_eighth() -> None:
    assert bar(1.0, 3) == "███"
    assert bar(0.5, 3) == "█▌"
    assert bar(0.0, 3) == ""
    assert bar(1e-9, 3) == "▏"


def test_bars_have_a_form_without_special_characters() -> None:
    for text in (sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), bar(0.99, 3), bar(0.05, 3)):
        plain = text.translate(ASCII)
        assert plain.isascii()
        assert len(plain) == len(text)
