"""Train the networks of the study, each with `ray-sim train harmony`; what is done is not done again.

    python trainings.py [SETTING ...]

Run it in this folder. Directories are trained/SETTING-SEED.
"""

from __future__ import annotations

import subprocess
import sys

PLAN = "../../examples/harmony/default.yaml"
MAIN_SEEDS, SEEDS = range(5), range(3)

SHORT = 24
"""Online rounds of all but the main trainings."""

SETTINGS: dict[str, dict[str, object]] = {
    "short": {},
    "from-scratch": {"phases.imitation": 0, "phases.online": 32},
    "imitation": {"phases.online": 0},
    "modelled": {"phases.online": 0, "phases.offline": 24},
    "no-critic": {"learning.critic": "false", "learning.advantage": "return"},
    "own-job-sets": {"collecting.lanes_per_set": 1},
    "exploration": {"learning.exploration": 0.4},
    "entropy-0": {"learning.entropy": 0},
    "replay": {"learning.buffer": 32768},
    "no-importance": {"learning.importance": "none"},
    "progress": {"learning.reward": "progress"},
    "dense": {"learning.form": "dense"},
    "five-models": {
        "workload.synth.profile": "five_models.yaml",
        "models": ["resnet-50", "resnext-110", "inception-bn", "dssm", "wlm"],
    },
    "hidden-1": {"learning.hidden": [64]},
    "hidden-3": {"learning.hidden": [64, 64, 64]},
    "neurons-16": {"learning.hidden": [16, 16]},
    "neurons-128": {"learning.hidden": [128, 128]},
    "as-published": {
        "phases.imitation": 0,
        "phases.online": 32,
        "collecting.lanes_per_set": 1,
        "learning.form": "dense",
        "learning.reward": "progress",
        "learning.advantage": "return",
        "learning.discount": 0.9,
        "learning.exploration": 0.4,
        "learning.entropy": 0.1,
        "learning.importance": "none",
        "learning.learning_rate": 0.0001,
    },
}
"""Changes of the plan, beside `SHORT`."""


def changes_of(setting: str, seed: int) -> dict[str, str]:
    """Entries of the plan that a training changes."""
    changed: dict[str, object] = {"seed": seed}
    if setting != "main":
        changed |= {"phases.online": SHORT} | SETTINGS[setting]
    return {key: str(value) for key, value in changed.items()}


def train(setting: str, seed: int) -> None:
    """Train one network, or what is left of it."""
    command = [sys.executable, "-m", "ray_sim.cli", "train", "harmony", PLAN, "--actors", "0", "--resume"]
    options = [f"--set={key}={value}" for key, value in changes_of(setting, seed).items()]
    subprocess.run([*command, "-o", f"trained/{setting}-{seed}", *options], check=True)


def main() -> None:
    """Train all networks of the settings named, or of all."""
    for setting in sys.argv[1:] or ["main", *SETTINGS]:
        for seed in MAIN_SEEDS if setting == "main" else SEEDS:
            train(setting, seed)


if __name__ == "__main__":
    main()
