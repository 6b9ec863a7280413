"""Files of a run's result: their bytes, and how they are read and checked against SHA-256 checksums.

`result_directories` writes them; commands that show results read them here. A change of the files or of their
meaning needs a new `RESULT_FORMAT`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.figures import FIGURES, KindFigures, all_figures, class_of
from ray_sim.model.result import EVENT_SCHEMA, JOB_SCHEMA, RunResult, Summary
from workloads.sources import require_regular

RESULT_FORMAT = 7
"""Format version of the files; part of every content hash.

Raise it when older results can no longer be read, or a number in them has another meaning.
"""

_READABLE = (6, RESULT_FORMAT)
"""Format 6 has no `rho` of jobs, and its fairness counts failed servers as available."""

PLAN = "sweep.json"
"""The plan of a sweep, in the directory of its results; a directory without it is not one."""

MANIFEST = "manifest.json"
TIMING = "timing.json"
SUMMARY = "summary.json"
_CHECKSUM = "sha256"
_JSON_ADAPTER = TypeAdapter(dict[str, object])
_SUMMARY_ADAPTER = TypeAdapter(Summary)
_FRAMES = ("jobs", "events", "timeline")
_CHECKED = (*(f"{name}.parquet" for name in _FRAMES), SUMMARY)
_OPTIONAL = ("stops", "teams")
"""Tables that not every run has: stops of the general loop, teams of clusters that have some."""
RESULT_FILES = frozenset({*_CHECKED, *(f"{name}.parquet" for name in _OPTIONAL), TIMING, MANIFEST})
"""Names of all files of a result."""


REMEDY = "run the scenario again, or the sweep with --resume"


class ChangedFileError(InvalidInputError):
    """A file has changed since it was written."""

    def __init__(self, path: Path, remedy: str = REMEDY) -> None:
        super().__init__(f"{path}: changed since it was written (its SHA-256 differs); {remedy}")


def encode_result(
    result: RunResult, manifest: Mapping[str, object], wall_s: Mapping[str, float] | None = None
) -> dict[str, bytes]:
    """Every file of the run by name.

    The tables and summary.json depend on the run only; manifest.json also depends on paths and versions, and
    timing.json on the machine.

    Parameters
    ----------
    manifest : origin of the run; the loop, the format and the SHA-256 of the files are added
    wall_s : wall-clock seconds by phase, for timing.json only
    """
    frames: dict[str, pl.DataFrame] = {name: getattr(result, name) for name in _FRAMES}
    files = {f"{name}.parquet": _parquet(frame) for name, frame in frames.items()}
    for name in _OPTIONAL:
        if (frame := getattr(result, name)) is not None:
            files[f"{name}.parquet"] = _parquet(frame)
    files[SUMMARY] = json_bytes(result.summary.to_dict())
    complete = {
        "format": RESULT_FORMAT,
        **manifest,
        "loop": result.loop,
        "loop_reason": result.loop_reason,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }
    files[TIMING] = checksummed_json(
        {"content_hash": manifest["content_hash"], **_timing(result, wall_s or {})}
    )
    files[MANIFEST] = checksummed_json(complete)
    return files


def read_manifest(directory: Path) -> dict[str, object]:
    """Read manifest.json and check it against its own SHA-256."""

    def check_format(content: Mapping[str, object]) -> None:
        if not {"content_hash", "files", "format"} <= content.keys():
            raise InvalidInputError(f"{directory}: not a result of ray-sim: {MANIFEST} lacks its keys")
        if content["format"] not in _READABLE:
            raise InvalidInputError(
                f"{directory / MANIFEST}: result format {content['format']}, this version reads "
                f"{' and '.join(map(str, _READABLE))}; run the scenario again"
            )

    return read_checked_json(directory / MANIFEST, f"{directory}: not a result of ray-sim", check_format)


def read_result(directory: Path) -> RunResult:
    """Read a run from its files, after checking each against the manifest's SHA-256."""
    manifest = read_manifest(directory)
    frames = {name: _read_frame(directory, name, manifest["files"]) for name in _FRAMES}
    summary = _checked_content(directory, SUMMARY, manifest["files"])
    reason = manifest["loop_reason"]
    return RunResult(
        jobs=frames["jobs"],
        events=_as_events(frames["events"]),
        timeline=frames["timeline"],
        summary=summary_from_json(summary, str(directory / SUMMARY)),
        loop=str(manifest["loop"]),
        loop_reason=None if reason is None else str(reason),
        stops=_read_optional(directory, "stops", manifest["files"]),
        teams=_read_optional(directory, "teams", manifest["files"]),
    )


def _as_events(frame: pl.DataFrame) -> pl.DataFrame:
    """Events with the types of `EVENT_SCHEMA`, and with the names that only some kinds of jobs have."""
    common = EVENT_SCHEMA["event"]
    assert isinstance(common, pl.Enum)
    known = common.categories.to_list()
    own = [name for name in frame["event"].unique(maintain_order=True).to_list() if name not in known]
    schema = EVENT_SCHEMA | {"event": pl.Enum([*known, *own])}
    if "devices" in frame.columns:
        schema |= {"devices": pl.String()}
    return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _read_optional(directory: Path, name: str, digests: object) -> pl.DataFrame | None:
    listed = isinstance(digests, dict) and f"{name}.parquet" in digests
    return _read_frame(directory, name, digests) if listed else None


