"""Write the jobs of the study: single.csv, to which workloads are fitted; due.csv, four days with deadlines.

python jobs.py
ray-sim convert csv single.csv -o single.parquet
ray-sim convert csv due.csv -o due.parquet

All have one GPU. Run times on V100 are log-uniform from 10^1.5 to 10^3 minutes: 80 % of the jobs of the
paper's generated traces are (OSDI 2020, section 7.1). One job comes per hour, so that `load_scale` is the
number of jobs per hour.
"""

import random
from pathlib import Path

draw = random.Random(7)


def run_time_s(quantile: float) -> float:
    """Seconds on V100."""
    return round(60 * 10 ** (1.5 + 1.5 * quantile), 3)


with Path("single.csv").open("w") as file:
    print("job_id,submit_s,duration_s,num_gpus", file=file)
    for k in range(101):
        print(k, 3600 * k, run_time_s(k / 100), 1, sep=",", file=file)

with Path("due.csv").open("w") as file:
    print("job_id,submit_s,duration_s,num_gpus,utility_due_s", file=file)
    for k in range(96):
        duration_s = run_time_s(draw.random())
        due_s = round(draw.choice([1.2, 2.0, 10.0]) * duration_s, 3)
        print(k, 3600 * k, duration_s, 1, due_s, sep=",", file=file)
