from __future__ import annotations

import json
from dataclasses import replace

from ray_sim.experiments.cluster_summary import describe_cluster
from ray_sim.experiments.inputs.cluster_file import load_cluster
from tests.worlds import DOWN, UP, availability, cluster_of


def test_rows_of_an_edge_cloud_cluster() -> None:
    assert describe_cluster(load_cluster("edge-cloud")).rows() == [
        ("cluster", "edge-cloud"),
        ("servers", "26"),
        ("total gpu", "186"),  # 4 * 4 + 3 * 6 + 3 * 8 + 16 * 8
        ("total cpu", "2,000"),  # 4 * 32 + 3 * 48 + 3 * 64 + 16 * 96
        ("total memory_gib", "14,144"),  # 4 * 128 + 3 * 192 + 3 * 256 + 16 * 768
        ("servers by GPUs", "8: 19, 6: 3, 4: 4"),
        ("servers by kind", "edge: 10, cloud: 16"),
        ("GPUs by type", "T4: 16, P100: 42, V100: 128"),
        ("speed", "0.4 to 1"),
    ]


def test_labels_that_no_server_has_are_left_out() -> None:
    labels = [label for label, _ in describe_cluster(load_cluster("toy")).rows()]
    assert labels == ["cluster", "servers", "total gpu", "servers by GPUs", "servers by kind", "speed"]


def test_the_dictionary_survives_json() -> None:
    facts = describe_cluster(load_cluster("philly-week-6vc")).to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["gpus_by_vc"] == {
        "11cb48": 16.0,
        "ee9e8c": 48.0,
        "6c71a0": 56.0,
        "2869ce": 88.0,
        "ed69ec": 8.0,
        "103959": 8.0,
    }


def test_servers_that_come_and_go_are_counted() -> None:
    # s0 fails and is repaired, s1 is added later, s2 is always there.
    changes = availability([(5.0, 0, DOWN), (6.0, 1, UP), (7.0, 0, UP)])
    rows = dict(describe_cluster(replace(cluster_of([1, 1, 1]), availability=changes)).rows())
    assert (rows["servers"], rows["servers that come and go"], rows["servers there at first"]) == (
        "3",
        "2",
        "2",
    )
