"""Entry script for one run on a Ray cluster, for `ray submit` and `ray job submit`.

    ray submit jobs/cluster.yaml jobs/run.py --workload philly.parquet --cluster philly --policy las
    ray job submit --working-dir . -- python jobs/run.py scenario.yaml -o /shared/runs/las

Takes the options of `ray-sim run`; with `--fleet actors --sites N` the run itself is spread over the cluster
it is on. See docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    sys.exit(main(__file__, ["run", "--address", "auto", *sys.argv[1:]]))  # the last address counts
