"""Which columns of a table are ours, by names, by values and by what columns say of each other.

Called by `guess` where no preset fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import polars as pl
from pydantic import JsonValue

from workloads.formats.guessing.names import INSTANTS, ROLES, Said, said_by, words_of
from workloads.formats.guessing.proposal import Proposal
from workloads.formats.guessing.values import SECONDS, Read, absent_words, amounts, instants, where
from workloads.formats.tables.expressions import quoted
from workloads.formats.text import BLANK_WORDS
from workloads.schema import BY_NAME
from workloads.status import UNDECIDED, endings

_LEAST = 0.5
"""Share of a column's values that must read as its name says."""

_ALIKE = 0.95
"""Share of the rows by which two columns say the same, or by which values tell a column."""

_UNNAMEABLE = re.compile(r"[*\[`\n]")
"""In the names of lists, and of what an expression or a line cannot name."""

_DECIMAL = r"^-?[0-9]+\.[0-9]+$"
"""Of no user and no virtual cluster, but of waits in a column `queue`."""

_STEP = r"\.(batch|extern|interactive|[0-9]+)$"

_TRES = "(?:^|,)gres/gpu=(?P<gres_gpus>[0-9]+)"
"""GPUs among Slurm's trackable resources."""

_MODEL = (
    r"(?i)(^|[^a-z0-9])(v100|p100|p40|p4|k80|k40|m[46]0|t4|a100|a800|a[1346]0|a6000|l40|l40s|l4|h[128]00|h20"
    r"|gh?200|b[123]00|mi[0-9]{2,3}|[gr]tx|titan|tesla|quadro)"
)
"""In a GPU's model."""

_NOT_ENDED = (
    *("pending", "running", "suspended", "requeued", "configuring", "completing", "queued", "waiting"),
    *("resizing", "scheduled", "created", "submitted", "starting", "run", "pend"),
)

_POWERS = [0.0, *(2.0**power for power in range(11))]

_BY_VALUES: dict[str, Callable[[Read], bool]] = {
    "submit_s": lambda read: bool(read.dated) and not read.doubts,
    "duration_s": lambda read: read.cell.get("as") == "duration",
    "num_gpus": lambda read: {*read.values} <= {*_POWERS} and 1 < read.values.n_unique() < len(read.values),
    **dict.fromkeys(("status", "gpu_types"), lambda _: True),
}
"""What values must be, besides being read, to tell a column whose name says nothing."""


def zone_doubts(proposal: Proposal, zone: str | None, columns: Iterable[Read]) -> list[str]:
    """Propose the zone of dates without an offset from UTC, or doubt it, by what columns are read as."""
    local = [read.texts.name for read in columns if read.dated == "local"]
    if local and zone is not None:
        proposal.add("", "time_zone", zone, "as given")
    elif any("utc" not in words_of(name) for name in local):
        return ["dates have no offset from UTC and are read as UTC; say their zone with --time-zone"]
    return []


