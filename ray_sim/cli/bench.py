"""`ray-sim bench`: benchmarks and their budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ray_sim.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.comparison import Change, Comparison
    from benchmarks.measurement import Findings, Measurement
    from benchmarks.report import BenchReport


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run, e.g. replay [all]."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the figures to this JSON file.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with the figures of an earlier -o FILE.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the benchmarks and their durations; run none.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Run benchmarks of speed and memory, and compare the figures with their budgets.

    The exit code is 1 if a benchmark fails or misses a budget, or if a figure is worse than in FILE by more
    than its tolerance.

    Example: ray-sim bench replay --against before.json
    """
    _import_benchmarks()
    from benchmarks.comparison import compare
    from benchmarks.report import is_report, read_report, write_report
    from benchmarks.runner import choose, run_benchmarks
    from ray_sim.cli.console import print_json, print_table
    from workloads.files import require_replaceable

    chosen = choose(names or [])
    if listing:
        rows = [(name, each.measures, each.rough_s) for name, each in chosen.items()]
        columns = ["benchmark", "measures", "about s"]
        if json_output:
            print_json([dict(zip(("name", "measures", "rough_s"), row, strict=True)) for row in rows])
        else:
            print_table(columns, rows)
        return
    before = read_report(against) if against else None  # check both before the work
    if out:
        require_replaceable(out, is_report)
    # Changes to an earlier report are known when all have ended; without one each table appears at once.
    at_once = before is None and not json_output
    report = run_benchmarks(chosen, progress=_say, ended=_print_findings if at_once else None)
    if out:
        write_report(report, out)
    comparison = compare(report, before, str(against)) if before else None
    if json_output:
        print_json(report.to_dict() | ({"comparison": comparison.to_dict()} if comparison else {}))
    else:
        if comparison:
            for name, findings in report.benchmarks.items():
                _print_findings(name, findings, comparison.changes.get(name, {}))
        _print_end(report, comparison)
    if not report.ok or (comparison and comparison.worse):
        raise typer.Exit(1)


def _import_benchmarks() -> None:
    from ray_sim.model.errors import RunFailedError
    from ray_sim.siblings import ROOT, import_sibling

    # Beside installed packages, a folder `benchmarks` may belong to another package.
    if not ((ROOT / "pyproject.toml").is_file() and (ROOT / "benchmarks").is_dir()):
        raise RunFailedError(
            "benchmarks come with a checkout of the project, not with an installed package: clone its "
            "repository and run `make bench` there"
        )
    import_sibling("benchmarks")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _print_end(report: BenchReport, comparison: Comparison | None) -> None:
    from ray_sim.cli.console import print_rows

    print_rows([*report.machine.to_dict().items(), *report.versions.items()])
    results = [row.result for findings in report.benchmarks.values() for row in findings.rows]
    sys.stdout.write("\n")
    print_rows([("budgets met", results.count("passed")), ("budgets missed", results.count("FAILED"))])
    if comparison:
        _print_comparison(comparison)


def _print_findings(name: str, findings: Findings, changes: Mapping[str, Change] | None = None) -> None:
    from ray_sim.cli.console import print_table

    if findings.skipped is not None:
        sys.stdout.write(f"{name}: skipped: {findings.skipped}\n")
    elif findings.failed is not None:
        sys.stdout.write(f"{name}: FAILED: {findings.failed}\n")
    else:
        columns = ["figure", "value", "unit", "better", "budget", "result"]
        columns += [] if changes is None else ["previous", "ratio", "change"]
        rows = [
            (*_cells(row), *(() if changes is None else _changed(changes.get(row.key))))
            for row in findings.rows
        ]
        print_table(columns, rows, title=f"{name}: {findings.input}")
    sys.stdout.write("\n")
    sys.stdout.flush()


def _cells(row: Measurement) -> tuple[object, ...]:
    return (row.key, row.value, row.unit, row.better, row.budget, row.result)


def _changed(change: Change | None) -> tuple[object, ...]:
    if change is None:
        return (None, None, "not compared")
    return (
        change.previous,
        change.ratio,
        change.verdict.upper() if change.verdict == "worse" else change.verdict,
    )


def _print_comparison(comparison: Comparison) -> None:
    """Print the remarks on a comparison that the tables do not show."""
    if comparison.machine:
        sys.stdout.write(f"\n{comparison.source} is of ANOTHER MACHINE; seconds and speeds do not compare:\n")
        sys.stdout.writelines(f"  {line}\n" for line in comparison.machine)
    for title, lines in (
        ("other versions", comparison.versions),
        ("not compared", comparison.left_out),
        (f"worse than in {comparison.source} by more than the tolerance", comparison.worse),
    ):
        if lines:
            sys.stdout.write(f"\n{title}:\n")
            sys.stdout.writelines(f"  {line}\n" for line in lines)
    if not comparison.worse:
        sys.stdout.write(f"\nnothing is worse than in {comparison.source} by more than its tolerance\n")
