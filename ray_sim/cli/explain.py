"""`ray-sim explain`: why a job waited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from ray_sim.cli.console import print_json, print_rows, print_table, print_text
from ray_sim.cli.options import Json
from ray_sim.model.readable import duration

LONGEST = 10
"""Largest number of waits, of parts of a wait and of events shown as text; JSON has all."""


def explain(
    run: Annotated[Path, Argument(metavar="RUN", help="Result directory of a run.")],
    job: Annotated[str | None, Argument(metavar="JOB", help="A job_id [the longest waits].")] = None,
    json_output: Json = False,
) -> None:
    """Explain why a job waited: free capacity against its demand, who held it, who started first.

    Example: ray-sim explain runs/fifo-1a2b application_1506638472019_10258
    """
    from ray_sim.experiments.explain import explain_job
    from ray_sim.reports.history import explanation_text as text

    if job is None:
        _print_longest_waits(run, as_json=json_output)
        return
    found = explain_job(run, job)
    if json_output:
        print_json(found.to_dict())
        return
    print_rows(text.headline_rows(found))
    events = text.event_rows(found)
    _print_title("events", len(events), "first")
    print_table(["after", "event", "servers: tasks"], events[:LONGEST])
    if len(found.waits) > LONGEST:
        _print_title("waits", len(found.waits), "longest")
    for wait in text.longest_of(found.waits, LONGEST):
        _print_title(text.wait_title(found, wait), len(wait.parts), "longest")
        print_table(text.PART_COLUMNS, text.part_rows(found, wait, LONGEST))
        print_rows(text.others_rows(wait))


def _print_longest_waits(run: Path, *, as_json: bool) -> None:
    from ray_sim.experiments.results.result_files import read_result
    from ray_sim.reports.run_report import longest_waits

    jobs = longest_waits(read_result(run).jobs, LONGEST).select("job_id", "queue_s", "num_gpus", "user", "vc")
    if as_json:
        print_json({"longest_waits": jobs.to_dicts()})
        return
    rows = [(name, duration(wait_s), *others) for name, wait_s, *others in jobs.iter_rows()]
    print_table(("job", "waited", "GPUs", "user", "vc"), rows)
    print_text(f"why: ray-sim explain {run} JOB" if rows else "no job waited")


def _print_title(title: str, number: int, chosen: str) -> None:
    """Print a heading, and which of the entries below it are shown if not all."""
    hidden = f" (the {chosen} {LONGEST} of {number:,}; --json has all)" if number > LONGEST else ""
    print_rows([("", "")])
    print_rows([(f"{title}{hidden}", "")])