class Columns:
    """The columns of a table, each of which is taken for one of ours at most."""

    def __init__(self, frame: pl.DataFrame, proposal: Proposal, zone: str | None) -> None:
        self._frame, self._proposal, self._zone = frame, proposal, zone
        self._texts = {each.name: each.set(each.is_in(BLANK_WORDS), None) for each in frame}
        self._free = {name: [*said_by(name)] for name in frame.columns if not _UNNAMEABLE.search(name)}
        """What the names say of the columns that are not taken."""
        self._taken: dict[str, Read] = {}
        self._decimal = "."

    def propose(self) -> list[str]:
        """Propose an entry for each of our columns that is found; returns the columns that are left."""
        self._decide_decimal()
        for role in ROLES:
            self._take(role)
        self._add_submission()
        self._add_run_time()
        self._add_wait()
        self._take_tres()
        if ("derived", "num_gpus") not in self._proposal.entries:
            self._take_by_values("num_gpus")
        for ours in ("num_gpus", "cpu_per_task", "memory_gib_per_task"):
            self._add_demand(ours)
        self._add_status()
        self._add_types()
        self._add_ids()
        for ours in ("num_tasks", "user", "vc"):
            if taken := self._taken.get(ours):
                self._add(ours, taken)
        for name in [name for name in self._free if name in BY_NAME]:
            del self._free[name]
            self._proposal.add("columns", name, name, "the name is ours")
        return [name for name in self._frame.columns if name in self._free or _UNNAMEABLE.search(name)]

    def _decide_decimal(self) -> None:
        """Propose a decimal comma, where some number has one that separates no thousands."""
        number, sure = "^-?[0-9]+(,[0-9]+)?$", r"^-?0,|,([0-9]{1,2}|[0-9]{4,})$|[0-9]{4,},"
        whole = [each for each in self._texts.values() if each.str.contains(number).all()]
        certain = [each.name for each in whole if each.str.contains(sure).any()]
        if certain:
            self._decimal = ","
            others = [each for each in whole if each.str.contains(",").any() and each.name not in certain]
            doubts = [f"has {each.name} thousands?" for each in others]
            self._proposal.add("read", "decimal", ",", f"decimals of {certain[0]} have it", *doubts)

    def _take(self, role: str) -> None:
        """Take the first column that a role's name names, and whose values read as such."""
        named = [(name, said) for name, found in self._free.items() for said in found if said.role == role]
        apt = [each for each in (self._read(*each) for each in named) if each.share >= _LEAST]
        if role == "job_id":
            apt = [each for each in apt if _hardly_repeats(each.texts)] or apt
        if apt:
            best = min(apt, key=lambda each: not each.name_says.sure)
            others = [each.texts.name for each in apt if (each.values != best.values).any()]
            doubts = (f"or is it {' or '.join(others)}, whose values differ?",) if others else ()
            self._own(role, best._replace(doubts=(*best.doubts, *doubts)))

    def _take_by_values(self, role: str) -> None:
        """Take columns whose names say nothing: one, or of dates up to three, in the order of their times."""
        if role in self._taken:
            return
        unnamed = [self._read(name, Said(role)) for name, said in self._free.items() if not said]
        known = [each for each in unnamed if each.share >= _ALIKE and _BY_VALUES[role](each)]
        roles: tuple[str, ...] = (role,)
        if role == "submit_s" and 1 < len(known) <= len(INSTANTS):
            roles = INSTANTS[-len(known) :]
            known.sort(key=lambda each: float(each.values.sum()) / each.values.count())
        for ours, read in zip(roles, known, strict=False):
            doubts = (f"column {read.texts.name} is taken for {ours} by its values only",)
            self._own(ours, read._replace(doubts=doubts))

    def _own(self, role: str, read: Read) -> None:
        self._taken[role] = read
        del self._free[read.texts.name]

    def _read(self, name: str, said: Said) -> Read:
        """Values of a column as the role's, without the column's own words for an absent value."""
        texts, column, dated = self._texts[name], BY_NAME.get(said.role), said.role in INSTANTS
        if column is not None and not column.is_number:
            return self._read_texts(texts, said)
        words = absent_words(self._frame[name], self._decimal, dated=dated)
        texts = texts.set(self._frame[name].is_in(words), None)
        if column is None or dated:
            found = instants(texts, said.unit, self._decimal)
        else:
            found = amounts(texts, said.unit, self._decimal, column.unit)
        absent: dict[str, JsonValue] = {"null_values": [*words]} if words else {}
        return found._replace(cell={**found.cell} | absent, name_says=said)

    def _read_texts(self, texts: pl.Series, said: Said) -> Read:
        """Texts as a status, ids, or names."""
        if said.role == "status":
            word = texts.str.to_lowercase()
            ended = pl.select(endings(pl.lit(word))).to_series().is_not_null()
            apt, what = ended | word.is_in([*UNDECIDED, *_NOT_ENDED]), "words of an end"
        elif said.role == "job_id":
            is_key = not texts.null_count() and (said.sure or _hardly_repeats(texts))
            apt, what = texts.is_not_null() & is_key, f"{texts.n_unique():,} values"
        elif said.role == "gpu_types":
            apt, what = texts.str.contains(_MODEL), "models of GPUs"
        else:
            apt, what = ~texts.str.contains(_DECIMAL), "texts"
        return Read(texts, where(apt), what, name_says=said)

    def _add(self, ours: str, read: Read, *doubts: str) -> None:
        """Propose a column, with its unit and its cells."""
        sound = read.texts.filter(read.values.is_not_null())
        many = f"{len(sound):,} of {self._frame.height:,} rows"
        why = f"{read.said}, such as {next(iter(sound), '')}; {many}"
        self._proposal.add("columns", ours, read.texts.name, why, *read.doubts, *doubts)
        self._add_cells(ours, read)

    def _add_cells(self, ours: str, *columns: Read) -> None:
        """Propose the unit and the cells of what one of our columns is read from."""
        for read in columns:
            if read.unit is not None and read.unit != BY_NAME[ours].unit.lower():
                self._proposal.add("units", ours, read.unit, read.said)
            if read.cell:
                self._proposal.add("cells", read.texts.name, {**read.cell}, read.said)

    def _add_submission(self) -> None:
        """Propose the submission; where no name tells an instant, dates do, in the order of their times."""
        if not any(role in self._taken for role in INSTANTS):
            self._take_by_values("submit_s")
        found = {role: self._taken[role] for role in INSTANTS if role in self._taken}
        if at := found.get("submit_s") or found.get("start"):
            doubts = zone_doubts(self._proposal, self._zone, found.values())
            if "submit_s" not in found:
                doubts.append("the start is taken for the submission, as there is none")
            self._add("submit_s", at, *doubts)

    def _between(self, late: str, early: str) -> pl.Series | None:
        """Seconds between two instants of one kind; None without them."""
        if late not in self._taken or early not in self._taken:
            return None
        a, b = self._taken[late], self._taken[early]
        return a.values - b.values if (a.dated, a.unit) == (b.dated, b.unit) else None

    def _add_difference(self, ours: str, late: str, early: str, *doubts: str) -> None:
        """Propose the time between two instants, which has their doubts."""
        a, b = self._taken[late], self._taken[early]
        text = f"{quoted(a.texts.name)} - {quoted(b.texts.name)}"
        every = dict.fromkeys((*doubts, *a.doubts, *b.doubts))
        self._proposal.add("derived", ours, text, f"{late} - {early}", *every)
        self._add_cells(ours, a, b)

    def _add_run_time(self) -> None:
        """Propose the run time: end - start, or a column, which may contain the queue."""
        ran, whole = self._between("end", "start"), self._between("end", "submit_s")
        if ran is None and whole is None:
            self._take_by_values("duration_s")
        taken = self._taken.get("duration_s")
        equal = taken is not None and _equals(taken, ran)
        queue = []
        if taken is not None and not equal and _equals(taken, whole):
            queue = [f"{taken.texts.name} equals end - submission: it contains the queue"]
        if ran is not None and (taken is None or equal or queue):
            self._add_difference("duration_s", "end", "start", *queue)
        elif taken is not None:
            neither = ["is neither end - start nor end - submission"] if ran is not None else []
            self._add("duration_s", taken, *queue, *neither)
        elif whole is not None:
            text = "no column has the start: contains the time in the queue"
            self._add_difference("duration_s", "end", "submit_s", text)

    def _add_wait(self) -> None:
        """Propose the wait before the start: a column, or start - submission."""
        waited, taken = self._between("start", "submit_s"), self._taken.get("wait_s")
        if taken is not None and (waited is None or not _equals(taken, waited)):
            self._add("wait_s", taken, *(["is not start - submission"] if waited is not None else []))
        elif waited is not None:
            self._add_difference("wait_s", "start", "submit_s")

    def _add_demand(self, ours: str) -> None:
        """Propose GPUs, ours of the job, or cores or memory, ours of a task."""
        if (taken := self._taken.get(ours)) is None:
            return
        name, whole = taken.texts.name, taken.name_says.whole
        tasks, of_job = self._taken.get("num_tasks"), ours == "num_gpus"
        counted = tasks or (None if of_job else self._taken.get("num_gpus"))
        several = not of_job if counted is None else bool((counted.values > 1).any())
        of_task, doubts = whole is False, []
        if several and whole is None:
            of_task = of_job and tasks is not None and bool((taken.values % tasks.values > 0).any())
            if of_task or name != ours:
                of = "a task" if of_task else "the job"
                doubts = [f"is {name} of the job, or of a task? Taken as of {of}"]
        elif of_task and tasks is None and name != ours and (of_job or several):
            doubts = ["is that of a task, and no column has the tasks"]
        if of_job and (blank := taken.texts.null_count()):
            default = f"cells: {{{name}: {{default: 0}}}}"
            doubts.append(f"blank in {blank:,} rows, which are rejected; with {default} they have 0 GPUs")
        self._add(ours, taken, *doubts)
        if of_job and of_task and tasks:
            self._proposal.add("per_task", ours, ours, "multiplied by the tasks")
        if not of_job and not of_task and (several or whole):
            self._proposal.add("per_job", ours, ours, "divided by the tasks")

    def _take_tres(self) -> None:
        """Unless a column has the GPUs, propose those among Slurm's trackable resources."""
        counts = {name: int(self._texts[name].str.contains(_TRES).sum()) for name in self._free}
        name = max(counts, key=lambda name: counts[name], default="")
        if "num_gpus" not in self._taken and counts.get(name):
            del self._free[name]
            why = f"gres/gpu= in {counts[name]:,} of {self._frame.height:,} rows of {name}, 0 in others"
            self._proposal.add("derived", "num_gpus", "first(gres_gpus, 0)", why)
            self._proposal.add("cells", name, {"pattern": [_TRES]}, why)

    def _add_status(self) -> None:
        """Propose the column of words of an end; rows that had not ended are left out."""
        self._take_by_values("status")
        if (taken := self._taken.get("status")) is None:
            return
        self._add("status", taken)
        word = taken.texts.str.to_lowercase()
        still = word.is_in(_NOT_ENDED)
        if "end" in self._taken:
            still &= self._taken["end"].values.is_null()
        words = sorted({*word.filter(still).drop_nulls()})
        self._leave_out("not_ended", taken.texts.name, still, f"(?i)^({'|'.join(words)})$")

    def _add_types(self) -> None:
        """Propose the column of GPUs' models."""
        self._take_by_values("gpu_types")
        if taken := self._taken.get("gpu_types"):
            text = "did the job ask for this model, or only run on it? It will accept no other"
            self._add("gpu_types", taken, text)

    def _leave_out(self, what: str, name: str, rows: pl.Series, pattern: str) -> None:
        if rows.any():
            rule: dict[str, JsonValue] = {"left_out": what, "column": name, "matches": pattern}
            self._proposal.add("where", what, rule, f"{int(rows.sum()):,} rows")

    def _add_ids(self) -> None:
        """Propose ids; steps of jobs are left out."""
        if (taken := self._taken.get("job_id")) is None:
            return
        texts, distinct = taken.texts, taken.texts.n_unique()
        copied = self._frame.unique().height == distinct
        again = not copied and distinct < len(texts) * (_LEAST if taken.name_says.sure else 1)
        doubts = ["of rows with one id, one is kept: are they one job?"] if again else []
        self._add("job_id", taken, *doubts)
        steps = texts.str.contains(_STEP) & texts.str.replace(_STEP, "").is_in(texts.implode())
        self._leave_out("step", taken.texts.name, steps, _STEP)


def _hardly_repeats(texts: pl.Series) -> bool:
    return texts.n_unique() >= _ALIKE * len(texts)


def _equals(read: Read, seconds: pl.Series | None) -> bool:
    """Whether lengths in some unit equal those in seconds."""
    if seconds is None:
        return False
    raw = read.values / SECONDS[read.unit or "s"]
    away = [(raw * unit_s - seconds).abs() for unit_s in SECONDS.values()]
    return any(int((each <= (1 - _ALIKE) * seconds + 1).sum()) >= _ALIKE * each.count() > 0 for each in away)
