"""Write example.csv: the paper's example of jobs that need one round at an unknown time.

A job arrives at round k < X after its birth with probability 2^(k - X), k = 1 .. X - 1, else at X. Done in
round k it is worth 2^(X - k), so on demand it earns X - 1 + 2^(1 - X) on average, and each round of a
reservation earns 1. Of the jobs, exactly the shares of the probabilities arrive in each round.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

X = 10
ROUND_S = 600
BIRTHS_PER_ROUND = 4


def main() -> None:
    """Write the file into the working directory."""
    last = 2 ** (X - 1)
    times = [k for k in range(1, X) for _ in range(2 ** (k - 1))] + [X]
    assert len(times) == last
    random = np.random.default_rng(1)
    random.shuffle(times)
    points = [(k, 2.0 ** (k - X)) for k in range(1, X)] + [(X, 2.0 ** (1 - X))]
    outlook = " ".join(f"{k * ROUND_S}:{ROUND_S}:{probability}" for k, probability in points)
    value = "step " + " ".join(f"{2 ** (X - k)}@{(k + 1) * ROUND_S}" for k in range(1, X + 1))
    rows = ["submit_s,num_gpus,duration_s,birth_s,value,outlook"]
    for job, k in enumerate(times):
        birth_s = job // BIRTHS_PER_ROUND * ROUND_S
        rows.append(f"{birth_s + k * ROUND_S},1,{ROUND_S},{birth_s},{value},{outlook}")
    Path("example.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
