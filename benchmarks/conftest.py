"""The fixture of the benchmarks."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.figures import Figures


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--small` is for tests of the benchmarks."""
    parser.addoption("--small", action="store_true", help="inputs of a few jobs, each measured once")


@pytest.fixture
def figures(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Figures:
    """Figures of this benchmark."""
    return Figures(benchmark, bool(request.config.getoption("--small")))
