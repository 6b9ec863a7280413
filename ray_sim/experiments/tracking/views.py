"""Views of a sweep in MLflow: configurations with means over their seeds, and a page of charts.

The export of a sweep to MLflow calls this module; nothing here talks to MLflow. Runs already exported carry
the tags and the metric names: a change leaves old runs off the page. The JSON keys are MLflow's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ray_sim.experiments.sweep_entries import Entry
from ray_sim.reports.compare import lower_is_better
from ray_sim.reports.statistics import mean_interval, metric_range
from ray_sim.reports.tables import GAPS, KEYS, SHARES, SWEEP_HEADINGS, Place, RunRow, run_table, sweep_table

CONFIGURATION_TAG = "ray_sim.configuration"
"""Tag of the runs that the prepared page shows: one top-level run with metrics per configuration."""

VIEW_TAG = "mlflow.sharedViewState.ray_sim"
"""Tag of the experiment; its value is the state of the prepared page, as MLflow's Share button stores it.

The part after the last dot is the key in the page's path.
"""

CONFIGURATIONS_VIEW_TAG = "mlflow.sharedViewState.ray_sim_configurations"
"""Tag of the page of configurations as bars, in a sweep whose prepared page has lines over an axis."""

LINE_TAG = "ray_sim.line"
"""Tag of the runs that are lines over the axis of a sweep."""

INTERVAL_ENDS = (".ci95_low", ".ci95_high")
"""Ends of the names of metrics that are ends of 95 % intervals."""

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

TIME_CHARTS = ("timeline.waiting", "timeline.used_gpu", "timeline.completed")
"""Metrics over simulated time that the prepared page charts, of jobs and GPUs."""

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

    @property
    def place(self) -> Place:
        """Workload, cluster and setting."""
        return self.entries[0].place

    def state(self, done: Collection[str]) -> tuple[str, str]:
        """MLflow's status, FAILED unless all runs are done, and a digest of the finished runs.

        The digest changes when another run finishes.
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
    values by metric; the ends of an interval, from `FEWEST_VALUES` runs on, are ``<metric>.ci95_low`` and
    ``<metric>.ci95_high``
    """
    (means,) = sweep_table(rows).drop(KEYS).to_dicts()
    found = {name: float(value) for name, value in means.items() if value is not None}
    runs = run_table(rows)
    for name in SWEEP_HEADINGS:
        if name in found and name in runs.columns and name not in SHARES:
            gap = GAPS.get(name)
            values = runs[name].drop_nulls().to_numpy().astype("float64")
            interval = mean_interval(values, metric_range(name)) if gap is None else gap.interval(runs)
            if interval is not None:
                found |= dict(
                    zip((f"{name}{end}" for end in INTERVAL_ENDS), (interval.low, interval.high), strict=True)
                )
    return found


def charts_path(experiment_id: str, view_tag: str = VIEW_TAG) -> str:
    """Path of a prepared page, to append to ``http://HOST:PORT/``."""
    key = view_tag.rpartition(".")[2]
    return (
        f"#/experiments/{experiment_id}/runs?viewStateShareKey={key}"
        "&compareRunsMode=CHART&workflowType=machine_learning"
    )


def view_state(metrics: Collection[str]) -> str:
    """Value of `VIEW_TAG`: bar charts of the first `MAX_CHARTS` of `CHARTS` that the runs have.

    Lines over simulated time follow, of the metrics of `TIME_CHARTS` that the runs have. The runs are sorted
    by the metric of the first chart, best first. MLflow adds a chart for every other metric to the folded
    section "Model metrics".
    """
    charted = charted_metrics(metrics)
    first = charted[0] if charted else CHARTS[0]
    over_time = [name for name in TIME_CHARTS if name in metrics]
    sections = [_section("comparison", "Comparison", display=True)]
    if over_time:
        sections.append(_section("time", "Simulated minutes", display=True))
    return _encoded(
        {
            "searchFilter": f"tags.`{CONFIGURATION_TAG}` LIKE '%'",
            "orderByKey": f"metrics.`{first}`",
            "orderByAsc": lower_is_better(first),
            "selectedColumns": [f"metrics.`{name}{end}`" for name in charted for end in ("", *INTERVAL_ENDS)],
            "compareRunCharts": [
                *(_bar_chart(name) for name in charted),
                *(_line_chart([name], "time") for name in over_time),
            ],
        },
        sections,
    )


def axis_view_state(axis: str, metrics: Collection[str]) -> str:
    """Value of `VIEW_TAG` of a sweep with an axis: the first `MAX_CHARTS` of `CHARTS` as lines over it."""
    return _encoded(
        {
            "searchFilter": f"tags.`{LINE_TAG}` LIKE '%'",
            "orderByKey": "attributes.start_time",
            "orderByAsc": True,
            "selectedColumns": [],
            "compareRunCharts": [
                _line_chart(
                    [name, *(f"{name}{end}" for end in INTERVAL_ENDS)],
                    "comparison",
                    xAxisKey="metric",
                    selectedXAxisMetricKey=axis,
                )
                for name in charted_metrics(metrics)
            ],
        },
        [_section("comparison", f"Over {axis}", display=True)],
    )


def charted_metrics(metrics: Collection[str]) -> list[str]:
    """The first `MAX_CHARTS` of `CHARTS` among the metrics."""
    return [name for name in CHARTS if name in metrics][:MAX_CHARTS]


def _encoded(state: Mapping[str, object], sections: Sequence[Mapping[str, object]]) -> str:
    """A view in the form of MLflow's Share button."""
    complete = {
        **state,
        "runsHiddenMode": "SHOW_ALL",
        "compareRunSections": [
            *({**each, "columns": 2, "cardHeight": 300} for each in sections),
            _section("others", "Model metrics", display=False),
        ],
        "isAccordionReordered": True,
        "autoRefreshEnabled": False,
    }
    return "deflate;" + base64.b64encode(zlib.compress(json.dumps(complete).encode(), 9)).decode()


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


def _line_chart(metrics: Sequence[str], section: str, **options: str) -> dict[str, object]:
    return {
        "uuid": f"line {metrics[0]}",
        "type": "LINE",
        "metricKey": metrics[0],
        # With this key MLflow's titles are keys of metrics.
        **({"selectedMetricKeys": list(metrics)} if len(metrics) > 1 else {}),
        "metricSectionId": section,
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "xAxisKey": "step",
        "useGlobalXaxisKey": False,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "range": {},
        "deleted": False,
        "isGenerated": False,
        **options,
    }
