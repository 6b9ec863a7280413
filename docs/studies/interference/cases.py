"""Figure of the cases that motivate placement under interference, for the bundled profile harmony_types.

python docs/studies/interference/cases.py docs/pictures/interference_cases.svg
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from ray_sim.workloads.training.draws import Constant

from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.interference import InterferenceProfile, mean_speed, pair_slowdowns

STRENGTHS = {"harmony_types_weak": "half", "harmony_types": "as it is", "harmony_types_strong": "twice"}
MOST_JOBS = 4
MB_TO_MBIT = 8.0


def packed_over_apart(profile: InterferenceProfile) -> dict[str, float]:
    """Speed of two jobs of each type on one server, over the same with each task alone on a server.

    Each job has one worker and one parameter server, which exchange within the server or between two.
    """
    slowdown = pair_slowdowns(profile)
    ratio = {}
    for family in load_training_draws("harmony_types").families:
        given = {
            name: float(draw.value)
            for name, draw in family.columns.items()
            if isinstance(draw, Constant) and not isinstance(draw.value, str)
        }
        mbit = 2 * MB_TO_MBIT * given["gradient_mb"]
        training_s = given["batch"] * given["sample_s"]
        inside_s, apart_s = (
            mbit / given[bandwidth] for bandwidth in ("internal_bandwidth_mbps", "bandwidth_mbps")
        )
        at = profile.types.index(str(family.name))
        ratio[str(family.name)] = (training_s + apart_s) / ((training_s + inside_s) * slowdown[at, at])
    return ratio


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figure", type=Path)
    profile = load_interference("harmony_types")
    mpl.rcParams.update({"svg.hashsalt": "ray_sim", "font.size": 8})
    figure, (pairs, crowd, packing) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    shown = pairs.imshow(pair_slowdowns(profile), cmap="Greys", vmin=1.0)
    pairs.set_xticks(range(len(profile.types)), profile.types, rotation=90)
    pairs.set_yticks(range(len(profile.types)), profile.types)
    pairs.set_title("slowdown of a row beside a column")
    figure.colorbar(shown, ax=pairs)
    jobs = list(range(1, MOST_JOBS + 1))
    for name, label in STRENGTHS.items():
        strength = load_interference(name)
        crowd.plot(jobs, [mean_speed(strength, n) for n in jobs], marker="o", label=label)
    crowd.set_xticks(jobs)
    crowd.set(
        xlabel="jobs on a server",
        ylabel="mean speed",
        ylim=(0, 1.05),
        title="speed against jobs, by strength",
    )
    crowd.legend(frameon=False)
    ratios = packed_over_apart(profile)
    packing.barh(list(ratios), np.array(list(ratios.values())) - 1, left=1, color="0.5")
    packing.axvline(1, color="black", linewidth=0.8)
    packing.set(xlabel="speed packed / spread", title="two jobs of a type")
    path = parser.parse_args().figure
    figure.savefig(path, metadata={"Date": None})
    path.write_text(re.sub(r"[ \t]+\n", "\n", path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
