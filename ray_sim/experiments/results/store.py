"""Store of a sweep's results on disk: one directory per content hash, the plan, and the failures."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter, ValidationError

from ray_sim.experiments.results.result_directories import (
    LOCK,
    locked,
    remove_leftovers,
    replace_files,
    require_lasting_directory,
    unwritable,
)
from ray_sim.experiments.results.result_files import (
    MANIFEST,
    PLAN,
    check_result,
    checksummed_json,
    read_checked_json,
    read_manifest,
    read_summary,
    read_table,
)
from ray_sim.experiments.run_identity import SHORT
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.model.errors import InvalidInputError, RunFailedError
from ray_sim.reports.page import timeline_to_end
from ray_sim.reports.plots import completed_jct_s
from ray_sim.reports.sweep_report import MOST_TIMELINES, PLACE_COLUMNS, PlaceData
from ray_sim.reports.tables import Place, RunRow

STORE_FORMAT = 2
"""Version of the layout, in sweep.json; a store of another version is neither read nor written."""

_FAILURES = "failures.json"
_RUNS = "runs"
_REMEDY = "move it elsewhere if it is yours, otherwise delete it and go on with --resume"

Stamp = tuple[int, int]
"""Inode and time of a result's last file; they change when the result is written again."""


class MisplacedResultError(RunFailedError):
    """A directory of a store does not hold the result that its name says; the run is to be repeated."""


@dataclass(frozen=True, slots=True)
class ConfigurationOutcome:
    """End of one configuration: its result is in the store, or there is an error."""

    entry: Entry
    error: str | None = None
    lost: tuple[str, ...] = ()
    """Reasons why the process of earlier attempts died, e.g. because it was killed."""


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    entries: list[Entry]
    log: Detail = "full"


def fault_of(directory: Path) -> str | None:
    """Damage of the result in a directory; None if the result is sound or absent."""
    try:
        if not os.path.lexists(directory):
            return None
        _hash_in(directory)
        check_result(directory)
    except (InvalidInputError, MisplacedResultError) as problem:
        return str(problem)
    return None


def _hash_in(directory: Path) -> str:
    """Hash of the run whose result a directory of the store holds."""
    if not directory.exists():
        raise MisplacedResultError(f"{directory}: is a link that leads nowhere")
    if not any(directory.iterdir()):
        raise MisplacedResultError(f"{directory}: holds no result files")
    found = str(read_manifest(directory)["content_hash"])
    if not found.startswith(directory.name):
        raise MisplacedResultError(
            f"{directory}: holds the result of another run, {found[:SHORT]}, as its manifest says"
        )
    return found


