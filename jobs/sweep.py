"""Entry script for a sweep on a Ray cluster, for `ray submit` and `ray job submit`.

    ray submit jobs/cluster.yaml jobs/sweep.py jobs/demo.yaml
    ray job submit --working-dir . -- python jobs/sweep.py jobs/demo.yaml -o /shared/results/demo

Takes the options of `ray-sim sweep`, and joins the cluster it runs on, unless --address names another. See
docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    sys.exit(main(__file__, ["sweep", "--address", "auto", *sys.argv[1:]]))  # the last address counts
