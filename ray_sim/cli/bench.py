"""`ray-sim bench`: benchmarks and their budgets, measured by pytest-benchmark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from ray_sim.cli.console import print_json, print_list, print_rows, print_table
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError, RunFailedError, UnknownNameError

if TYPE_CHECKING:
    Report = dict[str, Any]

NAMES = {
    "replay": "jobs per CPU second in the engine, and relative to a bare loop",
    "packing": "a million jobs of GPU types, and pods placed by fragments",
    "loop": "policies in Python and elastic jobs; the week as whole commands",
    "startup": "wall time of whole commands: --help, and a run of a week",
    "environment": "placements, resets and a vector of environments of gymnasium",
    "harmony": "decisions of the bundled network of harmony for five new jobs",
    "optimus": "rounds of Optimus on 16,000 servers, and its fits",
    "pd_ors": "jobs of PD-ORS on up to 1,000 servers, against linear programmes",
    "posted_price": "posted prices: 100,000 announced jobs",
    "conversion": "conversion of a million rows",
    "a_online": "A_online: a dispatch over 1,000 workers, and a week of jobs",
    "growth": "time and memory of ten times the jobs, up to a million",
    "fleets": "sites in Ray actors, relative to sites in one process",
    "overhead": "overhead of a sweep over its simulations",
}
"""Modules of `benchmarks`, in the order of execution, and what they measure."""

_OPTIONS = (
    *("-p", "benchmark", "-p", "no:xdist", "--verbose", "--benchmark-enable", "--benchmark-quiet"),
    *("--benchmark-timer=time.process_time", "--benchmark-disable-gc"),
)


def bench(
    names: Annotated[
        list[str] | None, Argument(metavar="NAME", help="Benchmarks to run, e.g. replay [all].")
    ] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Write the figures to this JSON file.")] = None,
    against: Annotated[
        Path | None, Option(metavar="FILE", help="Compare with the figures of an earlier -o FILE.")
    ] = None,
    listing: Annotated[bool, Option("--list", help="List the benchmarks; run none.")] = False,
    json_output: Json = False,
) -> None:
    """Run benchmarks of speed and memory, and compare the figures with their budgets.

    The exit code is 1 if a benchmark fails or misses a budget, or if a figure is worse than in FILE by more
    than its tolerance.

    Example: ray-sim bench replay --against before.json
    """
    from workloads.files import replacing, require_replaceable

    _require_checkout()
    chosen = _chosen(names or [])
    if listing:
        entries = [{"name": name, "measures": NAMES[name]} for name in chosen]
        rows = [tuple(each.values()) for each in entries]
        print_list(entries, ["benchmark", "measures"], rows, as_json=json_output)
        return
    before = _earlier(against) if against else None  # check both before the work
    if out:
        require_replaceable(out, _is_report)
    report = _measured(chosen)
    if out:
        with replacing(out, _is_report) as temporary:
            temporary.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    worse = _compare(report, before) if before else []
    if json_output:
        print_json(report | ({"worse": worse} if before else {}))
    else:
        _print(report, worse)
    failed = [each for each in report["benchmarks"].values() if each["failed"] is not None]
    if failed or worse or any(row["result"] == "FAILED" for _, row in _rows(report)):
        raise Exit(1)


def _require_checkout() -> None:
    from ray_sim.siblings import ROOT

    # Beside installed packages, a folder `benchmarks` may belong to another package.
    if not ((ROOT / "pyproject.toml").is_file() and (ROOT / "benchmarks").is_dir()):
        raise RunFailedError(
            "benchmarks come with a checkout of the project, not with an installed package: clone its "
            "repository and run `make bench` there"
        )


def _chosen(wanted: Iterable[str]) -> list[str]:
    wanted = set(wanted)
    for name in sorted(wanted - set(NAMES)):
        raise UnknownNameError("benchmark", name, NAMES)
    return [name for name in NAMES if name in wanted or not wanted]


def _measured(names: Iterable[str], *options: str) -> Report:
    """Run pytest on modules of `benchmarks`; its lines go to standard error.

    Parameters
    ----------
    options : further options of pytest
    """
    from ray_sim.siblings import ROOT

    with tempfile.TemporaryDirectory(prefix="ray_sim-bench-") as folder:
        found = Path(folder) / "found.json"
        files = [str(ROOT / "benchmarks" / f"{name}.py") for name in names]
        place = [f"--rootdir={ROOT}", f"--config-file={ROOT}/pyproject.toml"]
        pytest = [sys.executable, "-P", "-m", "pytest", *place]
        command = [*pytest, *files, *_OPTIONS, f"--benchmark-json={found}", *options]
        given = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        ended = subprocess.run(command, stdout=sys.__stderr__, env=given | {"PYTHONPATH": path}, check=False)
        text = found.read_text() if found.exists() else ""
        measured = json.loads(text or '{"machine_info": {}, "benchmarks": []}')
    return _report(names, measured, ended.returncode)


def _report(names: Iterable[str], measured: Mapping[str, Any], code: int) -> Report:
    """The report, without a date: reports of one machine differ in figures only."""
    from importlib.metadata import version

    from ray_sim.experiments.run_identity import versions

    benchmarks: dict[str, Any] = {}
    for name in names:
        parts = [each for each in measured["benchmarks"] if f"/{name}.py::" in f"/{each['fullname']}"]
        rows = [row | {"result": _result(row)} for part in parts for row in part["extra_info"]["rows"]]
        inputs = dict.fromkeys(part["extra_info"].get("input", "") for part in parts)
        failed = None if rows else "it has no figures: see what pytest says above"
        benchmarks[name] = {"input": "; ".join(inputs), "rows": rows, "skipped": None, "failed": failed}
    machine = measured["machine_info"]
    return {
        "format": 1,
        "machine": {
            "processor": machine.get("cpu", {}).get("brand_raw", "unknown"),
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{machine.get('system', 'unknown')} {machine.get('machine', '')}".strip(),
        },
        "versions": versions() | {name: version(name) for name in ("ray", "mlflow")},
        "benchmarks": benchmarks,
        "pytest_exit_code": code,
    }


def _result(row: Mapping[str, Any]) -> str:
    if row["budget"] is None:
        return "no budget"
    larger = row["better"] == "larger"
    met = row["value"] >= row["budget"] if larger else row["value"] <= row["budget"]
    return "passed" if met else "FAILED"


def _read(path: Path) -> Report | None:
    """The report in a file; None where it holds none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    is_report = isinstance(content, dict) and content.get("format") == 1 and "benchmarks" in content
    return content if is_report else None


