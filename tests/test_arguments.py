"""Arguments of the Python interface of a wrong type are refused by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import ray_sim

rs: Any = ray_sim
"""Without types: these calls are wrong on purpose."""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: rs.plan({}, "mean_jct_s<9", {}, seeds=0), "seeds: expected 1 to 100,000, found 0"),
        (
            lambda: rs.plan({}, "mean_jct_s<9", {}, seeds=1.5),
            "seeds: expected a whole number, found float",
        ),
        (lambda: rs.compare({1: 2, 3: 4}), "results: expected labels that are texts"),
        (
            lambda: rs.plan({}, "mean_jct_s<9", {}, max_in_flight=0),
            "max_in_flight: expected at least 1, found 0",
        ),
        (lambda: rs.sweep({}, max_in_flight=True), "max_in_flight: expected a whole number, found bool"),
        (lambda: rs.plan({}, 5, {}), "goal: expected a text such as .* found int"),
        (lambda: rs.simulate(5, "toy"), "workload: expected a path, a workload or its table, found int"),
        (lambda: rs.simulate("a", 5), "cluster: expected a name, a path or a cluster, found int"),
        (lambda: rs.simulate("a", "toy", world=5), "world: expected a mapping .* found int"),
        (lambda: rs.convert("csv", "a.csv", 5), "out: expected a path, found int"),
        (lambda: rs.compare("a", "b", metric=5), "metric: expected the name of a metric, found int"),
        (lambda: rs.compare(5, 6), "results: expected directories, or what .* returned, found int"),
        (lambda: rs.report({"a": 1}, "o.html"), "results: expected a directory, .* found dict"),
        (lambda: rs.load(5), "path: expected a path, found int"),
        (lambda: rs.describe(pl.DataFrame()), "workload: expected a path or a workload, found DataFrame"),
        (lambda: rs.convert("csv", "a.csv", "o", window=(1,)), r"window: expected a pair of .* found \(1,\)"),
        (lambda: rs.simulate("a", "toy", trim=(1, 2)), "trim: expected a `Trim`, found tuple"),
        (lambda: rs.simulate("a", "toy", sites=1.5), "sites: expected a number of groups .* found float"),
        (lambda: rs.simulate("a", "toy", partition="x"), "partition: expected none or vc, found x"),
    ],
)
def test_arguments_of_other_types_are_refused_by_name(call: Callable[[], object], text: str) -> None:
    with pytest.raises(rs.RaySimError, match=text):
        call()
