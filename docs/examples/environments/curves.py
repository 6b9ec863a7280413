"""Draw the learning curves of both examples, from what train_queue.py, train_placement.py and rules.py print.

python curves.py queue.txt placement.txt rules.txt ../../pictures/learning_curves.svg
"""

import re
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

TITLES = {"queue": "Queue-v1, MaskablePPO", "placement": "Placement-v1, PPO of RLlib"}


def main(queue, placement, rules, picture):
    mpl.rcParams.update({"svg.hashsalt": "ray_sim", "font.size": 9})
    drawn = Figure(figsize=(9, 3.8), layout="constrained")
    measured = [line.split(maxsplit=2) for line in Path(rules).read_text(encoding="utf-8").splitlines()]
    panels = drawn.subplots(1, 2)
    for panel, example, source in zip(panels, TITLES, (queue, placement), strict=True):
        steps, jct_h = np.loadtxt(source).T
        panel.plot(steps, jct_h, color="black", label="agent")
        lines = [(float(value), name) for key, value, name in measured if key == example]
        for number, (value, name) in enumerate(sorted(lines, reverse=True)):
            panel.axhline(value, color=f"C{number}", linestyle="--", linewidth=1, label=name)
        panel.set(title=TITLES[example], xlabel="steps of training", yscale="log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}")
        panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    panels[0].set_ylabel("mean JCT of other jobs, h")
    drawn.savefig(picture, metadata={"Date": None})
    path = Path(picture)
    path.write_text(re.sub(r"[ \t]+\n", "\n", path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
