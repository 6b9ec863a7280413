"""Report file of stored results: the directory of a run or a sweep as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from ray_sim.experiments.axis import cluster_numbers, sweep_scale
from ray_sim.experiments.explain import run_explainer
from ray_sim.experiments.results.result_files import MANIFEST, PLAN, read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import RunManifest, open_store, read_run_manifest
from ray_sim.experiments.run_identity import SHORT, HashedInputs
from ray_sim.experiments.scenario import setting_label
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.html import facts_html
from ray_sim.model.result import RunResult
from ray_sim.model.text import shown
from ray_sim.reports.across import Across, axis_section
from ray_sim.reports.compare import default_metric, no_value
from ray_sim.reports.findings import PlaceComparison, compare_places
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import Chart, Facts, Page, Section, render
from ray_sim.reports.run_report import run_gantt, run_page
from ray_sim.reports.sweep_report import CONFIGURATIONS_SCHEMA, sweep_page
from ray_sim.reports.tables import KEYS, Place, RunRow
from workloads.files import is_signed, replacing, require_replaceable, signed
from workloads.store import read_provenance

_COMMENT = b"<!-- ", b" -->"
"""Text around the signature of a report."""

MOST_GANTT_JOBS, MOST_GANTT_SEEDS, MOST_GANTT_REASONS = 6_000, 2, 10
"""Limits of the Gantt charts of a page: jobs in all, seeds of a policy, jobs with reasons of their waits."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A written report and the number of finished configurations; a run's report has one."""

    report: Path
    kind: str
    """Kind of the source: ``run`` or ``sweep``."""
    configurations: int
    done: int
    failed: int
    missing: int
    findings: Mapping[str, str]
    """First paragraph of each section that has one, by its heading: places of a sweep, the bound of a run."""

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return {**asdict(self), "report": str(self.report)}

    def _repr_html_(self) -> str:
        """Its path and findings as a small table, for notebooks."""
        return facts_html("report", [("file", str(self.report)), *self.findings.items()])


def _is_report(path: Path) -> bool:
    """Whether a file is a report that ray-sim wrote and that is unchanged."""
    return is_signed(path, *_COMMENT)


def write_report(source: Path, out: Path, metric: str | None = None) -> ReportFile:
    """Write the report of a run's directory, or of a sweep or a folder of runs, compared by the metric."""
    require_replaceable_page(out)  # check before the work
    is_run = (source / MANIFEST).is_file()
    if is_run and metric is not None:
        raise InvalidInputError(f"metric '{metric}': only for the report of a sweep, {source} is a run")
    if is_run:
        page, counts = _run_page(source), {"done": 1}
    elif (store := open_store(source)) is not None:
        page, counts = _sweep_page(store, metric)
    else:
        raise InvalidInputError(
            f"{source}: not a result of ray-sim: neither a run's directory (with {MANIFEST}) "
            f"nor the results of a sweep (with {PLAN}), nor a folder of runs"
        )
    write_page(page, out)
    done, failed, missing = (counts.get(state, 0) for state in ("done", "failed", "missing"))
    kind = "run" if is_run else "sweep"
    return ReportFile(out, kind, done + failed + missing, done, failed, missing, _findings(page))


def write_result_report(result: RunResult, out: Path) -> ReportFile:
    """Write the report of a result that is not stored, so without its inputs."""
    require_replaceable_page(out)
    reason = f" ({result.loop_reason})" if result.loop_reason else ""
    page = run_page(
        title="Run",
        subtitle=f"{result.summary.jobs:,} jobs",
        facts=[("loop", f"{result.loop}{reason}")],
        provenance=[],
        result=result,
        no_reasons="the run is not stored with its inputs",
    )
    write_page(page, out)
    return ReportFile(out, "run", configurations=1, done=1, failed=0, missing=0, findings=_findings(page))


def _findings(page: Page) -> dict[str, str]:
    return {section.heading: section.text[0] for section in page.sections if section.text}


def require_replaceable_page(out: Path) -> None:
    """Raise InvalidInputError unless `write_page` can write this file."""
    require_replaceable(out, _is_report)


def write_page(page: Page, out: Path) -> None:
    """Write a page to an HTML file, which appears whole or not at all; only an unchanged page is replaced."""
    with replacing(out, _is_report) as temporary:
        temporary.write_bytes(page_bytes(page))


def page_bytes(page: Page) -> bytes:
    """HTML file of a page, which ends with its signature."""
    return signed(render(page) + b"\n", *_COMMENT)


def _run_page(directory: Path) -> Page:
    manifest = read_run_manifest(directory)
    result = read_result(directory)
    explainer, no_reasons = _explainer(directory, result)
    inputs = manifest.inputs
    reason = f" ({result.loop_reason})" if result.loop_reason else ""
    facts = [
        ("policy", manifest.policy),
        ("parameters", setting_label(manifest.parameters) or "defaults"),
        ("world", setting_label(manifest.world) or "defaults"),
        ("partition", manifest.partition),
        ("workload", inputs.workload.path or inputs.workload.label),
        ("cluster", inputs.cluster),
        ("seed", "none: any gives the same result" if manifest.seed is None else str(manifest.seed)),
        ("loop", f"{result.loop}{reason}"),
        *_made_of([manifest]),
    ]
    hashes = {
        "content": manifest.content_hash,
        "workload": inputs.workload_sha256,
        "training profile": inputs.training_sha256,
        "announcement profile": inputs.announcement_sha256,
    }
    hashes |= {"cluster": inputs.cluster_sha256, **dict(sorted(manifest.files.items()))}
    provenance = [*manifest.versions.items(), *((f"SHA-256, {k}", v) for k, v in hashes.items() if v)]
    return run_page(
        title=f"{manifest.policy_label} on {inputs.cluster}",
        subtitle=f"{result.summary.jobs:,} jobs of workload {inputs.workload.label}",
        facts=facts,
        provenance=provenance,
        result=result,
        explainer=explainer,
        no_reasons=no_reasons,
    )


