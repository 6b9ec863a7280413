"""Run a sweep from inside a Ray cluster: what `ray submit` and `ray job submit` are given.

    ray submit cluster.yaml jobs/sweep.py jobs/demo.yaml
    ray job submit --working-dir . -- python jobs/sweep.py jobs/demo.yaml

Takes the options of `ray-sim sweep`, and joins the cluster it is on unless told otherwise.
"""

from __future__ import annotations

import sys

from ray_sim.cli import main

if __name__ == "__main__":
    given = sys.argv[1:]
    joined = [] if any(option.startswith("--address") for option in given) else ["--address", "auto"]
    sys.exit(main(["sweep", *given, *joined]))
