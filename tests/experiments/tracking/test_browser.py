"""The prepared pages of MLflow, opened in a headless browser as `make ui` opens them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ray_sim.experiments.tracking.log import log_stores
from ray_sim.experiments.tracking.views import CONFIGURATIONS_VIEW_TAG, TIME_CHARTS, VIEW_TAG, charts_path
from tests.chromium import document_of
from tests.mlflow_server import mlflow_server
from tests.patience import until
from tests.stored_sweeps import numbered, scaled, scenarios, store_sweep

pytestmark = [pytest.mark.docs, pytest.mark.slow]

POLICIES = ("fifo", "sjf")
CHARTS = ("jct_s.mean", "jct_s.p99", "queue_s.mean", "utilisation.gpu", "makespan_s")
HOSTILE = "<img src=x onerror=alert(1)>_a_*b*"
SCALES = (0.8, 1.0, 1.25)


@dataclass(frozen=True)
class Pages:
    """Pages of a server with two sweeps, in Chromium."""

    browser: str
    server: str
    profile: Path

    def opened(self, experiment_id: str, view_tag: str = VIEW_TAG) -> str:
        """The document of a prepared page, see `document_of`."""
        address = f"{self.server}/{charts_path(experiment_id, view_tag)}"
        return document_of(self.browser, self.profile, address, "1600,2600")


@pytest.fixture(scope="module")
def pages(browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """A sweep without an axis, experiment 1, and one over three load scales, experiment 2."""
    folder = tmp_path_factory.mktemp("pages")
    plain = numbered(scenarios(POLICIES, 2, workload=f"{HOSTILE}.parquet"))
    stores = [
        store_sweep(folder / "plain", "plain", plain, "full"),
        store_sweep(folder / "axis", "axis", numbered(scaled(POLICIES, SCALES, 2), 16)),
    ]
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        for store in stores:
            log_stores([store.root])
    with mlflow_server(uri, folder / "artifacts") as server:
        yield Pages(browser, server, folder / "profile")


def test_the_page_shows_a_chart_per_metric_with_a_bar_per_policy(pages: Pages) -> None:
    found = []

    def drawn() -> bool:
        """Whether each chart has its title and both policies' names; the list of runs has these too."""
        found.append(pages.opened("1"))
        named = all(found[-1].count(f">{policy}<") > len(CHARTS) for policy in POLICIES)
        return named and all(f">{title}<" in found[-1] for title in (*CHARTS, *TIME_CHARTS))

    until(drawn, "the charts are drawn")
    assert ">2</strong> matching runs" in found[-1]  # neither the sweep's own run nor its seeds
    assert "fifo seed 0" not in found[-1]


def test_a_sweep_over_a_number_has_a_line_per_policy_and_bars_on_a_second_page(pages: Pages) -> None:
    found = []

    def drawn() -> bool:
        found.append(pages.opened("2"))
        return found[-1].count(">workload.load_scale<") >= 2 and "scatterlayer" in found[-1]

    until(drawn, "the lines are drawn")
    assert ">2</strong> matching runs" in found[-1]
    assert all(f"fifo ({metric})<" in found[-1] for metric in CHARTS[:2])
    six = ">6</strong> matching runs"
    until(lambda: six in pages.opened("2", CONFIGURATIONS_VIEW_TAG), "the configurations are listed")


def test_the_description_shows_the_findings_and_names_as_text(pages: Pages) -> None:
    found = []

    def shown() -> bool:
        found.append(pages.opened("1"))
        return "has the least mean JCT" in found[-1]

    until(shown, "the description is shown")
    assert "&lt;img src=x onerror=alert(1)&gt;_a_*b*" in found[-1]
