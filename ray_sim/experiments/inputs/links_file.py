"""Bandwidth of network interfaces over time: a CSV of changes, read from a file or drawn at random."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ray_sim.experiments.inputs.server_changes import Spans, read_changes, refuse_any, write_changes
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.links import LinkChanges
from ray_sim.model.text import number_of
from workloads.sources import Source

LEAST_BANDWIDTH = 1e-6
"""Least share of the nominal bandwidth; a server without any is one that fails, see ``-w availability=``."""


def read_links(path: Source, cluster: Cluster) -> LinkChanges:
    """Read changes from a CSV file, by path or URL, with the columns time_s, server and bandwidth.

    The bandwidth is the share of the nominal one that the server's interface has from then on.

    Raises
    ------
    InvalidClusterError : the file cannot be read or breaks these rules; problems are listed by line
    """
    problems: list[str] = []
    rows = read_changes(path, cluster, "bandwidth", _share, problems)
    refuse_any(problems, path)
    return LinkChanges(
        time_us=np.array([time_us for _, time_us, _, _ in rows], dtype=np.int64),
        server=np.array([server for _, _, server, _ in rows], dtype=np.int64),
        bandwidth=np.array([share for _, _, _, share in rows], dtype=np.float64),
    )


def write_links(path: Path, cluster: Cluster, links: LinkChanges) -> None:
    """Write changes as a CSV file for `read_links`; the file appears whole or not at all."""
    write_changes(path, cluster, "bandwidth", links.time_us, links.server, links.bandwidth.tolist())


def draw_links(cluster: Cluster, spans: Spans, bandwidth: float, seed: int) -> LinkChanges:
    """Draw random spans in which a server's interface has this share of its bandwidth.

    Raises
    ------
    InvalidScenarioError : a number is out of range
    """
    if not LEAST_BANDWIDTH <= bandwidth <= 1:
        raise InvalidScenarioError(f"--bandwidth: must be from {LEAST_BANDWIDTH:g} to 1, got {bandwidth:g}")
    drawn = spans.draw(len(cluster), seed, "slow-links", ("every-s", "length-s"))
    return LinkChanges(drawn.time_us, drawn.server, np.where(drawn.over, 1.0, bandwidth))


def _share(text: str) -> float:
    try:
        share = number_of(text)
    except ValueError:
        share = math.nan
    if not LEAST_BANDWIDTH <= share <= 1:
        raise ValueError(f"must be a number from {LEAST_BANDWIDTH:g} to 1, got '{text}'")
    return share
