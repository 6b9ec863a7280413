"""Entry script for the training of harmony on a Ray cluster, for `ray submit` and `ray job submit`.

    ray submit jobs/cluster.yaml jobs/train_harmony.py docs/examples/harmony/train.yaml -o trained
    ray job submit --working-dir . -- python jobs/train_harmony.py plan.yaml -o /shared/trained

Takes the options of `ray-sim train harmony`, and joins the cluster it runs on, unless --address names
another. See docs/cluster.md.
"""

import sys

from ray_sim.job import main

if __name__ == "__main__":
    # The last address counts.
    sys.exit(main(__file__, ["train", "harmony", "--address", "auto", *sys.argv[1:]]))
