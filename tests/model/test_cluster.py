"""Clusters: their servers in another order."""

from __future__ import annotations

import numpy as np

from ray_sim.model.cluster import Availability, Cluster, ServerKind


def test_servers_in_another_order_keep_their_facts_and_changes() -> None:
    cluster = Cluster(
        name="c",
        server_names=("a", "b", "c"),
        resources=("gpu", "cpu", "memory_gib"),  # as many as servers
        capacity=np.array([[1, 10, 100], [2, 20, 200], [3, 30, 300]]),
        speed=np.array([1.0, 2.0, 3.0]),
        vc=("x", None, "y"),
        kind=(ServerKind.EDGE, ServerKind.CLOUD, ServerKind.PLAIN),
        gpu_type=("A", "B", None),
        availability=Availability(np.array([5, 6, 7]), np.array([0, 2, 0]), np.array([False, False, True])),
        sockets=np.array([1, 2, 4]),
    )
    turned = cluster.in_order(np.array([2, 0, 1]))
    assert turned.server_names == ("c", "a", "b")
    assert turned.capacity.tolist() == [[3, 30, 300], [1, 10, 100], [2, 20, 200]]
    assert (turned.speed.tolist(), turned.vc, turned.gpu_type) == (
        [3, 1, 2],
        ("y", "x", None),
        (None, "A", "B"),
    )
    assert turned.kind == (ServerKind.PLAIN, ServerKind.EDGE, ServerKind.CLOUD)
    assert turned.resources == cluster.resources
    assert turned.sockets is not None
    assert turned.sockets.tolist() == [4, 1, 2]
    # Server a, whose changes are at 5 and 7, is number 1 now, and c is 0.
    assert turned.availability is not None
    assert turned.availability.server.tolist() == [1, 0, 1]
    assert turned.workers is None
