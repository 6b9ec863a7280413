"""`ray-sim diff`: compare two runs job by job, or the queueing delays of a run with those of its trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from ray_sim.cli.console import exact, print_frame, print_json, print_rows, print_table
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError

if TYPE_CHECKING:
    import polars as pl

    from ray_sim.experiments.real_delays import RealDelays
    from ray_sim.reports.diff import JobDiff


def diff(
    here: Annotated[Path, Argument(metavar="RUN", help="A run's directory.")],
    other: Annotated[
        Path | None, Argument(help="Another run, or a Parquet or CSV table with job_id.")
    ] = None,
    start: Annotated[str, Option(help="Column of OTHER with the start in seconds.")] = "start_s",
    finish: Annotated[str, Option(help="Column of OTHER with the finish in seconds.")] = "finish_s",
    trace: Annotated[
        bool, Option("--trace", help="Compare queueing delays with those of the run's trace instead.")
    ] = False,
    workload: Annotated[
        str | None, Option(metavar="FILE", help="With --trace: the workload, if it has moved since the run.")
    ] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="With --trace: HTML page to write.")] = None,
    json_output: Json = False,
) -> None:
    """Compare start and finish of every job to the microsecond; the exit code is 1 if any job differs.

    With --trace, compare the queueing delays of a run with the real ones of its trace.

    Example: ray-sim diff runs/fifo-1a2b other.csv --start fifo_start_s --finish fifo_finish_s
    """
    from ray_sim.experiments.real_delays import compare_real_delays

    if trace == (other is not None):
        raise InvalidInputError("diff: compares RUN with either OTHER or --trace; name one of them")
    if other is None:
        delays = compare_real_delays(here, workload, out)
        print_json(delays.to_dict()) if json_output else _print_delays(delays)
        return
    if workload is not None or out is not None:
        raise InvalidInputError("diff: --workload and --out are only for --trace; leave them out")
    found = _diff_tables(here, other, start, finish)
    print_json(found.to_dict()) if json_output else _print_diff(found, here, other)
    if not found.same:
        raise Exit(1)


def _diff_tables(here: Path, other: Path, start: str, finish: str) -> JobDiff:
    from ray_sim.experiments.results.result_files import read_table
    from ray_sim.reports.diff import diff_jobs, read_job_times
    from workloads.sources import require_regular

    def jobs_of(source: Path) -> pl.DataFrame:
        if source.is_dir():
            return read_table(source, "jobs")
        require_regular(source, InvalidInputError)
        return read_job_times(source)

    return diff_jobs(jobs_of(here), jobs_of(other), start, finish)


def _print_diff(found: JobDiff, here: Path, other: Path) -> None:
    from dataclasses import astuple

    counts = found.to_dict()
    names = {"compared": "jobs compared", "differing": "differing"}
    names |= {"only_here": f"only in {here}", "only_there": f"only in {other}"}
    print_rows((label, counts[name]) for name, label in names.items())
    if found.first_differences:
        columns = ["job_id", "start_s", "start_s, other", "finish_s", "finish_s, other"]
        rows = [[exact(cell) for cell in astuple(each)] for each in found.first_differences]
        print_table(columns, rows, "first differences")
    for label, jobs in (("only here", found.first_only_here), ("only there", found.first_only_there)):
        if jobs:
            print_rows([(label, ", ".join(jobs))])


def _print_delays(delays: RealDelays) -> None:
    import polars as pl

    from ray_sim.reports.delays import PART_HEADINGS, WAITED_HEADINGS, parts_frame

    found = delays.found
    print_rows(
        [
            ("run", delays.label),
            ("workload", delays.workload),
            ("jobs of the run", found.jobs),
            *((f"not compared, {reason}", count) for reason, count in found.left_out.items()),
            *((f"rejected by the conversion, {reason}", count) for reason, count in delays.rejected.items()),
        ]
    )
    for title, parts in found.tables().items():
        print_frame(parts_frame(parts), PART_HEADINGS, title)
    print_frame(pl.DataFrame(found.waited), WAITED_HEADINGS, "Jobs that waited")
