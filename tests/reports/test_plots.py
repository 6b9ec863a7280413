"""Pictures: the right numbers, stable bytes, and lines that are thinned but keep their peaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.reports.plots import JctCdfPngs, completed_jct_s, jct_cdf_png, jct_cdf_svg, thin_steps
from tests.results_by_hand import three_jobs


def test_only_completed_jobs_enter_the_cdf() -> None:
    np.testing.assert_array_equal(completed_jct_s(three_jobs().jobs), [10.0, 40.0])


@pytest.mark.slow
def test_the_same_numbers_give_the_same_picture() -> None:
    curves = {"fifo": np.array([10.0, 40.0]), "none completed": np.array([])}
    picture = jct_cdf_png(curves, "JCT")
    assert picture == jct_cdf_png(curves, "JCT")
    assert picture.startswith(b"\x89PNG")


@pytest.mark.slow
def test_what_was_drawn_before_leaves_no_trace_in_the_next_picture() -> None:
    pictures = JctCdfPngs()
    first = pictures.draw(np.array([10.0, 40.0]), "one")
    assert pictures.draw(np.array([]), "none") != first
    assert pictures.draw(np.array([15.0, 3000.0]), "a longer title") != first
    assert pictures.draw(np.array([10.0, 40.0]), "one") == first
    assert JctCdfPngs().draw(np.array([10.0, 40.0]), "one") == first


@pytest.mark.slow
@pytest.mark.parametrize("jct_s", [[], [0.0], [1.0, 2e9], [1e-6, 5.0]])
def test_any_completion_times_can_be_drawn(jct_s: list[float]) -> None:
    assert JctCdfPngs().draw(np.array(jct_s), "JCT").startswith(b"\x89PNG")
    assert jct_cdf_png({"fifo": np.array(jct_s)}, "JCT").startswith(b"\x89PNG")


def test_a_picture_in_a_page_has_the_colours_of_its_text() -> None:
    svg = jct_cdf_svg({"fifo": np.array([10.0]), "sjf": np.array([20.0])}, "jct")
    assert svg.startswith("<svg ")
    assert 'fill="currentColor"' in svg
    assert "#000000" not in svg


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 100)), min_size=1, max_size=300),
    st.integers(4, 60),
)
def test_a_thinned_line_keeps_its_peak_its_ends_and_its_order(
    steps: list[tuple[int, int]], points: int
) -> None:
    time_s = np.cumsum([float(wait) for wait, _ in steps])
    values = np.array([float(value) for _, value in steps])
    kept = thin_steps(time_s, values, points)
    assert len(kept) <= points
    assert values[kept].max() == values.max()
    assert (kept[0], kept[-1]) == (0, len(steps) - 1)
    assert (np.diff(kept) > 0).all()


def test_a_thinned_line_shows_the_peak_of_every_stretch_and_how_it_ends() -> None:
    # Half of the time ends at 4.5, half of the points before 4: stretches [0, 4), [4, 4.5) and [4.5, 9] with
    # peaks 7 (at 2), 1 and 5 (at 6), and last values 2, 1 and 0.
    time_s = np.arange(10.0)
    values = np.array([0.0, 3, 7, 2, 1, 4, 5, 5, 2, 0])
    assert thin_steps(time_s, values, 8).tolist() == [0, 2, 3, 4, 6, 9]


def test_a_thinned_line_keeps_the_shape_of_a_busy_hour_before_a_quiet_year() -> None:
    # 2,000 steps of a second, and one after a year: half of the points show the busy time evenly.
    time_s = np.append(np.arange(2000.0), 3e7)
    kept = thin_steps(time_s, np.append(np.arange(2000) % 7, 0).astype(float), 200)
    assert len(kept) <= 200
    assert np.diff(time_s[kept][:-1]).max() <= 2000 / (200 // 4)
