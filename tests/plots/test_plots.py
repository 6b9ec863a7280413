"""Pictures of results: what is drawn are the numbers of the results, worked out by hand."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from ray_sim import plots
from ray_sim.engine.simulation import Simulation
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.plots.sources import Results
from ray_sim.policies.registry import create_policy
from ray_sim.reports.plots import COLOURS
from tests.proofs import quick_first
from tests.results_by_hand import three_jobs
from tests.stored_by_hand import manifest, store_run, store_sweep
from tests.worlds import Job, replay, world_of


@pytest.fixture
def ax() -> Axes:
    return Figure().add_subplot()


def rectangles(ax: Axes) -> list[Rectangle]:
    """Bars and boxes in the axes, in the order drawn."""
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


@pytest.fixture
def pyplot() -> Iterator[None]:
    """Pictures without a display; all figures are closed at the end."""
    from matplotlib import pyplot

    with mpl.rc_context({"backend": "agg"}):
        yield
        pyplot.close("all")


def points(line: Line2D) -> list[list[float]]:
    """Points (x, y) of a line."""
    found: list[list[float]] = np.asarray(line.get_xydata(), dtype=np.float64).tolist()
    return found


def names_of(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_a_cdf_steps_at_each_completion_time(ax: Axes) -> None:
    # a takes 10 s, b 40 s and 30 s: shares 1/2, 1 and for two seeds 1/4, 2/4, 3/4, 1.
    assert plots.cdf({"fifo": three_jobs(), "las": [three_jobs(), three_jobs(30.0)]}, ax) is ax
    fifo, las = ax.get_lines()
    assert points(fifo) == [[10, 0.5], [40, 1.0]]
    assert points(las) == [[10, 0.25], [10, 0.5], [30, 0.75], [40, 1.0]]
    assert names_of(ax) == ["fifo", "las"]
    assert [line.get_color() for line in (fifo, las)] == list(COLOURS[:2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [["FIFO", "SRTF", "LAS", "users, 2 h", "users, no slices"], list("abcdefg")]
)
def test_a_cdf_for_one_column_of_a_paper_is_readable_in_black_and_white(
    names: list[str], pyplot: None
) -> None:
    from matplotlib import pyplot as plt

    runs = {name: three_jobs(10.0**index) for index, name in enumerate(names)}  # from 10 s to 10 d
    with mpl.rc_context({"font.size": 8}):
        figure, ax = plt.subplots(figsize=(3.35, 2.3), layout="constrained")
        plots.cdf(runs, ax)
        figure.draw_without_rendering()
    low, high = ax.get_xlim()
    ticks = [label for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = [label.get_window_extent() for label in ticks]
    assert len(boxes) >= 3
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    legend, title = ax.get_legend(), ax.xaxis.label.get_window_extent()
    assert legend is not None
    below = legend.get_window_extent()
    assert below.y1 < title.y0
    assert below.y0 >= 0 <= below.x0 < below.x1 <= figure.bbox.x1
    assert ax.get_position().width > 3 / 4
    assert ax.get_position().height > 1 / 3
    assert len({line.get_color() for line in ax.lines}) == len(names)
    assert len({str(vars(line)["_dash_pattern"]) for line in ax.lines}) == len(names)


def test_means_have_the_interval_over_seeds_in_a_unit_that_suits(ax: Axes) -> None:
    # Means of (10 + last) / 2: 7,205 s and four times 10,805 s, so 10,085 s; s = 1,609.97 s, t(4) = 2.776.
    five = [three_jobs(14_400.0), *[three_jobs(21_600.0)] * 4]
    runs: Results = {"fifo": five, "one": three_jobs(14_390.0), "four": five[1:]}
    plots.means(runs, ax)
    bars = ax.containers
    assert [bar[0].get_ydata()[0] for bar in bars] == pytest.approx([10_085 / 3600, 2.0, 10_805 / 3600])
    (segment,) = bars[0][2][0].get_segments()
    factor = math.exp(2.776445 * 1609.969 / 5**0.5 / 10_085)
    assert segment[:, 1] == pytest.approx([10_085 / 3600 / factor, 10_085 / 3600 * factor], rel=1e-4)
    assert not any(bar[2] for bar in bars[1:])  # one seed and four have no interval
    assert ax.get_ylabel() == "mean JCT, hours"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["fifo", "one", "four"]


_LONG = "las(placement=consolidate, thresholds_gpu_s=[3600, 36000]) (helios-{}/days, edge-cloud)"


@pytest.mark.parametrize(
    "names",
    quick_first(
        [[letter * length for letter in "abcdef"] for length in (3, 12, 30)]
        + [list(map(_LONG.format, "abcdef"))]
    ),
)
def test_names_overlap_neither_each_other_nor_the_curves(names: list[str], pyplot: None) -> None:
    runs = {name: three_jobs() for name in names}
    for draw in (plots.means, plots.cdf, plots.by_size):
        ax = draw(runs)
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.draw_without_rendering()
        below = [text.get_window_extent() for text in ax.get_xticklabels()] if draw is plots.means else []
        assert not any(one.overlaps(other) for one, other in pairwise(below))
        legend = ax.get_legend()
        beside = [] if legend is None else [legend.get_window_extent()]
        assert not any(ax.get_window_extent().overlaps(each) for each in beside)
        # All of it is in the picture, and a third of the picture in each direction is for the curves.
        assert all(figure.bbox.containsx(x) for each in [*below, *beside] for x in (each.x0, each.x1))
        assert all(figure.bbox.containsy(y) for each in [*below, *beside] for y in (each.y0, each.y1))
        assert ax.get_position().width > 1 / 3 < ax.get_position().height


def test_an_unknown_metric_or_resource_lists_the_known_ones(ax: Axes) -> None:
    with pytest.raises(UnknownNameError, match=r"jct_s.mean"):
        plots.means(three_jobs(), ax, metric="jct_s.meen")
    with pytest.raises(UnknownNameError, match=r"gpu"):
        plots.utilisation(three_jobs(), ax, resource="gpus")
    with pytest.raises(InvalidInputError, match="capacity: expected a number above 0, found 0"):
        plots.utilisation(three_jobs(), ax, capacity=0)


def test_queue_and_use_follow_the_timeline(ax: Axes) -> None:
    plots.queue(three_jobs(), ax)
    assert points(ax.get_lines()[0]) == [[0, 1], [3, 1], [10, 0], [30, 0]]
    assert ax.get_xlabel() == "time, seconds"
    ax.clear()
    plots.utilisation(three_jobs(), ax, capacity=2)
    assert [y for _, y in points(ax.get_lines()[0])] == [0.5, 0.5, 0.5, 0.0]


def test_a_few_jobs_that_outlive_the_others_by_far_are_out_of_view(ax: Axes) -> None:
    # 40 jobs until 100 s, then one until 10,000 s; it is 1 of 40, below 10 %: 1.1 times 100 s are shown.
    timeline = pl.DataFrame(
        {
            "time_s": [0.0, 100.0, 10_000.0],
            "waiting": [20, 0, 0],
            "running": [20, 1, 0],
            "used_gpu": [8.0, 1.0, 0.0],
        }
    )
    plots.queue(replace(three_jobs(), timeline=timeline), ax)
    assert ax.get_xlim()[1] == pytest.approx(110.0)
    ax.clear()
    plots.queue(replace(three_jobs(), timeline=timeline.with_columns(running=pl.Series([20, 4, 0]))), ax)
    assert ax.get_xlim()[1] * 3600 == pytest.approx(10_000.0)


def test_a_busy_time_before_a_long_tail_keeps_its_points(ax: Axes) -> None:
    # A job a second for 2,000 s, and one that lasts for weeks: what is in view is thinned by itself.
    jobs = [Job(float(n), 1, 1.5) for n in range(2000)] + [Job(2000, 1, 3e6)]
    result = replay(world_of(jobs, [1.0]), "fifo")
    [line] = plots.queue(result, ax).lines
    end = ax.get_xlim()[1]
    seen = np.asarray(line.get_xdata(), dtype=np.float64)
    seen = seen[seen <= end]
    assert seen[0] == 0
    assert len(seen) > 1000


def test_a_run_with_a_horizon_is_drawn_to_its_end(ax: Axes) -> None:
    # Two jobs of 1,000 s, one after the other: the last event is the second submission at 5 s.
    result = replay(world_of([Job(0, 1, 1000), Job(5, 1, 1000)], [1.0], params={"horizon_s": 900}), "fifo")
    assert result.timeline["time_s"].max() == 5
    [line] = plots.queue(result, ax).lines
    minutes, waiting = points(line)[-1]
    assert [minutes * 60, waiting] == pytest.approx([900, 1])
    assert ax.get_xlim()[1] == pytest.approx(15)


def test_a_job_that_is_submitted_after_the_horizon_does_not_extend_the_run(ax: Axes) -> None:
    jobs = [Job(0, 1, 1000), Job(5, 1, 1000), Job(5000, 1, 1)]
    result = replay(world_of(jobs, [1.0], params={"horizon_s": 900}), "fifo")
    [line] = plots.queue(result, ax).lines
    assert np.asarray(line.get_xdata(), dtype=np.float64)[-1] == pytest.approx(15)
    ax.clear()
    [bar] = rectangles(plots.gantt(result, ax))
    assert bar.get_width() == pytest.approx(15)


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ({1: None}, "results: expected labels that are texts"),
        ({"fifo": 3}, r"results\['fifo'\]: expected a result, or one for each seed, found int"),
        ({"fifo": [3]}, r"results\['fifo'\]: expected results of `simulate` or `load`, found int"),
        ([1, 2], "results: expected a result, the directory of a run or a sweep, or a mapping .* found list"),
    ],
)
def test_results_of_other_types_are_refused_by_name(results: Results, text: str, ax: Axes) -> None:
    with pytest.raises(InvalidInputError, match=text):
        plots.cdf(results, ax)


def test_a_time_of_runs_without_a_completed_job_has_no_value(ax: Axes) -> None:
    result = replay(world_of([Job(0, 2, 10)], [1.0]), "fifo")
    with pytest.raises(InvalidInputError, match=r"metric 'jct_s\.mean' has no value in these runs"):
        plots.means({"fifo": result}, ax)


def test_axes_are_those_of_one_picture() -> None:
    several: Any = Figure().subplots(1, 2)
    with pytest.raises(InvalidInputError, match=r"ax: expected the axes of one picture, .* found ndarray"):
        plots.cdf(three_jobs(), several)


def test_a_gantt_has_a_bar_for_each_stay(ax: Axes) -> None:
    # On one GPU a runs 0-10 and b 10-30.
    plots.gantt(three_jobs(), ax)
    bars = [(bar.get_x(), bar.get_width()) for bar in rectangles(ax)]
    assert bars == [(0.0, 10.0), (10.0, 20.0)]
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["s0"]


def test_a_gantt_of_several_or_of_large_runs_is_refused(ax: Axes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="expected one run"):
        plots.gantt({"a": three_jobs(), "b": three_jobs()}, ax)
    nothing = replace(three_jobs(), events=three_jobs().events.head(2))
    with pytest.raises(InvalidInputError, match="gantt: 0 stays"):
        plots.gantt(nothing, ax)
    monkeypatch.setattr("ray_sim.plots.over_time.MOST_STAYS", 1)
    with pytest.raises(InvalidInputError, match="gantt: 2 stays of jobs on servers; expected 1 to 1"):
        plots.gantt(three_jobs(), ax)


def test_boxes_stand_by_size_and_policy(ax: Axes) -> None:
    runs = {"fifo": three_jobs(), "las": three_jobs(90.0)}
    plots.by_size(runs, ax)
    assert [text.get_text() for text in ax.texts] == ["1 GPU or less"]
    # A box from the lower to the upper quartile of 10 and 40, or of 10 and 90.
    boxes = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in rectangles(ax)]
    assert boxes == [pytest.approx((17.5, 32.5)), pytest.approx((30.0, 70.0))]
    assert names_of(ax) == ["fifo", "las"]


@pytest.mark.slow
def test_results_on_disk_give_the_same_picture_as_in_memory(tmp_path: Path) -> None:
    sweep, run = store_sweep(tmp_path / "sweep"), store_run(tmp_path / "run")
    for draw in (plots.cdf, plots.queue, plots.by_size, plots.means):
        stored, memory = (Figure().add_subplot() for _ in range(2))
        draw(sweep, stored)
        draw({"fifo": three_jobs(), "sjf": three_jobs()}, memory)
        assert [points(line) for line in stored.get_lines()] == [points(line) for line in memory.get_lines()]
        assert names_of(stored) == names_of(memory)
    plots.gantt(run, Figure().add_subplot())
    with pytest.raises(InvalidInputError, match="holds neither a run"):
        plots.cdf(tmp_path / "nowhere")


def test_a_sweep_without_a_finished_run_is_named(ax: Axes, tmp_path: Path) -> None:
    entry = Entry("ab" * 32, "week", "edge", "", "fifo", 0, "ab" * 32)
    store = ResultStore(tmp_path)
    with store.writing("demo"):
        store.write_plan("demo", [entry])
    for draw in (plots.means, plots.cdf, plots.queue):
        with pytest.raises(InvalidInputError, match="no run has finished; run the sweep with resume=True"):
            draw(tmp_path, ax)


def test_names_from_outside_are_text_and_no_formulas(ax: Axes) -> None:
    plots.cdf({"_a$x^2$": three_jobs(), "b": three_jobs()}, ax)
    assert names_of(ax) == [r" _a\$x^2\$", "b"]
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(io.BytesIO(), format="png")


@pytest.mark.usefixtures("pyplot")
def test_without_axes_there_is_a_new_figure_each_time() -> None:
    first, second = plots.queue(three_jobs()), plots.cdf(three_jobs())
    assert first.figure is not second.figure


def test_the_state_of_a_simulation_shows_what_jobs_hold(ax: Axes) -> None:
    # J1 takes both GPUs of s0 at 0, J2 one of s1; J3 waits for two.
    world = world_of([Job(0, 2, 100), Job(0, 1, 50), Job(0, 2, 10)], [2, 1])
    policy = create_policy("fifo")
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    view = simulation.advance()
    assert view is not None
    simulation.apply(policy.decide(view))
    plots.state(simulation, view, ax)
    bars = [(round(bar.get_y() + 0.4), bar.get_x(), bar.get_width()) for bar in rectangles(ax)]
    assert bars == [(0, 0, 2.0), (1, 0, 1.0), (0, 0.0, 2.0), (1, 0.0, 1.0)]  # offered, then taken
    assert ax.get_title() == "0 s: 1 waiting, 2 running"
    view = simulation.advance()  # at 50 s J2 ends
    assert view is not None
    simulation.apply(policy.decide(view))
    plots.state(simulation, view, ax)
    assert len(ax.patches) == 3
    assert ax.get_title() == "50 s: 1 waiting, 1 running"
    with pytest.raises(UnknownNameError, match="gpu"):
        plots.state(simulation, view, ax, resource="tpu")


def test_stepping_gives_the_result_of_the_run() -> None:
    world = world_of([Job(0, 2, 100), Job(0, 1, 50), Job(0, 2, 10)], [2, 1])
    policy = create_policy("fifo")
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    while (view := simulation.advance()) is not None:
        simulation.apply(policy.decide(view))
        plots.state(simulation, view, Figure().add_subplot())
    stepped, whole = simulation.result().jobs, replay(world, "fifo").jobs
    assert stepped.equals(whole)
    assert stepped.select(pl.col("status").unique()).to_series().to_list() == ["completed"]


def test_the_axis_of_a_workload_of_dates_begins_at_its_first_event(ax: Axes) -> None:
    # One server of one GPU: b waits for a from 1,000,000,010 to 1,000,000,100.
    jobs = [Job(1_000_000_000, 1, 100), Job(1_000_000_010, 1, 50)]
    plots.queue(replay(world_of(jobs, [1]), "fifo"), ax)
    assert ax.get_xlabel() == "time since 2001-09-09 01:46:40 UTC, minutes"
    assert ax.get_xlim() == pytest.approx((0.0, 2.5))
    (line,) = ax.get_lines()
    assert [1 / 6, 1.0] in [pytest.approx(point) for point in points(line)]


def test_points_across_clusters_are_means_and_clusters_that_are_not_here_have_names(
    tmp_path: Path, ax: Axes
) -> None:
    # Mean JCTs (10 + last) / 2 s: of last 40 and 20, 25 s on the first cluster and 15 s on the second.
    lasts = {"big": 40.0, "bigger": 20.0}
    hashes = {cluster: f"{index}a" * 32 for index, cluster in enumerate(lasts)}
    store = ResultStore(tmp_path)
    with store.writing("demo"):
        store.write_plan(
            "demo", [Entry(each, "week/days", name, "", "fifo", 0, each) for name, each in hashes.items()]
        )
        for name, each in hashes.items():
            made = manifest(each, "fifo")
            inputs = made["inputs"]
            assert isinstance(inputs, dict)
            found = encode_result(three_jobs(lasts[name]), {**made, "inputs": {**inputs, "cluster": name}})
            store.put(each, found)
    plots.across(tmp_path, "cluster", ax)
    assert points(ax.get_lines()[0]) == [[0.0, 25.0], [1.0, 15.0]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["big", "bigger"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cluster", "jct_s.mean (seconds)")
    with pytest.raises(InvalidInputError, match=r"no policy has jct_s.mean at two values of 'world'"):
        plots.across(tmp_path, "world", ax)
    with pytest.raises(InvalidInputError, match="expected the results of a sweep"):
        plots.across({"fifo": three_jobs()}, ax=ax)
