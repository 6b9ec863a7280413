"""Cluster files: what a description becomes, the bundled clusters, and how a file is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ray_sim.experiments.cluster_summary import describe_cluster
from ray_sim.experiments.inputs.cluster_file import bundled_clusters, load_cluster, with_counts
from ray_sim.model.cluster import UNLIMITED_MIB, ServerKind
from ray_sim.model.errors import InvalidClusterError, UnknownNameError
from tests.cluster_files import load_text, problems
from tests.conftest import REPOSITORY
from tests.page_commands import files_of

DOCUMENTATION = REPOSITORY / "docs" / "clusters.md"


# --- what a description says


def test_a_full_description_becomes_arrays_in_its_order(tmp_path: Path) -> None:
    cluster = load_text(
        tmp_path,
        """
        name: mixed
        gpu_types:
          V100: {speed: 1.0}
          T4: {speed: 0.4}
        servers:
          - {name: edge, count: 2, gpus: 4, cpus: 16, memory_gib: 64, disk_gib: 100, gpu_type: T4, kind: edge}
          - name: big
            gpus: 8
            cpus: 96.5
            memory_gib: 512
            disk_gib: 0
            gpu_type: V100
            vc: "007"
            kind: cloud
        """,
    )
    assert cluster.name == "mixed"
    assert cluster.server_names == ("edge-0", "edge-1", "big")
    assert cluster.resources == ("gpu", "cpu", "memory_gib", "disk_gib")
    edge = [4 * 1000, 16 * 1000, 64 * 1024, 100 * 1024]
    big = [8 * 1000, 96_500, 512 * 1024, 0]
    assert cluster.capacity.dtype == np.int64
    assert cluster.capacity.tolist() == [edge, edge, big]
    assert cluster.speed.tolist() == [0.4, 0.4, 1.0]
    assert cluster.vc == (None, None, "007")
    assert cluster.kind == (ServerKind.EDGE, ServerKind.EDGE, ServerKind.CLOUD)
    assert cluster.gpu_type == ("T4", "T4", "V100")


def test_a_fraction_of_a_gpu_rounds_down_to_milli_gpu(tmp_path: Path) -> None:
    # 0.0019 GPU is 1.9 milli-GPU, and a server cannot give the tenths; 0.3 is exactly 300.
    cluster = load_text(
        tmp_path, "name: f\nservers: [{name: a, gpus: 0.0019}, {name: b, gpus: 0.3}, {name: c, gpus: 2.5}]"
    )
    assert cluster.capacity.tolist() == [[1], [300], [2500]]


def test_gpus_are_a_resource_even_where_no_server_has_one(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, "name: cpus\nservers: [{name: a, gpus: 0, cpus: 4}]")
    assert cluster.resources == ("gpu", "cpu")
    assert cluster.capacity.tolist() == [[0, 4000]]


def test_a_server_has_a_worker_and_a_parameter_server_per_gpu_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    servers = "[{name: a, gpus: 2.5, workers: 6}, {name: b, gpus: 3, ps: 0}, {name: c, gpus: 8, kind: cloud}]"
    cluster = load_text(tmp_path, f"name: slots\nservers: {servers}")
    assert cluster.worker_slots.tolist() == [6, 3, 0]
    assert cluster.ps_slots.tolist() == [2, 0, 0]
    assert ("worker slots", "9") in describe_cluster(cluster).rows()
    bare = load_text(tmp_path, "name: bare\nservers: [{name: a, gpus: 2.5}]")
    assert (bare.workers, bare.worker_slots.tolist(), bare.ps_slots.tolist()) == (None, [2], [2])


def test_workers_and_parameter_servers_have_no_limit_of_memory_unless_their_server_says_so(
    tmp_path: Path,
) -> None:
    # 7.9999 GiB are 8,191.9 MiB, of which nobody can have the tenths.
    servers = "[{name: a, gpus: 1, worker_memory_gib: 7.9999}, {name: b, gpus: 1, kind: cloud}]"
    cluster = load_text(tmp_path, f"name: small\nservers: {servers}")
    assert cluster.worker_memory is not None
    assert cluster.worker_memory.tolist() == [8191, UNLIMITED_MIB]
    assert cluster.ps_memory is None
    assert ("servers by GiB per worker", "unlimited: 1, 7.999023438: 1") in describe_cluster(cluster).rows()
    assert problems(tmp_path, "name: c\nservers: [{name: c, gpus: 8, ps_memory_gib: -1}]") == [
        "servers[0].ps_memory_gib: must be >= 0, got -1"
    ]


def test_a_cloud_does_not_count_its_slots(tmp_path: Path) -> None:
    assert problems(tmp_path, "name: c\nservers: [{name: c, gpus: 8, kind: cloud, workers: 4, ps: 0}]") == [
        "servers[0].workers: a cloud offers an unlimited number; leave it out",
        "servers[0].ps: a cloud offers an unlimited number; leave it out",
    ]


def test_a_csv_list_says_the_same_as_yaml(tmp_path: Path) -> None:
    from_csv = load_text(
        tmp_path,
        "name,gpus,count,memory_gib,gpu_type,speed,vc,kind\n"
        "edge,4,2,64,T4,0.4,,edge\n"
        "\n"
        "big, 8 ,,512,V100,,103959,\n",
        "mixed.csv",
    )
    from_yaml = load_text(
        tmp_path,
        """
        name: mixed
        gpu_types: {T4: {speed: 0.4}, V100: {}}
        servers:
          - {name: edge, count: 2, gpus: 4, memory_gib: 64, gpu_type: T4, kind: edge}
          - {name: big, gpus: 8, memory_gib: 512, gpu_type: V100, vc: "103959"}
        """,
    )
    for field in ("name", "server_names", "resources", "vc", "kind", "gpu_type"):
        assert getattr(from_csv, field) == getattr(from_yaml, field)
    np.testing.assert_array_equal(from_csv.capacity, from_yaml.capacity)
    np.testing.assert_array_equal(from_csv.speed, from_yaml.speed)


# --- what is bundled


BUNDLED = {
    "arena-edge-cloud": (12, 32 + 32),
    "arena-roomy": (16, 128),
    "arena-scarce": (8, 64),
    # 4 * 4 + 3 * 6 + 3 * 8 at the edge, 16 * 8 in the cloud.
    "edge-cloud": (26, 58 + 128),
    "gavel-12-12-12": (36, 36),
    "gavel-2-2-2": (6, 6),
    "gavel-4-4-4": (12, 12),
    # 264 servers of 8, 271 of 4, 1 of 3, 3 of 2 and 13 without: 2112 + 1084 + 3 + 6.
    "philly": (552, 3205),
    "philly-week-6vc": (28, 224),
    "pool-368": (46, 368),
    "toy": (2, 8),
}
"""Servers and GPUs, as published."""


def test_bundled_clusters_have_their_published_totals() -> None:
    assert sorted(bundled_clusters()) == list(BUNDLED)
    for name, (servers, gpus) in BUNDLED.items():
        cluster = load_cluster(name)
        assert (cluster.name, len(cluster), len(set(cluster.server_names))) == (name, servers, servers)
        assert cluster.capacity[:, 0].sum() == gpus * 1000


def test_the_philly_week_has_six_virtual_clusters_in_order() -> None:
    cluster = load_cluster("philly-week-6vc")
    sizes = {"11cb48": 2, "ee9e8c": 6, "6c71a0": 7, "2869ce": 11, "ed69ec": 1, "103959": 1}
    assert cluster.vc == tuple(vc for vc, servers in sizes.items() for _ in range(servers))
    assert set(cluster.capacity[:, 0].tolist()) == {8000}


def test_philly_has_the_corrected_machine_list_s_shape(shared_data: Path) -> None:
    lines = (shared_data / "data/philly/revised_machine_list.csv").read_text().splitlines()[1:]
    listed = sorted(int(line.split(",")[2]) * 1000 for line in lines)
    assert sorted(load_cluster("philly").capacity[:, 0].tolist()) == listed


def test_the_edge_has_ten_servers_of_4_to_8_gpus_slower_than_the_cloud() -> None:
    cluster = load_cluster("edge-cloud")
    edge = np.array([kind is ServerKind.EDGE for kind in cluster.kind])
    assert edge.sum() == 10
    assert set(cluster.capacity[edge, 0].tolist()) == {4000, 6000, 8000}
    assert cluster.speed[edge].max() < cluster.speed[~edge].min() == 1.0


# --- the documentation


def documented(name: str) -> str:
    """File of this name on the page."""
    return files_of(DOCUMENTATION.read_text())[name]


def test_the_documented_yaml_example_loads(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, documented("my-cluster.yaml"))
    assert cluster.server_names == ("edge-0", "edge-1", "edge-2", "cloud")
    assert cluster.capacity[:, 0].tolist() == [4000, 4000, 4000, 64000]


def test_the_documented_csv_example_loads(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, documented("servers.csv"), "lab.csv")
    assert (cluster.name, cluster.server_names) == ("lab", ("old-0", "old-1", "new"))
    assert cluster.speed.tolist() == [0.5, 0.5, 1.0]


def test_the_documentation_names_every_bundled_cluster() -> None:
    text = DOCUMENTATION.read_text()
    assert [name for name in bundled_clusters() if f"`{name}`" not in text] == []


# --- how it is found


def test_a_file_wins_over_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy").write_text("")
    with pytest.raises(
        InvalidClusterError, match=r"^toy: a cluster file must end in \.yaml, \.yml or \.csv$"
    ):
        load_cluster("toy")


def test_a_folder_of_that_name_does_not_hide_a_bundled_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("philly").mkdir()
    assert load_cluster("philly").name == "philly"


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown cluster 'pool-386'. Did you mean 'pool-368'\? Known: arena"
    ):
        load_cluster("pool-386")


@pytest.mark.parametrize("ref", ["missing.yaml", "missing.csv", "folder/missing"])
def test_a_missing_file_is_called_that(ref: str) -> None:
    told = rf"^{ref}: no such file\. Bundled clusters: arena-edge-cloud, "
    with pytest.raises(InvalidClusterError, match=told):
        load_cluster(ref)


@pytest.mark.parametrize("ref", ["x" * 5000, "x\0y", "\ud800"])
def test_a_name_that_no_file_can_have_is_unknown(ref: str) -> None:
    with pytest.raises(UnknownNameError):
        load_cluster(ref)


def test_a_folder_is_not_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(InvalidClusterError, match=r"is not a file; name a \.yaml or \.csv file$"):
        load_cluster(tmp_path)


TWO = "name: two\nservers:\n  - {name: a, count: 2, gpus: 4}\n  - {name: b, count: 3, gpus: 1}\n"


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return str(path)


def test_numbers_of_servers_replace_those_of_the_file(two: str) -> None:
    cluster = load_cluster(with_counts(two, {"a": 1, "b": 2}))
    assert cluster.server_names == ("a", "b-0", "b-1")
    assert cluster.name == "two@a.count=1,b.count=2"
    assert load_cluster(with_counts(with_counts(two, {"a": 1}), {"b": 0, "a": 3})).server_names == (
        "a-0",
        "a-1",
        "a-2",
    )


def test_the_only_entry_may_be_called_servers(tmp_path: Path) -> None:
    assert len(load_cluster("pool-368@servers.count=7")) == 7
    assert len(load_cluster("pool-368@server.count=7")) == 7
    path = tmp_path / "list.csv"
    path.write_text("name,count,gpus\nold,2,4\n")
    assert len(load_cluster(f"{path}@old.count=5")) == 5


@pytest.mark.parametrize(
    ("counts", "complaint"),
    [
        ("c.count=1", "c.count=1: expected the name of one entry, found 0 of this name; entries: a, b"),
        (
            "servers.count=1",
            "servers.count=1: expected the name of one entry, found 0 of this name; entries: a, b",
        ),
        ("a.count=0,b.count=0", "with these counts there is no server"),
    ],
)
def test_wrong_counts_are_refused(two: str, counts: str, complaint: str) -> None:
    with pytest.raises(InvalidClusterError) as refused:
        load_cluster(f"{two}@{counts}")
    assert str(refused.value) == f"{two}: {complaint}"


def test_the_only_entry_has_one_number(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: c\nservers:\n  - {name: s, count: 2, gpus: 1}\n")
    with pytest.raises(
        InvalidClusterError, match=r"servers\.count and s\.count are the same entry; give one"
    ):
        load_cluster(f"{tmp_path / 'c.yaml'}@s.count=1,servers.count=3")


def test_a_name_that_a_reference_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidClusterError, match="without '@', ',' and '='"):
        with_counts("pool-368", {"a,b": 3})


def test_prices_belong_to_each_server_and_to_all_entries_or_none(tmp_path: Path) -> None:
    path = tmp_path / "priced.yaml"
    path.write_text(
        "name: c\nservers:\n  - {name: a, count: 2, gpus: 4, price: 2.5}\n  - {name: b, gpus: 8}\n"
    )
    with pytest.raises(InvalidClusterError, match=r"servers\[1\]\.price: is missing, but other servers"):
        load_cluster(path)
    path.write_text(path.read_text().replace("gpus: 8", "gpus: 8, price: 4"))
    cluster = load_cluster(path)
    assert (cluster.entry, cluster.price) == (("a", "a", "b"), (2.5, 2.5, 4.0))
    assert load_cluster(f"{path}@a.count=1").price == (2.5, 4.0)
    path.write_text(path.read_text().replace("price: 4", "price: 0"))
    with pytest.raises(InvalidClusterError, match=r"servers\[1\]\.price"):
        load_cluster(path)
    assert load_cluster("toy").price is None
