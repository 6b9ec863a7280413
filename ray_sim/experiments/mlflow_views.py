"""Views of a sweep in MLflow: configurations with means over their seeds, and a page of charts.

The export of a sweep to MLflow calls this module; nothing here talks to MLflow. Runs already exported carry
the tags and the metric names: a change leaves old runs off the page. The JSON keys are MLflow's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from ray_sim.experiments.sweep_file import Entry
from ray_sim.model.units import FloatArray
from ray_sim.reports.compare import lower_is_better
from ray_sim.reports.statistics import mean_interval
from ray_sim.reports.tables import GAPS, KEYS, SHARES, SWEEP_HEADINGS, RunRow, run_table, sweep_table

CONFIGURATION_TAG = "ray_sim.configuration"
"""Tag of the runs that the prepared page shows: one top-level run with metrics per configuration."""

VIEW_TAG = "mlflow.sharedViewState.ray_sim"
"""Tag of the experiment; its value is the state of the prepared page, as MLflow's Share button stores it.

The part after the last dot is the key in the page's path.
"""

CHARTS = (
    "utility",
    "welfare.welfare",
    "jct_s.mean",
    "jct_s.p99",
    "queue_s.mean",
    "utilisation.gpu",
    "certificate.gap",
    "makespan_s",
    "utilisation.cpu",
)
"""Metrics that the prepared page charts, in order of priority; utility and welfare where jobs have them."""

MAX_CHARTS = 5
"""Largest number of charts on the prepared page."""

_MAX_BARS = 100
"""Largest number of runs, and so of bars, in a chart."""


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """A configuration: runs of one workload, cluster, setting and policy that differ only in their seeds."""

    label: str
    """Unique label within the sweep."""
    name: str
    """Name in MLflow: the policy with its parameters, and the parts that vary in the sweep."""
    entries: tuple[Entry, ...]

    def state(self, done: Collection[str]) -> tuple[str, str]:
        """MLflow's status, FAILED unless all runs are done, and a digest of the finished runs.

        The digest changes when another run finishes.

        Parameters
        ----------
        done : content hashes of the finished runs
        """
        members = sorted(entry.content_hash for entry in self.entries if entry.content_hash in done)
        status = "FINISHED" if len(members) == len(self.entries) else "FAILED"
        return status, hashlib.sha256("\n".join(members).encode()).hexdigest()


def configurations(entries: Sequence[Entry]) -> list[SeedGroup]:
    """Group the entries of a sweep into configurations, in the sweep's order."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(getattr(entry, key) for key in KEYS), []).append(entry)
    varies = [len(set(values)) > 1 for values in zip(*groups, strict=True)]
    return [
        SeedGroup(
            label=configuration_label(members[0]),
            name=", ".join(
                [keys[-1], *(key for key, shown in zip(keys[:-1], varies, strict=False) if shown and key)]
            ),
            entries=tuple(members),
        )
        for keys, members in groups.items()
    ]


def configuration_label(run: Entry | RunRow) -> str:
    """`SeedGroup.label` of the configuration that a run belongs to."""
    return ", ".join(filter(None, (getattr(run, key) for key in KEYS)))


def configuration_metrics(rows: Sequence[RunRow]) -> dict[str, float]:
    """Numbers of one configuration, as in `sweep_table`, and 95 % confidence intervals of all but `SHARES`.

    Parameters
    ----------
    rows : at least one run; all of one configuration

    Returns
    -------
    values by metric; from two runs on, the ends of an interval are ``<metric>.ci95_low`` and
    ``<metric>.ci95_high``
    """
    (means,) = sweep_table(rows).drop(KEYS).to_dicts()
    found = {name: float(value) for name, value in means.items() if value is not None}
    runs = run_table(rows)
    for name in SWEEP_HEADINGS:
        if name in found and name in runs.columns and name not in SHARES:
            gap = GAPS.get(name)
            interval = mean_interval(_floats(runs[name].drop_nulls())) if gap is None else gap.interval(runs)
            if interval is not None:
                found |= {f"{name}.ci95_low": interval.low, f"{name}.ci95_high": interval.high}
    return found


def charts_path(experiment_id: str) -> str:
    """Path of the prepared page, to append to ``http://HOST:PORT/``."""
    key = VIEW_TAG.rpartition(".")[2]
    return (
        f"#/experiments/{experiment_id}/runs?viewStateShareKey={key}"
        "&compareRunsMode=CHART&workflowType=machine_learning"
    )


def view_state(metrics: Collection[str]) -> str:
    """Value of `VIEW_TAG`: bar charts of the first `MAX_CHARTS` of `CHARTS` that the runs have.

    The runs are sorted by the metric of the first chart, best first. MLflow adds a chart for every other
    metric to the folded section "Model metrics".
    """
    charted = [name for name in CHARTS if name in metrics][:MAX_CHARTS]
    first = charted[0] if charted else CHARTS[0]
    state = {
        "searchFilter": f"tags.`{CONFIGURATION_TAG}` LIKE '%'",
        "orderByKey": f"metrics.`{first}`",
        "orderByAsc": lower_is_better(first),
        "selectedColumns": [
            f"metrics.`{name}{end}`" for name in charted for end in ("", ".ci95_low", ".ci95_high")
        ],
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": [_bar_chart(name) for name in charted],
        "compareRunSections": [
            {**_section("comparison", "Comparison", display=True), "columns": 2, "cardHeight": 300},
            _section("others", "Model metrics", display=False),
        ],
        "isAccordionReordered": True,
        "autoRefreshEnabled": False,
    }
    return "deflate;" + base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()


def _section(uuid: str, name: str, *, display: bool) -> dict[str, object]:
    fixed = {"isReordered": True, "deleted": False, "isGenerated": False}
    return {"uuid": uuid, "name": name, "display": display, **fixed}


def _bar_chart(metric: str) -> dict[str, object]:
    return {
        "uuid": metric,
        "type": "BAR",
        "metricKey": metric,
        "metricSectionId": "comparison",
        "runsCountToCompare": _MAX_BARS,
        "deleted": False,
        "isGenerated": False,
    }


def _floats(column: pl.Series) -> FloatArray:
    return column.to_numpy().astype("float64")
