"""Writer of jobs with measured speeds in the raw forms of Gavel's traces."""

from __future__ import annotations

import polars as pl

from ray_sim.model.streams import Streams, text_entities
from workloads.synthetic.synth import synth
from workloads.training.measured import draw_models
from workloads.training.speed_tables import load_speeds

SLOS = (1.2, 2.0, 10.0, -1.0)
"""Deadlines as multiples of the run time, equally likely; below 0 is none."""


def gavel_text(frame: pl.DataFrame, *, old: bool = False) -> str:
    """Jobs with model and steps, a line each; with 7 fields if ``old``, else 10.

    Parameters
    ----------
    frame : columns of `SCHEMA`
    """
    batch = pl.format(" (batch size {})", "batch").fill_null("")
    steps, gpus = pl.col("steps").cast(pl.String), pl.col("num_gpus").cast(pl.Int64).cast(pl.String)
    slo = (pl.col("utility_due_s") / pl.col("duration_s")).fill_null(-1.0).round(6).cast(pl.String)
    job_type, command, flag = pl.col("model") + batch, pl.lit("python3 main.py"), pl.lit("--steps")
    submit_s = pl.col("submit_s").cast(pl.String)
    last = (submit_s, gpus) if old else (gpus, pl.col("weight").fill_null(1).cast(pl.String), slo, submit_s)
    folder = () if old else (pl.lit("models"),)
    fields = (job_type, command, *folder, flag, pl.lit("1"), steps, *last)
    return "".join(f"{line}\n" for line in frame.select(pl.concat_str(fields, separator="\t")).to_series())


def sample_frame(jobs: int = 60, seed: int = 1) -> pl.DataFrame:
    """Jobs of `synth philly` with Gavel's models; one in five has weight 5."""
    drawn, _ = draw_models(synth("philly", 2 * jobs, seed=seed)[0], load_speeds(), seed)
    frame = drawn.filter(pl.col("steps").is_not_null()).head(jobs)
    names = text_entities(frame["job_id"])
    weight, slo = (Streams(seed).uniforms(f"gavel {what}", names) for what in ("weight", "slo"))
    chosen = pl.Series([SLOS[int(each * len(SLOS))] for each in slo])
    return frame.with_columns(
        weight=pl.Series(weight < 0.2).replace_strict({True: 5.0, False: 1.0}),
        utility_due_s=pl.when(chosen > 0).then(chosen * pl.col("duration_s")),
    )


def sample_text() -> str:
    """The bundled sample: 60 jobs, and one on 16 GPUs, on which no speed was measured."""
    frame = sample_frame()
    return gavel_text(pl.concat([frame, frame[-1].with_columns(num_gpus=16.0)]))