class ResultStore:
    """A directory with ``runs/<hash>/`` for every finished run, ``sweep.json`` and ``failures.json``.

    A run's directory appears whole or not at all, so a sweep can resume from the store after a kill at any
    moment.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._token = ""

    def run_directory(self, content_hash: str) -> Path:
        """Directory of the run's files."""
        return self.root / _RUNS / content_hash[:SHORT]

    def has(self, content_hash: str) -> bool:
        """Whether the store has the run.

        Raises
        ------
        InvalidInputError : the run's directory has no sound manifest
        MisplacedResultError : it is empty, a link to nothing, or holds the result of another run
        """
        directory = self.run_directory(content_hash)
        try:
            return os.path.lexists(directory) and _hash_in(directory) == content_hash
        except MisplacedResultError as problem:
            raise MisplacedResultError(f"{problem}; run it again with ray-sim sweep --resume") from None

    def stamp(self, content_hash: str) -> Stamp | None:
        """Stamp that distinguishes results written under the same hash; None without a result."""
        try:
            status = (self.run_directory(content_hash) / MANIFEST).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def put(self, content_hash: str, files: Mapping[str, bytes]) -> None:
        """Store a run's files; they replace older ones under the same hash, or a link that leads nowhere."""
        directory = self.run_directory(content_hash)
        if not directory.exists():
            directory.unlink(missing_ok=True)
        replace_files(directory, files)

    def damaged(self, entries: Iterable[Entry]) -> list[ConfigurationOutcome]:
        """The entries with damaged files, and the damage of each."""
        problems = [(entry, fault_of(self.run_directory(entry.content_hash))) for entry in entries]
        return [ConfigurationOutcome(entry, problem) for entry, problem in problems if problem is not None]

    def unplanned(self, entries: Iterable[Entry]) -> list[Path]:
        """Sorted directories of results that belong to none of these entries."""
        planned = {self.run_directory(entry.content_hash) for entry in entries}
        there = (self.root / _RUNS).glob("[0-9a-f]" * SHORT)
        return sorted(path for path in there if path.is_dir() and path not in planned)

    def in_reach(self) -> bool:
        """Whether this process, perhaps on another host, can access the store that a sweep holds."""
        try:
            return self._token != "" and (self.root / LOCK).read_text() == self._token
        except OSError:
            return False

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Lock the store for one sweep, and remove partial results of a killed sweep.

        Raises
        ------
        InvalidInputError : the store is in use, belongs to a sweep of another name, or cannot be written
        """
        require_lasting_directory(self.root)
        self._check_owner(name)
        with locked(self.root, "another sweep is writing here; wait for it or choose another -o") as lock:
            self._token = uuid.uuid4().hex
            lock.truncate(0)
            lock.write(self._token)
            lock.flush()
            (self.root / _RUNS).mkdir(exist_ok=True)
            remove_leftovers(self.root / _RUNS)
            yield

    def _check_owner(self, name: str) -> None:
        if not self.root.exists() or not any(self.root.iterdir()):
            return
        if (self.root / LOCK).exists() and not (self.root / PLAN).exists():
            return  # the lock file of a sweep that was killed before it wrote its plan
        if not (self.root / PLAN).exists():
            other = min(self.root.iterdir()).name
            raise InvalidInputError(
                f"{self.root}: not the results of a sweep: it holds {other}, which stays; choose another -o"
            )
        owner, _ = self.read_plan()
        if owner != name:
            raise InvalidInputError(f"{self.root}: holds the results of sweep '{owner}'; choose another -o")

    def write_plan(self, name: str, entries: Iterable[Entry], detail: Detail = "full") -> None:
        """Write the sweep's configurations and the detail that MLflow gets, before the sweep runs."""
        plan = {"name": name, "log": detail, "entries": [asdict(entry) for entry in entries]}
        self._write(PLAN, {"format": STORE_FORMAT, **plan})

    def read_plan(self) -> tuple[str, list[Entry]]:
        """Read the sweep's name and its runs in order."""
        plan = self._read_plan()
        return plan.name, plan.entries

    def read_detail(self) -> Detail:
        """Read the detail of each run that MLflow gets."""
        return self._read_plan().log

    def _read_plan(self) -> _Plan:
        content = self._read(PLAN, f"{self.root}: not the results of a sweep")
        try:
            return TypeAdapter(_Plan).validate_python(content)
        except ValidationError as error:
            raise InvalidInputError(f"{self.root / PLAN}: damaged; {_REMEDY}") from error

    def write_failures(self, failures: Iterable[ConfigurationOutcome]) -> None:
        """Write the failures of the last sweep."""
        errors = {failure.entry.content_hash: failure.error for failure in failures}
        self._write(_FAILURES, {"format": STORE_FORMAT, "errors": errors})

    def outcomes(self, entries: Iterable[Entry]) -> list[ConfigurationOutcome]:
        """Outcomes of the entries that have ended."""
        errors = self._read_failures()
        return [
            ConfigurationOutcome(entry, None if finished else errors[entry.content_hash])
            for entry in entries
            if (finished := self.has(entry.content_hash)) or entry.content_hash in errors
        ]

    def _read_failures(self) -> dict[str, str]:
        if not (self.root / _FAILURES).exists():
            return {}
        content = self._read(_FAILURES, f"{self.root / _FAILURES}: damaged")
        try:
            return TypeAdapter(dict[str, str]).validate_python(content.get("errors"))
        except ValidationError as error:
            raise InvalidInputError(f"{self.root / _FAILURES}: damaged; {_REMEDY}") from error

    def rows(self, entries: Iterable[Entry]) -> list[RunRow]:
        """The finished runs among the entries, for tables."""
        return [
            RunRow(
                *(*entry.place, entry.policy, entry.seed),
                read_summary(self.run_directory(entry.content_hash)),
            )
            for entry in entries
            if self.has(entry.content_hash)
        ]

    def places(self, entries: Iterable[Entry]) -> Iterator[tuple[Place, PlaceData]]:
        """Yield, place by place, the jobs of the finished runs, and the first timelines of each policy."""
        done = [entry for entry in entries if self.has(entry.content_hash)]
        for place, group in groupby(done, key=lambda entry: entry.place):
            jobs: list[pl.DataFrame] = []
            timelines: dict[str, dict[int | None, pl.DataFrame]] = {}
            for entry in group:
                directory = self.run_directory(entry.content_hash)
                read = read_table(directory, "jobs")
                labels = {"policy": pl.lit(entry.policy), "seed": pl.lit(entry.seed, pl.Int64)}
                jobs.append(read.select(PLACE_COLUMNS).with_columns(**labels))
                of_policy = timelines.setdefault(entry.policy, {})
                if len(of_policy) < MOST_TIMELINES:
                    of_policy[entry.seed] = timeline_to_end(read_table(directory, "timeline"), read)
            joined = pl.concat(jobs)
            curves = {policy: completed_jct_s(joined.filter(policy=policy)) for policy in timelines}
            yield place, PlaceData(curves, joined, timelines)

    def _read(self, name: str, complaint: str) -> dict[str, object]:
        """Read a file of the store and check it against its own SHA-256."""
        path = self.root / name
        return read_checked_json(path, complaint, partial(_check_format, path), _REMEDY)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        temporary = self.root / f".{name}.tmp"
        try:
            temporary.write_bytes(checksummed_json(content))
            temporary.replace(self.root / name)
        except OSError as error:
            raise unwritable(self.root / name, error) from error
        finally:
            temporary.unlink(missing_ok=True)


def _check_format(path: Path, content: Mapping[str, object]) -> None:
    """Refuse a format of another version; a file without a format is damaged, which its SHA-256 tells."""
    found = content.get("format")
    if isinstance(found, int) and found != STORE_FORMAT:
        raise InvalidInputError(
            f"{path}: written by another version of ray-sim (store format {found}, this version has "
            f"{STORE_FORMAT}), or damaged; choose another -o, or read it with the version that wrote it"
        )
