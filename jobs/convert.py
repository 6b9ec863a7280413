"""Entry script for a conversion on a Ray cluster, for `ray submit` and `ray job submit`.

    ray job submit --working-dir . -- python jobs/convert.py k8s-pods /shared/dumps -o /shared/pods.parquet

Takes the options of `ray-sim convert`, and opens the files by tasks of the cluster it runs on. See
docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    sys.exit(main(__file__, ["convert", "--address", "auto", *sys.argv[1:]]))  # the last address counts
