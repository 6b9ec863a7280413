"""`ray-sim interference`: how much the types of a profile slow each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_facts, print_json, print_rows, print_table
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidScenarioError

if TYPE_CHECKING:
    from ray_sim.model.interference import InterferenceProfile

MOST_JOBS = 4
"""Largest number of jobs on a server whose mean speed is printed."""

MOST_MIXES = 10**8
"""Largest number of mixes of types that a mean speed is over; beyond 100 types it is of fewer jobs."""

NOISE = 0.05
"""Default relative noise of measured slowdowns."""


def interference(
    profile: Annotated[str, Argument(help="Bundled interference profile, or its YAML file.")],
    sockets: Annotated[int, Option(min=1, help="Sockets for processors of the server.")] = 1,
    samples: Annotated[
        int | None,
        Option(min=1, max=10_000_000, help="Fit a prediction to this number of random co-locations."),
    ] = None,
    noise: Annotated[float, Option(help="Relative noise of the slowdowns of samples.")] = NOISE,
    seed: Annotated[int, Option(min=0, help="Seed of the samples.")] = 0,
    out: Annotated[Path | None, Option("-o", "--out", help="JSON file for what is fitted.")] = None,
    json_output: Json = False,
) -> None:
    """Print how much the types of an interference profile slow each other on one server.

    Each job has one worker and one parameter server. A row is the type that is slowed, a column the other.
    With --samples, fit the coefficients that lif_linear and lif_quad predict slowdowns by.

    Example: ray-sim interference harmony_types

    Example: ray-sim interference harmony_types --samples 2000 -o coefficients.json
    """
    from ray_sim.experiments.inputs.interference_file import load_interference
    from ray_sim.model.interference import mean_speed, pair_slowdowns

    if (samples is None) != (out is None):
        raise InvalidScenarioError(
            "--samples and -o go together: the one is fitted, the other gets the result"
        )
    read = load_interference(profile)
    if samples is not None and out is not None:
        facts = _fitted(profile, read, sockets, samples, noise, seed, out)
        print_facts(facts, as_json=json_output)
        return
    pairs = pair_slowdowns(read, sockets)
    speeds = {
        jobs: mean_speed(read, jobs, sockets)
        for jobs in range(1, MOST_JOBS + 1)
        if len(read.types) ** jobs <= MOST_MIXES
    }
    if json_output:
        names = {"profile": read.name, "channels": list(read.channels), "types": list(read.types)}
        print_json({**names, "sockets": sockets, "slowdowns": pairs.tolist(), "mean_speed": speeds})
        return
    print_rows([("profile", read.name), ("channels", ", ".join(read.channels)), ("sockets", sockets)])
    rows = [[name, *(f"{factor:.2f}" for factor in row)] for name, row in zip(read.types, pairs, strict=True)]
    print_table(["slowed", *read.types], rows, "slowdown of each type beside another")
    print_table(
        ["jobs on a server", "mean speed"],
        [[str(jobs), f"{speed:.3f}"] for jobs, speed in speeds.items()],
        "mean speed over all types, relative to a job alone",
    )


def _fitted(
    ref: str, profile: InterferenceProfile, sockets: int, samples: int, noise: float, seed: int, out: Path
) -> dict[str, object]:
    """Fit and write the coefficients; returns facts to print."""
    from ray_sim.experiments.interference_samples import (
        draw_samples,
        fit_errors,
        fit_slowdowns,
        write_coefficients,
    )

    drawn = draw_samples(profile, samples, seed, noise, sockets)
    fitted = fit_slowdowns(profile.types, drawn)
    errors = fit_errors(fitted, drawn)
    command = f"ray-sim interference {ref} --samples {samples} --seed {seed} --noise {noise:g}"
    command += f" --sockets {sockets} -o {out.name}"
    write_coefficients(out, fitted, {"command": command, "mean_relative_error": errors})
    drawn_by = {"sockets": sockets, "samples": samples, "noise": noise, "seed": seed}
    rounded = {f"mean relative error, {name}": round(error, 4) for name, error in errors.items()}
    return {"coefficients": str(out), "profile": profile.name, **drawn_by, **rounded}