def _is_report(path: Path) -> bool:
    return _read(path) is not None


def _earlier(path: Path) -> Report:
    if (report := _read(path)) is None:
        raise InvalidInputError(
            f"{path}: cannot be read, or is no report; expected what `ray-sim bench -o FILE` writes"
        )
    return report


def _rows(report: Report) -> Iterable[tuple[str, dict[str, Any]]]:
    return ((name, row) for name, each in report["benchmarks"].items() for row in each["rows"])


def _compare(report: Report, before: Report) -> list[str]:
    """Add the earlier value and the ratio to each row of the same input and unit; names of worse figures."""
    earlier = {
        (name, before["benchmarks"][name]["input"], row["key"], row["unit"]): row["value"]
        for name, row in _rows(before)
    }
    worse = []
    for name, row in _rows(report):
        then = earlier.get((name, report["benchmarks"][name]["input"], row["key"], row["unit"]))
        row["previous"], row["ratio"] = then, row["value"] / then if then else None
        if then is None or row["better"] == "neither":
            continue
        low, high = sorted((then, row["value"]))
        if high > low * (1 + row["tolerance"]) and (row["value"] < then) == (row["better"] == "larger"):
            worse.append(f"{name}.{row['key']}")
    return worse


def _print(report: Report, worse: list[str]) -> None:
    columns = ["key", "value", "unit", "better", "budget", "result"]
    for name, each in report["benchmarks"].items():
        if each["failed"] is not None:
            sys.stdout.write(f"{name}: FAILED: {each['failed']}\n\n")
            continue
        shown = [*columns, *(["previous", "ratio"] if "previous" in each["rows"][0] else [])]
        rows = [tuple(row[key] for key in shown) for row in each["rows"]]
        print_table(shown, rows, title=f"{name}: {each['input']}")
        sys.stdout.write("\n")
    print_rows([*report["machine"].items(), *report["versions"].items()])
    results = [row["result"] for _, row in _rows(report)]
    print_rows([("budgets met", results.count("passed")), ("budgets missed", results.count("FAILED"))])
    if worse:
        sys.stdout.write("worse by more than the tolerance: " + ", ".join(worse) + "\n")
