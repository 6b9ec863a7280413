"""Provenance of a workload, stored in the metadata of its Parquet file."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, JsonValue, SerializerFunctionWrapHandler, model_serializer

from workloads.files import sha256
from workloads.schema import SCHEMA_VERSION
from workloads.sources import Source


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceFile(_Record):
    """Source file of rows, by name and hash."""

    name: str
    """Name without the folders above the trace, so that they do not change the workload's bytes."""
    sha256: str

    @classmethod
    def of(cls, path: Source, name: str) -> SourceFile:
        """The record of a file that exists."""
        return cls(name=name, sha256=sha256(path))


class Counts(_Record):
    """Row counts: read = kept + all rejected + all left out + outside the window."""

    read: int
    kept: int
    rejected: dict[str, int] = {}
    """Rows by reason."""
    left_out: dict[str, int] = {}
    """Rows that are no jobs, by the name of the mapping's condition."""
    outside_window: int = 0
    """Sound rows outside the requested window."""

    @property
    def text(self) -> str:
        """Rows read, kept, and without a job by reason, such as ``3 read; 2 kept; 1 negative_duration_s``."""
        counts = {"read": self.read, "kept": self.kept, "outside the window": self.outside_window}
        counts |= {**self.left_out, **self.rejected}
        return "; ".join(f"{count:,} {what}" for what, count in counts.items() if count)

    @model_serializer(mode="wrap")
    def _without_empty(self, write: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Files of formats that leave no rows out have no entry for it."""
        entries: dict[str, JsonValue] = write(self)
        return {name: entry for name, entry in entries.items() if name != "left_out" or entry}


class Provenance(_Record):
    """Everything needed to make a workload again."""

    schema_version: str = SCHEMA_VERSION
    sources: tuple[SourceFile, ...] = ()
    converter: str
    converter_version: str
    options: dict[str, JsonValue] = {}
    seed: int | None = None
    """Null where nothing was drawn."""
    counts: Counts
    notes: dict[str, JsonValue] = {}
    """Facts about the rows, e.g. ``epoch_utc``, the instant of submit_s 0."""

    @property
    def epoch_utc(self) -> datetime | None:
        """Instant of submit_s 0; None for a workload without dates."""
        try:
            epoch = datetime.fromisoformat(str(self.notes.get("epoch_utc")))
        except ValueError:
            return None
        return epoch.astimezone(UTC) if epoch.tzinfo else epoch.replace(tzinfo=UTC)

    @property
    def time_zone(self) -> ZoneInfo | None:
        """Zone of the trace's days; None where it is unknown."""
        try:
            return ZoneInfo(str(self.notes["time_zone"]))
        except (LookupError, ValueError, OSError):
            return None

    @property
    def clock_notes(self) -> dict[str, JsonValue]:
        """Notes about instants and days, which workloads made of this one keep."""
        return {key: self.notes[key] for key in ("epoch_utc", "time_zone") if key in self.notes}