def read_table(directory: Path, name: str) -> pl.DataFrame:
    """Read one table, such as ``jobs`` or ``events``, after checking its SHA-256.

    Raises
    ------
    InvalidInputError : the result has no such table, or it has changed
    """
    return _read_frame(directory, name, read_manifest(directory)["files"])


def read_teams(directory: Path) -> pl.DataFrame:
    """Read teams.parquet, after checking its SHA-256.

    Raises
    ------
    InvalidInputError : no run, a damaged one, or one on a cluster without teams
    """
    table = _read_optional(directory, "teams", read_manifest(directory)["files"])
    if table is None:
        raise InvalidInputError(f"{directory}: its cluster has no teams; declare some in the cluster file")
    return table


def check_result(directory: Path) -> None:
    """Raise `InvalidInputError` if a file of the result has changed since it was written."""
    manifest = read_manifest(directory)
    for name in _CHECKED:
        _checked_content(directory, name, manifest["files"])
    for name in _OPTIONAL:
        _read_optional(directory, name, manifest["files"])
    timing = read_timing(directory)
    if timing.get("content_hash") != manifest["content_hash"]:
        raise InvalidInputError(f"{directory / TIMING}: of another run; {REMEDY}")


def read_timing(directory: Path) -> Mapping[str, object]:
    """Read the wall-clock figures of a result, after checking their SHA-256."""
    return read_checked_json(directory / TIMING, f"{directory / TIMING}: damaged")


def read_summary(directory: Path) -> Summary:
    """Read summary.json, after checking it against the manifest's SHA-256."""
    content = _checked_content(directory, SUMMARY, read_manifest(directory)["files"])
    return summary_from_json(content, str(directory / SUMMARY))


def summary_from_json(content: bytes, source: str, kinds: Sequence[type[KindFigures]] = FIGURES) -> Summary:
    """Parse the bytes of summary.json; `source` names them in errors, `kinds` are the classes of figures."""
    try:
        read = _JSON_ADAPTER.validate_json(content)
        found = [name for name in all_figures({}, kinds) if read.get(name) is not None]
        kind = class_of(found, kinds)
        if kind is None:
            raise InvalidInputError(f"{source}: damaged: no kind of job has all of {', '.join(found)}")
        figures = TypeAdapter(kind).validate_python(read)
        return replace(_SUMMARY_ADAPTER.validate_python(read), figures=figures)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: damaged: {error.errors()[0]['msg']}") from error


def json_bytes(content: object) -> bytes:
    """Encode as readable JSON with sorted keys and a final newline; nan and infinity are refused."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def checksummed_json(content: Mapping[str, object]) -> bytes:
    """Encode the content with one more key: the SHA-256 of its `json_bytes` without that key."""
    body = {key: value for key, value in content.items() if key != _CHECKSUM}
    return json_bytes({**body, _CHECKSUM: hashlib.sha256(json_bytes(body)).hexdigest()})


def read_checked_json(
    path: Path,
    complaint: str,
    check_format: Callable[[Mapping[str, object]], None] = lambda content: None,
    remedy: str = REMEDY,
) -> dict[str, object]:
    """Read a file that `checksummed_json` made, and check that no byte has changed.

    Parameters
    ----------
    complaint : beginning of the error if the file is missing
    check_format : raises for a format that this version does not read, as its checksum may differ
    remedy : end of the error if the file is damaged
    """
    require_regular(path, InvalidInputError)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{complaint}: {path.name}: {error.strerror}") from error
    try:
        content: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{complaint}: {path.name} is not JSON; {remedy}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{complaint}: {path.name} is not a JSON object; {remedy}")
    check_format(content)
    try:
        unchanged = checksummed_json(content) == raw
    except (ValueError, RecursionError):  # a lone surrogate, nan
        unchanged = False
    if not unchanged:
        raise ChangedFileError(path, remedy)
    return content


def _read_frame(directory: Path, name: str, digests: object) -> pl.DataFrame:
    frame = pl.read_parquet(io.BytesIO(_checked_content(directory, f"{name}.parquet", digests)))
    if name != "jobs":
        return frame
    absent = [column for column in JOB_SCHEMA if column not in frame.columns]  # written before they existed
    return frame.with_columns(pl.lit(None, JOB_SCHEMA[each]).alias(each) for each in absent).select(
        *JOB_SCHEMA, pl.exclude(JOB_SCHEMA)
    )


def _checked_content(directory: Path, name: str, digests: object) -> bytes:
    return unchanged_bytes(directory / name, digests.get(name) if isinstance(digests, dict) else None)


def unchanged_bytes(path: Path, sha256: object, remedy: str = REMEDY) -> bytes:
    """Read a file whose SHA-256 is known."""
    require_regular(path, InvalidInputError)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ChangedFileError(path, remedy)
    return content


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    # Files hold strings: an Enum saves memory in the process, and its categories depend on the kind of job.
    frame.with_columns(pl.col(pl.Enum).cast(pl.String)).write_parquet(buffer)
    return buffer.getvalue()


def _timing(result: RunResult, wall_s: Mapping[str, float]) -> dict[str, object]:
    decisions = np.asarray(result.decision_seconds, dtype=np.float64)
    quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    figures = (
        {name: float(np.quantile(decisions, q)) for name, q in quantiles.items()} if len(decisions) else {}
    )
    return {
        "decisions": len(decisions),
        "decision_s": {**figures, "total": float(decisions.sum())},
        "wall_s": dict(wall_s),
        "recoveries": result.recoveries,
    }
