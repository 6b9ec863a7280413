"""What names of columns say: which of our columns, and the unit. Called by `columns`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from workloads.formats.tables.mapping import UNITS
from workloads.schema import BY_NAME

_COUNT = (
    "num|n|no|nr|number|count|cnt|of|total|req|requests?|requested|required|demand|alloc|allocated|used|plan"
    "|planned|assigned|fraction|jobs?|per|task|pod|worker|instance|node|replica|size|amount|spec|resources?"
)
_CLOCK = (
    "when|t|jobs?|task|pod|time|date|datetime|timestamp|ts|dt|at|on|in|utc|gmt|epoch|unix|first|actual|local"
)
_WHOLE = "jobs?|task|time|total|actual|wall|clock|real|raw|remote|in|of|hh|mm|ss"
_PART = "task|worker|instance|inst|replica|node|pod"

ROLES: dict[str, tuple[str, ...]] = {
    "submit_s": (
        _CLOCK,
        "submit|submitted|submission|submittal|creat(e|ed|ion)|arriv(e|al|ed)|enqueued?|queued_?at"
        "|q(?=_?(date|time))|released?|received",
        "time|timestamp|date|datetime|ts",
    ),
    "start": (_CLOCK, "start|started|begin|began|launch|launched|dispatch|dispatched"),
    "end": (_CLOCK, "end|ended|finish(ed)?|completed?|completion|stop|stopped|terminated|done"),
    "duration_s": (
        _WHOLE,
        "duration|run|running|runtime|elapsed|walltime|wall|wallclock|service|exec|execution|length",
    ),
    "wait_s": (_WHOLE, "wait|waited|waiting|pending_?time|queue(d|ing)?_?(wait|delay|time)|time_?in_?queue"),
    "num_tasks": (
        _COUNT,
        f"({_PART})s|({_PART})_?(num|number|count|cnt)|(num|number|n)_?(of_?)?({_PART})s?|gang_?size",
    ),
    "num_gpus": (_COUNT, "gpus?|accelerators?|cards?", r"(\w+_)?(num|n)_?gpus|(\w+_)?gpu_?(num|count)"),
    "gpu_types": (
        f"name|id|jobs?|accepted|{_COUNT}",
        "(gpu|accelerator|card|device)s?_?(types?|models?|names?|kinds?)",
    ),
    "cpu_per_task": (_COUNT, "v?cpus?|(v?cpu_?)?cores?|processors?|procs"),
    "memory_gib_per_task": (_COUNT, "mem|memory|ram"),
    "status": ("job|task|final|exit|end|last|run", "status|state|stat", "result|outcome|phase"),
    "job_id": (
        "raw|global|hash|the",
        "(job|task|pod|run|workload|submission|app|application)_?(id|uid|uuid|identifier|key)|jid",
        "id|uid|uuid|(job|task|pod|run|workload)_?(no|nr|number|num|name)|job|name",
    ),
    "user": ("name|id|hash|jobs?", "users?|username|login|owner|submitter|submitted_?by|requester"),
    "vc": (
        "name|id|jobs?",
        "vc|virtual_?cluster|partition|queue",
        "pool|project|team|tenant|namespace|account|group|lab",
    ),
}
"""By our column, or instant: words that may stand around, those that tell it, those that are less sure."""

INSTANTS = ("submit_s", "start", "end")

_UNIT_WORDS = {
    "us": "us|usecs?|micros|microseconds?",
    "ms": "ms|msecs?|millis|milliseconds?",
    "s": "s|secs?|seconds?",
    "min": "mins?|minutes?",
    "h": "h|hrs?|hours?",
    "d": "d|days?",
    "milli": "milli|millis|millicores?|m",
    "percent": "percent|pct|perc",
    "b": "b|bytes?",
    **{size: size for size in ("gib", "mib", "kib", "gb", "mb")},
}
"""Words of those `UNITS` that names have."""

_UNITS_OF_NAMES = {"ElapsedRaw": "s", "RemoteWallClockTime": "s", "RequestMemory": "mib"}
"""Units that Slurm and HTCondor give to columns of these names."""


class Said(NamedTuple):
    """What a column's name says."""

    role: str
    """Our column, or `start` or `end`."""
    sure: bool = True
    unit: str | None = None
    """One of `UNITS`; None where the name has none."""
    whole: bool | None = None
    """Whether a demand is of the whole job (True) or of a task (False); None where the name does not say."""


def said_by(name: str) -> Iterator[Said]:
    """What a name may mean; nothing for a name without a known word."""
    if name in BY_NAME:
        same = (unit for unit, scale in UNITS.get(BY_NAME[name].unit, {}).items() if scale == (1, 1))
        yield Said(name, unit=next(same, None), whole=False if name.endswith("_per_task") else None)
        return
    words = words_of(name)
    for role, (around, *cores) in ROLES.items():
        rest, unit = _without_unit(words, "s" if role in INSTANTS else BY_NAME[role].unit)
        whole = False if "per" in rest else True if "total" in rest else None
        for core in cores:
            told = re.fullmatch(rf"(?:(?:{around})_?)*(?:{core})(?:_?(?:{around}))*", "_".join(rest))
            if told or (role == "duration_s" and unit and not rest):
                yield Said(role, core == cores[0], unit or _UNITS_OF_NAMES.get(name), whole)
                break


def words_of(name: str) -> list[str]:
    """Words of a name in lower case; of a dotted path, those of its last part."""
    last = name.replace("%", " percent ").rsplit(".", 1)[-1]
    parts = re.findall(r"[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-zß-öø-ÿ]+|[0-9]+", last)
    return [part.lower() for part in parts]


def _without_unit(words: list[str], dimension: str) -> tuple[list[str], str | None]:
    """The words without that of a unit, and the unit; a first word, or one letter within, is none."""
    for place in range(len(words) - 1, -1 if len(words) == 1 else 0, -1):
        letter = len(words[place]) == 1 and (place < len(words) - 1 or not place)
        for unit in () if letter else UNITS.get(dimension, {}):
            if re.fullmatch(_UNIT_WORDS.get(unit, "(?!)"), words[place]):
                return words[:place] + words[place + 1 :], unit
    return words, None
