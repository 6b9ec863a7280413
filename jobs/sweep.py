"""A sweep on a Ray cluster: what `ray submit` and `ray job submit` are given.

    ray submit jobs/cluster.yaml jobs/sweep.py jobs/demo.yaml
    ray job submit --working-dir . -- python jobs/sweep.py jobs/demo.yaml -o /shared/results/demo

Takes the options of `ray-sim sweep`, and joins the cluster it is on unless told otherwise. See
docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    sys.exit(main(__file__, ["sweep", "--address", "auto", *sys.argv[1:]]))  # the last address counts
