"""Readable text of an explanation, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ray_sim.model.readable import duration, number, told_apart
from ray_sim.model.result import JobStatus
from ray_sim.model.text import shown
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.holdings import RunFacts
from ray_sim.reports.history.reasons import Reason, Stretches
from ray_sim.reports.submission_times import after_first_text

if TYPE_CHECKING:
    from ray_sim.reports.history.explanation import Explanation, JobEvent, Part, Wait

TimeT = TypeVar("TimeT", "Wait", "Part")

LABELS = {
    Reason.NOT_ARRIVED: "not arrived yet",
    Reason.CHUNKS: "no chunk in progress",
    Reason.OUTAGE: "servers unavailable",
    Reason.FULL: "too little free",
    Reason.GPU_TYPE: "too little free of its GPU types",
    Reason.FRAGMENTED: "free capacity in pieces",
    Reason.NO_SERVER: "placement rule finds no servers",
    Reason.BEHIND: "behind other jobs",
    Reason.POLICY: "decision of the policy",
}
"""Heading of each reason in tables."""

_TASKS = ("worker", "parameter server")
"""Tasks of each role."""


def room_text(facts: RunFacts, job: int, stretches: Stretches, n: int) -> tuple[str, str]:
    """Demand of a job, and what is free at the begin of a part of a wait; empty where that is no reason."""
    if facts.chunked or stretches.reason[n] == Reason.NOT_ARRIVED:
        return "", ""
    needs, free = _amounts(facts, facts.whole_demand(job), stretches.free[n])
    servers = _servers(facts, job, facts.eligible(job), int(stretches.unavailable[n]))
    return needs, f"{free} on {servers}"


def cause_text(facts: RunFacts, job: int, stretches: Stretches, n: int, *, one_server: bool) -> str:
    """Sentence on the reason of a part of a wait, without demand and free capacity."""
    match Reason(int(stretches.reason[n])):
        case Reason.NOT_ARRIVED:
            return "announced; it has not arrived yet"
        case Reason.CHUNKS:
            return (
                "no chunk makes progress: they upload, wait on workers, or are not dispatched; "
                "the results do not tell which"
            )
        case Reason.FULL | Reason.OUTAGE if facts.chunked:
            if not (serving := facts.serving(job)).any():
                return "its partition has no parameter server"
            where = _servers(facts, job, serving, int(stretches.unavailable[n]))
            return (
                f"no parameter server for it is free on {where}; its chunks may upload or wait on workers too"
            )
        case Reason.OUTAGE if stretches.unavailable[n] == facts.eligible(job).sum():
            return "no server is available; together they would be enough"
        case Reason.OUTAGE:
            return "too little is free; with the unavailable servers it would be enough"
        case Reason.FULL:
            return f"too little is free in {'its vc' if facts.partitions else 'the cluster'}"
        case Reason.GPU_TYPE:
            types = _types(facts, np.all(facts.by_role(job), axis=0))
            return f"too little is free on {types}; on all types together it would be enough"
        case Reason.FRAGMENTED:
            return f"free capacity is in pieces, {_fitting(facts.arrays.gang[job], stretches.tasks[n])}"
        case Reason.NO_SERVER:
            where = "on several servers, on no single one" if one_server else "for all its tasks"
            does = "gives it a single server" if one_server else "finds no servers for them"
            return f"there is room {where}; placement rule {facts.placement} {does}"
        case Reason.BEHIND if stretches.ahead[n] == 0:
            return "there is room, but a job before it in the queue does not fit, and no job passes that one"
        case Reason.BEHIND:
            jobs = f"{int(stretches.ahead[n]):,} waiting job{'s' if stretches.ahead[n] != 1 else ''}"
            strict = "; no job passes one that does not fit" if facts.strict else ""
            return f"there is room, but {jobs} started first{strict}"
        case Reason.POLICY:
            return "there is room, and the policy does not start it yet"


def _fitting(gang: IntArray, fitting: IntArray) -> str:
    """Clause on the first role whose tasks do not all fit; if each role fits, on the roles together."""
    lacking = np.flatnonzero(fitting < gang)
    if not len(lacking):
        return "where its workers and its parameter servers do not fit together"
    role = int(lacking[0])
    kind = f"{_TASKS[role]}s" if (gang > 0).sum() > 1 else "tasks"
    return f"where {int(fitting[role]):,} of {int(gang[role]):,} {kind} fit"


def rejection_text(facts: RunFacts, job: int, row: Mapping[str, Any]) -> str:
    """Sentence on a rejected job, from its row in jobs.parquet."""
    if row["reason"] != "never_fits":
        return f"rejected: {_refusal(row) if row.get('refusal') else row['reason']}"
    eligible = facts.eligible(job)
    if not facts.in_partition(job).any():
        return "rejected on arrival: no server belongs to its partition"
    if not eligible.any():
        return "rejected on arrival: no server of its partition has a GPU type that it accepts"
    if facts.chunked:
        return "rejected on arrival: no worker, or no parameter server, of its partition has enough memory"
    whole = facts.whole_demand(job)
    capacity = facts.arrays.capacity[eligible]
    needs, total, most = _amounts(facts, whole, capacity.sum(axis=0), capacity.max(axis=0))
    have = f"{_servers(facts, job, eligible)} have {total} when empty"
    return f"rejected on arrival: needs {needs}; {have}, the largest of them {most}"


def _refusal(row: Mapping[str, Any]) -> str:
    """Why no start was planned for an announced job."""
    match row["refusal"]:
        case "sold_out":
            return "all starts at which it is worth anything were sold out at its birth"
        case "horizon":
            return "all starts at which it is worth anything end after the horizon"
        case "unreported":
            return "its arrival, or the signal of its duration, was not reported, so no start was planned"
        case "worthless":
            return "it is worth nothing even at its earliest end"
    price, value, failure = told_apart([row[f"best_{name}"] for name in ("price", "value", "failure")])
    return (
        f"no start is worth its price: the best, {duration(row['best_start_s'] - row['submit_s'])} after its "
        f"birth, costs {price}, is worth {value}, and fails with probability {failure}"
    )


def _amounts(facts: RunFacts, whole: IntArray, *others: IntArray) -> list[str]:
    """Texts such as ``8 gpu, 32 cpu`` of a demand and of other quanta, (R,) each; of what the demand has."""
    resources = list(facts.resources.items())
    texts = []
    for r in np.flatnonzero(whole > 0):
        name, unit = resources[r]
        amounts = told_apart([float(each[r] / unit) for each in (whole, *others)])
        texts.append([f"{amount} {name}" for amount in amounts])
    return [", ".join(row) for row in zip(*texts, strict=True)] or ["nothing"] * (1 + len(others))


def _servers(facts: RunFacts, job: int, servers: BoolArray, unavailable: int = 0) -> str:
    """Number of these servers, (S,), that a job may use, e.g. ``2 of 3 servers of vc a, 1 unavailable``."""
    count = int(servers.sum())
    some = f"{count - unavailable:,} of " if unavailable else ""
    where = f" of vc {facts.partitions[int(facts.arrays.job_part[job])]}" if facts.partitions else ""
    own = np.all(facts.by_role(job), axis=0)
    if (own != facts.in_partition(job)).any():
        where += f" with {_types(facts, own)}" if (servers == own).all() else ""
    rest = f", {unavailable:,} unavailable" if unavailable else ""
    return f"{some}{count:,} server{'s' if count != 1 else ''}{where}{rest}"


def _types(facts: RunFacts, servers: BoolArray) -> str:
    """GPU types of servers, e.g. ``T4 or V100``."""
    found = sorted({str(facts.gpu_types[s]) for s in np.flatnonzero(servers).tolist()})
    return " or ".join(", ".join(found).rsplit(", ", 1))


_EVENTS = {
    "submit": "submitted",
    "come": "arrived",
    "reject": "rejected",
    "start": "started",
    "move": "moved",
    "stop": "suspended",
    "finish": "finished",
    "evict": "evicted",
    "level": "to another queue",
    "lose": "lost",
}
MOST_IN_PAGE = 4
"""Number of waits, and of parts of each, in a page."""
_MOST_NAMES = 4
"""Number of servers, or of jobs, named in one line."""


def headline_rows(found: Explanation) -> list[tuple[str, object]]:
    """Label and value of the facts of a job."""
    needs = ", ".join(f"{told_apart([amount])[0]} {name}" for name, amount in found.demand.items())
    date = "" if found.submit_utc is None else f", {found.submit_utc} UTC"
    submitted = f"{after_first_text(found.after_first_s)} after the first submission{date}"
    reason = f", {found.reason}" if found.reason else ""
    rows: list[tuple[str, object]] = [("job", found.job_id), ("status", f"{found.status}{reason}")]
    rows += [(label, name) for label, name in (("vc", found.vc), ("user", found.user)) if name is not None]
    rows += [("needs", needs or "nothing"), ("submitted", submitted)]
    if found.rejection is not None:
        rows.append(("why", found.rejection))
    if found.status != JobStatus.REJECTED or found.queue_s:
        rows += [("waited in all", duration(found.queue_s)), ("held servers in all", duration(found.run_s))]
    rows += [
        (f"  {LABELS[Reason[name.upper()]]}", f"{duration(seconds)}, {share_text(seconds, found.queue_s)}")
        for name, seconds in found.seconds_by_reason.items()
    ]
    return rows


def share_text(part: float, whole: float) -> str:
    """Percentage of the whole, without decimals."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def event_rows(found: Explanation) -> list[tuple[str, str, str]]:
    """Time after the submission, event, and servers with their tasks, of each event of a job."""
    starts_s = [event.time_s for event in found.events if event.event == "start"]
    rows = []
    for event in found.events:
        again = event.event == "start" and event.role != "chunk" and event.time_s > starts_s[0]
        name = "started again" if again else _EVENTS.get(event.event, event.event)
        rows.append((duration(event.time_s - found.submit_s), *_event_texts(event, name)))
    return rows


