"""Files from Python: convert a trace, load a workload or results, describe a workload, write a report."""

from __future__ import annotations

from pathlib import Path

from ray_sim.experiments.capacity.report import PlanReport
from ray_sim.experiments.conversion import convert_files
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.report import ReportFile, write_report, write_result_report
from ray_sim.experiments.results.result_files import MANIFEST, PLAN
from ray_sim.experiments.sweep import SweepReport
from ray_sim.experiments.sweep_results import SweepResults, read_results
from ray_sim.experiments.workload_info import WorkloadInfo, describe_workload
from ray_sim.model.arguments import expect
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult
from ray_sim.progress import shown_progress
from workloads.convert import ConversionReport
from workloads.describe import Workload
from workloads.sources import Source, name_of


def convert(
    format_name: str,
    source: Source | list[Source],
    out: str | Path,
    *,
    mapping: Source | None = None,
    rebase: bool = False,
    run_time: str | None = None,
    rows: str = "task",
    censored: str = "drop",
    seed: int = 0,
    keep_pending: bool = False,
    speeds: str | None = None,
    cluster_out: str | Path | None = None,
    window: tuple[float, float] | None = None,
    rejects: str | Path | None = None,
    html: str | Path | None = None,
    progress: bool = True,
) -> ConversionReport:
    """Convert a trace to a workload file, as `ray-sim convert`.

    Parameters
    ----------
    format_name : name of a trace format, such as ``philly`` or ``csv``
    source : the trace's file, or a list of its files
    out : Parquet file, which appears whole or not at all
    mapping, rebase, run_time, rows, censored, seed, keep_pending, speeds : options of the command
    cluster_out, window, rejects, html : the same; ``mapping`` is ``--map``
    progress : show the progress in a notebook or on a terminal

    Raises
    ------
    InvalidInputError : an option is invalid, or a file cannot be read or written
    """
    _expect_pair(window)
    expect("format_name", format_name, str, "the name of a trace format")
    expect("source", source, (str, Path, list), "a path, or a list of paths")
    expect("out", out, (str, Path), "a path")
    with shown_progress("convert, % of the work", progress, compiles=False) as report:
        return convert_files(
            format_name,
            source if isinstance(source, list) else [source],
            Path(out),
            mapping=mapping,
            rebase=rebase,
            run_time=run_time,
            rows=rows,
            censored=censored,
            seed=seed,
            keep_pending=keep_pending,
            speeds=speeds,
            cluster_out=None if cluster_out is None else Path(cluster_out),
            window=window,
            rejects=None if rejects is None else Path(rejects),
            html=None if html is None else Path(html),
            progress=report,
        )


def _expect_pair(window: object) -> None:
    if window is not None and not (isinstance(window, tuple | list) and len(window) == 2):
        raise InvalidInputError(f"window: expected a pair of seconds, (BEGIN, END), found {window!r}")


def load(path: str | Path) -> Workload | RunResult | SweepResults:
    """Load a workload file, or the results of a run, a sweep or a plan, whichever the path leads to.

    Returns
    -------
    `Workload` for a Parquet file, `RunResult` for the directory of a run, `SweepResults` for that of a sweep,
    a plan or several runs

    Raises
    ------
    InvalidInputError : the path leads to none of them, or to files that are damaged or of another version
    """
    expect("path", path, (str, Path), "a path")
    directory = Path(path)
    found = read_results(directory)
    if found is not None:
        return found
    if name_of(path).suffix == ".parquet":
        return Workload.read(path)
    what = "holds no results" if directory.is_dir() else "is no Parquet file"
    raise InvalidInputError(
        f"{path}: {what}; name a workload (.parquet), or the directory of a run (with {MANIFEST}) or of a "
        f"sweep (with {PLAN})"
    )


def describe(workload: Source | Workload, cluster: str | Path | Cluster | None = None) -> WorkloadInfo:
    """Describe a workload, and its load on a cluster, as `ray-sim info`.

    Raises
    ------
    InvalidInputError : the workload or the cluster is invalid
    """
    expect("workload", workload, (str, Path, Workload), "a path or a workload")
    servers = cluster if cluster is None or isinstance(cluster, Cluster) else load_cluster(str(cluster))
    return describe_workload(workload, servers)


def report(
    results: str | Path | RunResult | SweepResults | SweepReport | PlanReport,
    out: str | Path,
    metric: str | None = None,
) -> ReportFile:
    """Write results as one HTML page, as `ray-sim report`.

    Parameters
    ----------
    results : directory of a run or a sweep, or what `load`, `simulate`, `sweep` or `plan` returned; the page
        of a result in memory lacks what only stored inputs tell: why jobs waited, and the share of the
        servers in use
    out : HTML file, which appears whole or not at all
    metric : of a sweep: a key of `Summary.flat` that compares the policies

    Raises
    ------
    InvalidInputError : the directory holds no results, a file is damaged, ``out`` cannot be written, or the
        metric is unknown or of a run
    """
    expect("out", out, (str, Path), "a path")
    kinds = (str, Path, RunResult, SweepResults, SweepReport, PlanReport)
    expect("results", results, kinds, "a directory, or what `load`, `simulate`, `sweep` or `plan` returned")
    if isinstance(results, RunResult):
        if metric is not None:
            raise InvalidInputError(f"metric '{metric}': only for the report of a sweep, `results` is a run")
        return write_result_report(results, Path(out))
    source = Path(results) if isinstance(results, str | Path) else results.directory
    return write_report(source, Path(out), metric)
