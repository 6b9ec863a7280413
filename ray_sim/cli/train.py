"""`ray-sim train`: train the network of a learned policy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from ray_sim.cli.console import announcer, print_json, print_rows, say
from ray_sim.cli.options import Json
from ray_sim.interruption import interruptible
from ray_sim.model.readable import duration

if TYPE_CHECKING:
    from ray_sim.learning.curves import Point


class Trainable(StrEnum):
    """Policies that can be trained."""

    HARMONY = "harmony"


def train(
    policy: Annotated[Trainable, Argument(help="Policy to train.")],
    file: Annotated[str, Argument(metavar="FILE.yaml", help="Plan of the training, by path or URL.")],
    out: Annotated[
        Path | None, Option("-o", "--out", help="Directory for the training [trainings/NAME].")
    ] = None,
    changes: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Entry of the plan, e.g. seed=1 or learning.critic=false; repeatable.",
        ),
    ] = None,
    actors: Annotated[
        int | None,
        Option(min=0, help="Actors that collect; 0 collects in this process, without Ray [cores]."),
    ] = None,
    address: Annotated[
        str, Option(help="local starts Ray; auto or ray://HOST:PORT join a running one.")
    ] = "local",
    resume: Annotated[bool, Option("--resume", help="Go on after the last round that is kept.")] = False,
    json_output: Json = False,
) -> None:
    """Train a policy network on Ray, and log its curves and checkpoint to MLflow.

    Needs PyTorch: pip install 'ray_sim[learn]'.

    Example: ray-sim train harmony train.yaml -o trained (in docs/examples/harmony)
    """
    from ray_sim.experiments.scenario import key_values
    from ray_sim.experiments.tracking.log import log_training
    from ray_sim.learning.train import run_training
    from ray_sim.learning.training_plan import read_plan
    from ray_sim.model.errors import RunFailedError

    announce = announcer(quiet=json_output)
    plan = read_plan(file, key_values(changes or (), "--set"))
    directory = out or Path("trainings") / plan.name
    with interruptible() as interruption:
        ended = run_training(
            plan,
            directory,
            command=shlex.join(
                ["ray-sim", "train", policy, file, *(f"--set={each}" for each in changes or ())]
            ),
            actors=actors,
            address=address,
            resume=resume,
            report=_reporter(plan.rounds, quiet=json_output),
            stop=interruption.asked,
            announce=announce,
        )
    tracking: dict[str, object] = {}
    failed = None
    try:
        logged = log_training(directory)
        tracking = {"tracking_uri": logged.tracking_uri, "serve": logged.serve}
    except RunFailedError as error:
        failed = str(error)
    facts = {**ended.to_dict(), **tracking}
    if json_output:
        print_json({**facts, "tracking_error": failed})
    else:
        print_rows((label, value) for label, value in facts.items() if value is not None)
    if failed is not None:
        say(f"error: {failed}")
    if ended.stopped:
        done = f"{ended.rounds} of {ended.planned} rounds"
        say(f"stopped after {done}; go on with the same command and --resume")
        raise Exit(interruption.exit_code)
    if failed is not None:
        raise Exit(1)


def _reporter(rounds: int, *, quiet: bool) -> Callable[[Point], None]:
    """Callback that writes a line for each round on standard error."""

    def report(point: Point) -> None:
        if quiet:
            return
        text = (
            f"round {point.round + 1} of {rounds}, {point.phase}: reward {point.reward:.3f}, "
            f"entropy {point.entropy:.3f}, loss {point.policy_loss:.3f} and {point.value_loss:.3f}"
        )
        if point.reward_model_error == point.reward_model_error:
            text += f", reward model {point.reward_model_error:.1%}"
        if point.validation_jct_s == point.validation_jct_s:
            text += f", validation JCT {duration(point.validation_jct_s)}"
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    return report
