"""Write alike-C.csv for C = 10, 100, 1000, 10000: 12 C jobs of one GPU that ask for about twice C GPUs.

Run times are on a grid whose step is that of the announced points of few-types.yaml. So a real run time is as
likely to be each of the announced points as the statement says, but for the shortest and longest ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

STEP = 0.25 * 3**0.5
"""Distance of the points of the logarithm, for an error of 0.25 and three points."""

JOBS_PER_GPU, LOAD = 12, 2


def main() -> None:
    """Write the files into the working directory."""
    durations_s = np.round(3600 * np.exp(STEP * np.arange(-4, 5)), 3)
    for gpus in (10, 100, 1000, 10000):
        random = np.random.default_rng(gpus)
        n = JOBS_PER_GPU * gpus
        duration_s = random.choice(durations_s, n)
        submit_s = np.sort(random.uniform(0, JOBS_PER_GPU * durations_s.mean() / LOAD, n)).round(3)
        rows = [f"{at},1,{lasts}\n" for at, lasts in zip(submit_s.tolist(), duration_s.tolist(), strict=True)]
        Path(f"alike-{gpus}.csv").write_text("submit_s,num_gpus,duration_s\n" + "".join(rows))


if __name__ == "__main__":
    main()
