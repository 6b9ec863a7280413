"""`python -m ray_sim.cli`."""

from __future__ import annotations

import sys

from ray_sim.cli import process

sys.exit(process())