def _explainer(directory: Path, result: RunResult) -> tuple[RunExplainer | None, str]:
    """Explainer of a run, or why there is none: its inputs are elsewhere, and the page does without them."""
    try:
        return run_explainer(directory, result), ""
    except InvalidInputError as error:
        return None, str(error)


def _sweep_page(store: ResultStore, metric: str | None) -> tuple[Page, dict[str, int]]:
    name, entries = store.read_plan()
    # Fixed here, since a running sweep may finish more runs meanwhile.
    errors = {outcome.entry.content_hash: outcome.error for outcome in store.outcomes(entries)}
    return results_page(name, store, entries, errors, metric=metric)


def results_page(
    name: str,
    store: ResultStore,
    entries: Sequence[Entry],
    errors: Mapping[str, str | None],
    comparisons: Mapping[Place, PlaceComparison] | None = None,
    metric: str | None = None,
) -> tuple[Page, dict[str, int]]:
    """Report of the results of a sweep, and the number of configurations by state.

    Parameters
    ----------
    errors : error by content hash of the configurations that have ended, None for those that are done
    comparisons : by place, where they are there already
    metric : that compares and leads the charts; by default `default_metric`
    """
    done = [entry for entry in entries if errors.get(entry.content_hash, "missing") is None]
    configurations = pl.DataFrame([_line(entry, errors) for entry in entries], schema=CONFIGURATIONS_SCHEMA)
    rows = store.rows(done)
    known = {key for row in rows for key in row.summary.flat()}
    if rows and metric is not None and metric not in known:
        raise no_value(metric, known)
    compared = compare_places(rows, metric) if comparisons is None else comparisons
    axes, gantts = _axes(store, done, rows, metric), _gantts(store, done, rows)
    firsts = {(entry.workload, entry.cluster): entry.content_hash for entry in reversed(done)}
    made = _made_of(read_run_manifest(store.run_directory(each)) for each in reversed(firsts.values()))
    page = sweep_page(name, rows, compared, store.places(done), configurations, axes, gantts, made)
    return page, dict(configurations.group_by("state").len().iter_rows())


def _made_of(manifests: Iterable[RunManifest]) -> Facts:
    """Rows of the traces of the workloads, and prices of the clusters, where files are as they were."""
    inputs, facts = HashedInputs(), dict[str, object]()
    for manifest in manifests:
        path, ref = manifest.inputs.workload.path, manifest.inputs.cluster
        if path and Path(path).is_file() and inputs.workload_sha256(path) == manifest.inputs.workload_sha256:
            made = read_provenance(path)
            facts |= {} if made is None else {f"rows of the table of {Path(path).name}": made.counts.text}
        if price := cluster_numbers(manifest, inputs).get("price"):
            facts[f"price of {ref}"] = price
    return [*facts.items()]


def _axes(
    store: ResultStore, done: Sequence[Entry], rows: Sequence[RunRow], metric: str | None
) -> list[Section]:
    """A section for each axis along which the finished runs vary: the metric that compares, and the wait."""
    metric = metric or default_metric([row.summary.flat() for row in rows])
    metrics = dict.fromkeys([metric, "queue_s.mean"])
    scales = filter(None, (sweep_scale(across, store, done) for across in Across))
    return list(filter(None, (axis_section(rows, scale, metrics) for scale in scales)))


def _gantts(
    store: ResultStore, entries: Iterable[Entry], rows: Iterable[RunRow]
) -> Callable[[Place], Chart | None]:
    """Jobs on servers of the first seeds of each policy, by place; of so few jobs that a page stays small."""
    jobs = {(*row.place, row.policy, row.seed): row.summary.jobs for row in rows}
    seeds: Counter[tuple[str, ...]] = Counter()
    ranks = {}
    for entry in entries:
        ranks[entry] = seeds[*entry.place, entry.policy]
        seeds[*entry.place, entry.policy] += 1
    chosen: dict[Place, list[Entry]] = {}
    left = MOST_GANTT_JOBS
    for entry in sorted(ranks, key=ranks.__getitem__):
        left -= jobs.get((*entry.place, entry.policy, entry.seed), 0)
        if ranks[entry] < MOST_GANTT_SEEDS and left >= 0:
            chosen.setdefault(entry.place, []).append(entry)

    def chart(place: Place) -> Chart | None:
        runs = [_gantt(store.run_directory(each.content_hash), each) for each in chosen.get(place, ())]
        note = "Other runs: ray-sim report with the directory of one, from the table of configurations."
        return Chart("Jobs on servers", {"kind": "gantts", "runs": runs}, note) if runs else None

    return chart


def _gantt(directory: Path, entry: Entry) -> dict[str, object]:
    result = read_result(directory)
    bars = run_gantt(result, _explainer(directory, result)[0], MOST_GANTT_REASONS)
    label = entry.policy if entry.seed is None else f"{entry.policy}, seed {entry.seed}"
    return {"label": shown(label), **bars.data}


def _line(entry: Entry, errors: Mapping[str, str | None]) -> dict[str, object]:
    error = errors.get(entry.content_hash)
    state = "missing" if entry.content_hash not in errors else "done" if error is None else "failed"
    short = entry.content_hash[:SHORT]
    labels = {key: getattr(entry, key) for key in (*KEYS, "seed")}
    return {**labels, "state": state, "hash": short, "directory": f"runs/{short}", "error": error}
