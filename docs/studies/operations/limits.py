"""Give jobs like Philly's limits as users set them: limits.csv; tight.csv: 1.2 times the run time.

ray-sim synth philly -n 3000 --load-scale 0.3 --seed 7 -o drawn.parquet
python limits.py
ray-sim convert csv limits.csv -o limits.parquet
ray-sim convert csv tight.csv -o tight.parquet
"""

import numpy as np
import polars as pl

LIMIT_OVER_RUN_TIME = [0.8, 1.2, 2, 5, 20]
SHARES = [0.1, 0.2, 0.3, 0.3, 0.1]
"""A tenth of the jobs would run longer than their limit."""

jobs = pl.read_parquet("drawn.parquet").select("job_id", "submit_s", "num_gpus", "duration_s", "vc")
drawn = np.random.default_rng(7).choice(LIMIT_OVER_RUN_TIME, len(jobs), p=SHARES)
for name, factor in (("limits", drawn), ("tight", 1.2)):
    limit_s = np.ceil(jobs["duration_s"].to_numpy() * factor / 60) * 60
    jobs.with_columns(time_limit_s=pl.Series(limit_s)).write_csv(f"{name}.csv")