def _event_texts(event: JobEvent, name: str) -> tuple[str, str]:
    """Event with its role, and its servers with their tasks; of a chunk its number, and its server."""
    if event.role == "chunk":
        return f"{name} (chunk {', '.join(map(str, event.servers.values()))})", ", ".join(event.servers)
    servers = _first_of([f"{server}: {tasks}" for server, tasks in event.servers.items()])
    if event.successors:
        name = f"{name} (servers to {_first_of(event.successors)})"
    return f"{name} ({event.role})" if event.role else name, servers


def _first_of(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join([*names[:_MOST_NAMES], *([f"{left:,} more"] if left > 0 else [])])


def wait_title(found: Explanation, wait: Wait) -> str:
    """Heading of a wait, with times from the submission on."""
    begin, end = (duration(time_s - found.submit_s) for time_s in (wait.begin_s, wait.end_s))
    return f"waited {duration(wait.end_s - wait.begin_s)}: from {begin} to {end} after its submission"


def longest_of(times: Sequence[TimeT], most: int) -> list[TimeT]:
    """The longest of waits, or of their parts, in order of time."""
    longest = sorted(times, key=lambda each: each.begin_s - each.end_s)[:most]
    return sorted(longest, key=lambda each: each.begin_s)


PART_COLUMNS = ("after", "for", "jobs ahead at begin", "reason", "demand", "free at begin")
"""Headings of `part_rows`."""


def part_rows(found: Explanation, wait: Wait, most: int) -> list[tuple[str, str, int, str, str, str]]:
    """Begin, length, jobs ahead, reason, demand and free capacity of the longest parts of a wait."""
    return [
        (*_times(found, part), part.ahead, part.cause, part.needs or "-", part.free or "-")
        for part in longest_of(wait.parts, most)
    ]


def _times(found: Explanation, part: Part) -> tuple[str, str]:
    """Begin of a part after the submission, and its length."""
    return duration(part.begin_s - found.submit_s), duration(part.end_s - part.begin_s)


def others_rows(wait: Wait) -> list[tuple[str, object]]:
    """Holders of what the job needed, and jobs that started first."""
    holders = [f"{each.job_id} ({number(each.amount / 3600)} {wait.resource}-h)" for each in wait.holders]
    ahead = [f"{each.job_id} ({told_apart([each.amount])[0]} {wait.resource})" for each in wait.ahead]
    hidden = wait.ahead_total - len(wait.ahead)
    if hidden > 0:
        ahead.append(f"{hidden:,} more")
    rows: list[tuple[str, object]] = []
    if holders:
        rows.append((f"held most {wait.resource}", ", ".join(holders)))
    rows.append(("started first", ", ".join(ahead) or "no job"))
    return rows


def explanation_sections(found: Explanation) -> list[tuple[str, list[tuple[str, str]]]]:
    """Heading and lines (label, text) of a job for a page: reasons in sum, then its longest waits."""
    total = sum(found.seconds_by_reason.values())
    reasons = [
        (LABELS[Reason[name.upper()]], f"{duration(seconds)}, {share_text(seconds, total)}")
        for name, seconds in found.seconds_by_reason.items()
    ]
    part = ""
    if len(found.waits) < found.waits_total:
        times = f"{duration(total)} of {duration(found.queue_s)}"
        part = f" in its {len(found.waits)} longest waits of {found.waits_total:,}: {times}"
    sections = [(f"Why it waited{part}", [(shown(label), text) for label, text in reasons])]
    for wait in longest_of(found.waits, MOST_IN_PAGE):
        lines = [
            ("after {}, for {}".format(*_times(found, part)), shown(part.text))
            for part in longest_of(wait.parts, MOST_IN_PAGE)
        ]
        lines += [(label, shown(text)) for label, text in others_rows(wait)]
        most = len(wait.parts) > MOST_IN_PAGE
        shown_parts = f"; its {MOST_IN_PAGE} longest parts of {len(wait.parts):,}" if most else ""
        sections.append((wait_title(found, wait) + shown_parts, lines))
    return sections
