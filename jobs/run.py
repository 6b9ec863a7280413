"""One run on a Ray cluster: what `ray submit` and `ray job submit` are given.

    ray submit jobs/cluster.yaml jobs/run.py --workload philly.parquet --cluster philly --policy las
    ray job submit --working-dir . -- python jobs/run.py scenario.yaml -o /shared/runs/las

Takes the options of `ray-sim run`. See docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    sys.exit(main(__file__, ["run", *sys.argv[1:]]))
