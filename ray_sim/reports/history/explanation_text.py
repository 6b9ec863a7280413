"""Readable text of an explanation, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ray_sim.model.readable import duration, number, told_apart
from ray_sim.model.result import JobStatus
from ray_sim.model.text import shown
from ray_sim.reports.history.explanation import Explanation, JobEvent, Part, Wait
from ray_sim.reports.history.reason_text import LABELS
from ray_sim.reports.history.reasons import Reason
from ray_sim.reports.submission_times import after_first_text

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
    "lose": "lost its server",
}
MOST_IN_PAGE = 4
"""Number of waits, and of parts of each, in a page."""
_MOST_SERVERS = 4
"""Number of servers named in one line."""


def headline_rows(found: Explanation) -> list[tuple[str, object]]:
    """Label and value of the facts of a job."""
    needs = ", ".join(f"{told_apart([amount])[0]} {name}" for name, amount in found.demand.items())
    reason = f", {found.reason}" if found.reason else ""
    rows: list[tuple[str, object]] = [("job", found.job_id), ("status", f"{found.status}{reason}")]
    rows += [(label, name) for label, name in (("vc", found.vc), ("user", found.user)) if name is not None]
    rows += [("needs", needs or "nothing"), ("submitted", _submission_text(found))]
    if found.rejection is not None:
        rows.append(("why", found.rejection))
    if found.status != JobStatus.REJECTED or found.queue_s:
        rows += [("waited in all", duration(found.queue_s)), ("held servers in all", duration(found.run_s))]
    rows += [
        (f"  {LABELS[Reason[name.upper()]]}", f"{duration(seconds)}, {share_text(seconds, found.queue_s)}")
        for name, seconds in found.seconds_by_reason.items()
    ]
    return rows


def _submission_text(found: Explanation) -> str:
    date = "" if found.submit_utc is None else f", {found.submit_utc} UTC"
    return f"{after_first_text(found.after_first_s)} after the first submission{date}"


def share_text(part: float, whole: float) -> str:
    """Percentage of the whole, without decimals."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def event_rows(found: Explanation) -> list[tuple[str, str, str]]:
    """Time after the submission, event, and servers with their tasks, of each event of a job."""
    again = {"start": "started again"}
    first_s: dict[str, float] = {}
    """Time of the first event of each kind: its other rows at that time are of the same start."""
    rows = []
    for event in found.events:
        name = _EVENTS.get(event.event, event.event)
        if event.time_s > first_s.setdefault(event.event, event.time_s) and event.role != "chunk":
            name = again.get(event.event, name)
        rows.append((duration(event.time_s - found.submit_s), *_event_texts(event, name)))
    return rows


def _event_texts(event: JobEvent, name: str) -> tuple[str, str]:
    """Event with its role, and its servers with their tasks; of a chunk its number, and its server."""
    if event.role == "chunk":
        return f"{name} (chunk {', '.join(map(str, event.servers.values()))})", ", ".join(event.servers)
    return f"{name} ({event.role})" if event.role else name, _servers_text(event.servers)


def _servers_text(servers: dict[str, int]) -> str:
    named = [f"{name}: {tasks}" for name, tasks in islice(servers.items(), _MOST_SERVERS)]
    left = len(servers) - len(named)
    return ", ".join([*named, f"{left:,} more"] if left > 0 else named)


def wait_title(found: Explanation, wait: Wait) -> str:
    """Heading of a wait, with times from the submission on."""
    begin, end = (duration(time_s - found.submit_s) for time_s in (wait.begin_s, wait.end_s))
    return f"waited {duration(wait.end_s - wait.begin_s)}: from {begin} to {end} after its submission"


def longest_parts(wait: Wait, most: int) -> Sequence[Part]:
    """The longest parts of a wait, in order of time."""
    longest = sorted(wait.parts, key=lambda part: part.begin_s - part.end_s)[:most]
    return sorted(longest, key=lambda part: part.begin_s)


PART_COLUMNS = ("after", "for", "jobs ahead at begin", "reason", "demand", "free at begin")
"""Headings of `part_rows`."""


def part_rows(found: Explanation, wait: Wait, most: int) -> list[tuple[str, str, int, str, str, str]]:
    """Begin, length, jobs ahead, reason, demand and free capacity of the longest parts of a wait."""
    return [
        (*_times(found, part), part.ahead, part.cause, part.needs or "-", part.free or "-")
        for part in longest_parts(wait, most)
    ]


def _times(found: Explanation, part: Part) -> tuple[str, str]:
    """Begin of a part after the submission, and its length."""
    return duration(part.begin_s - found.submit_s), duration(part.end_s - part.begin_s)


def longest_waits(found: Explanation, most: int) -> Sequence[Wait]:
    """The longest waits of a job, in order of time."""
    longest = sorted(found.waits, key=lambda wait: wait.begin_s - wait.end_s)[:most]
    return sorted(longest, key=lambda wait: wait.begin_s)


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
    for wait in longest_waits(found, MOST_IN_PAGE):
        lines = [
            ("after {}, for {}".format(*_times(found, part)), shown(part.text))
            for part in longest_parts(wait, MOST_IN_PAGE)
        ]
        lines += [(label, shown(text)) for label, text in others_rows(wait)]
        most = len(wait.parts) > MOST_IN_PAGE
        shown_parts = f"; its {MOST_IN_PAGE} longest parts of {len(wait.parts):,}" if most else ""
        sections.append((wait_title(found, wait) + shown_parts, lines))
    return sections
