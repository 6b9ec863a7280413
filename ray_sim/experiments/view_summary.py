"""What each system can read of a workload, what of it the system ignores, and what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import polars as pl

from workloads.job_table import CHUNK, LOSS, STATEMENTS, TRAINING, UTILITY
from workloads.training.profile import PAIR_COLUMNS


@dataclass(frozen=True, slots=True)
class RecordView:
    """The part of a job record that a group of policies reads."""

    name: str
    policies: str
    columns: tuple[str, ...]
    """Columns that every job must have."""
    optional: tuple[str, ...]
    """Columns that the view also reads, where a job has them."""
    ignores: str
    """Facts of the record that it cannot express."""
    profile: str
    """Bundled profiles that fill its columns; empty for columns of the trace."""


VIEWS = (
    RecordView(
        "rigid",
        "fifo, sjf, srtf, las",
        ("num_gpus", "duration_s"),
        ("num_tasks",),
        "numbers of workers and parameter servers, losses, utilities, chunks, statements",
        "",
    ),
    RecordView(
        "placement",
        "drf, tetris, dorm",
        TRAINING,
        ("blocks",),
        "losses, utilities, chunks, uploads, statements",
        "common, optimus_nine_models, harmony_types or pd_ors",
    ),
    RecordView(
        "optimus",
        "optimus",
        (*TRAINING, *LOSS),
        ("blocks",),
        "utilities, chunks, uploads, statements",
        "common or optimus_nine_models",
    ),
    RecordView(
        "interference",
        "harmony, lif_linear, lif_quad, load_balance, tetris_packing",
        (*TRAINING, "model"),
        (),
        "losses, utilities, chunks, uploads, statements",
        "common or harmony_types",
    ),
    RecordView(
        "pd_ors",
        "pd_ors, oasis",
        (*TRAINING, *UTILITY),
        PAIR_COLUMNS,
        "the curve of losses, blocks, chunks, uploads, statements; oasis also tasks of a job on one server",
        "common or pd_ors",
    ),
    RecordView(
        "a_online",
        "a_online, chunk_earliest_finish, chunk_las, chunk_srpt, chunk_fifo, chunk_spt",
        CHUNK,
        ("chunk_bandwidth_mbps", "utility_due_s"),
        "several workers on one chunk, losses, blocks, worths, statements",
        "common or jsac_edge_cloud",
    ),
    RecordView(
        "announced",
        "posted_price, value_density, announced_fifo, reservation",
        ("num_gpus", "duration_s", *STATEMENTS),
        ("birth_s",),
        "workers, parameter servers and places, losses, chunks, resources other than GPUs",
        "common or announced",
    ),
)
"""In the order of docs/training.md, "One record, all systems"."""


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """A view of one workload."""

    view: RecordView
    missing: tuple[str, ...]
    """Columns that are empty for some job."""

    def text(self) -> str:
        """One line for the printed table."""
        state = "complete"
        if self.missing:
            state = f"lacks {', '.join(self.missing)}; filled by --profile {self.view.profile}"
        return f"{state}; for {self.view.policies}; ignores {self.view.ignores}"

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**asdict(self.view), "missing": list(self.missing)}


def describe_views(frame: pl.DataFrame) -> list[ViewSummary]:
    """What each view finds in the jobs of a frame with all columns of the schema."""
    empty = {name for name in frame.columns if frame[name].null_count()}
    return [ViewSummary(view, tuple(name for name in view.columns if name in empty)) for view in VIEWS]
