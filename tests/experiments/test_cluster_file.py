from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.cluster_file import MAX_PROBLEMS, bundled_clusters, load_cluster
from ray_sim.experiments.cluster_summary import describe_cluster
from ray_sim.model.cluster import UNLIMITED_MIB, Cluster, ServerKind
from ray_sim.model.errors import InvalidClusterError, UnknownNameError

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "clusters.md"


def load_text(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> Cluster:
    path = folder / file_name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_cluster(path)


def problems(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> list[str]:
    """The lines after the first, which names the file and counts them."""
    with pytest.raises(InvalidClusterError) as caught:
        load_text(folder, text, file_name)
    first, *rest = str(caught.value).splitlines()
    assert first == f"{folder / file_name}: {len(rest)} problem{'s' if len(rest) != 1 else ''}"
    return [line.removeprefix("  ") for line in rest]


def refusal(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> str:
    """What is wrong with a file as a whole, after its path."""
    with pytest.raises(InvalidClusterError) as caught:
        load_text(folder, text, file_name)
    return str(caught.value).removeprefix(f"{folder / file_name}: ")


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


@pytest.mark.parametrize(
    ("name", "servers", "gpus"),
    [
        ("toy", 2, 8),
        ("pool-368", 46, 368),
        ("philly-week-6vc", 28, 224),
        # 264 servers of 8, 271 of 4, 1 of 3, 3 of 2 and 13 without: 2112 + 1084 + 3 + 6.
        ("philly", 552, 3205),
        # 4 * 4 + 3 * 6 + 3 * 8 at the edge, 16 * 8 in the cloud.
        ("edge-cloud", 26, 58 + 128),
    ],
)
def test_bundled_clusters_have_their_published_totals(name: str, servers: int, gpus: int) -> None:
    cluster = load_cluster(name)
    assert (cluster.name, len(cluster), len(set(cluster.server_names))) == (name, servers, servers)
    assert cluster.capacity[:, 0].sum() == gpus * 1000


def test_every_bundled_cluster_is_tested_above() -> None:
    assert sorted(bundled_clusters()) == ["edge-cloud", "philly", "philly-week-6vc", "pool-368", "toy"]


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


def documented(language: str) -> str:
    block = re.search(rf"```{language}\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    assert block is not None
    return block[1]


def test_the_documented_yaml_example_loads(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, documented("yaml"))
    assert cluster.server_names == ("edge-0", "edge-1", "edge-2", "cloud")
    assert cluster.capacity[:, 0].tolist() == [4000, 4000, 4000, 64000]


def test_the_documented_csv_example_loads(tmp_path: Path) -> None:
    cluster = load_text(tmp_path, documented("csv"), "lab.csv")
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
        UnknownNameError, match=r"unknown cluster 'pool-386'. Did you mean 'pool-368'\? Known: edge"
    ):
        load_cluster("pool-386")


@pytest.mark.parametrize("ref", ["missing.yaml", "missing.csv", "folder/missing"])
def test_a_missing_file_is_called_that(ref: str) -> None:
    with pytest.raises(InvalidClusterError, match=rf"^{ref}: no such file\. Bundled clusters: edge-cloud, "):
        load_cluster(ref)


@pytest.mark.parametrize("ref", ["x" * 5000, "x\0y", "\ud800"])
def test_a_name_that_no_file_can_have_is_unknown(ref: str) -> None:
    with pytest.raises(UnknownNameError):
        load_cluster(ref)


def test_a_folder_is_not_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(InvalidClusterError, match=r"is not a file; name a \.yaml or \.csv file$"):
        load_cluster(tmp_path)


# --- what is wrong with it


def test_every_problem_is_reported_at_once_with_its_path(tmp_path: Path) -> None:
    text = """
        name: ""
        gpu_types: {V100: {speed: -1}, T4: {sped: 2}}
        servers:
          - {name: a, gpus: 8, gpu_type: H100}
          - {name: b}
          - {name: c, gpus: -1, count: 0, kind: fog, cpu: 3}
          - {name: d, gpus: .nan, vc: 103959}
          - {name: e, gpus: .inf, count: 1.5}
          - {name: f, gpus: eight, count: 99999999}
          - [g, 8]
          - {name: h, gpus: 1}
          - {name: h, gpus: 1}
    """
    assert problems(tmp_path, text) == [
        "name: must not be empty, got ''",
        "gpu_types.V100.speed: must be >= 1e-06, got -1",
        "gpu_types.T4.sped: unknown key",
        "servers[1].gpus: is missing",
        "servers[2].count: must be >= 1, got 0",
        "servers[2].gpus: must be >= 0, got -1",
        "servers[2].kind: must be 'plain', 'edge' or 'cloud', got 'fog'",
        "servers[2].cpu: unknown key; did you mean 'cpus'?",
        "servers[3].gpus: must be a finite number, got nan",
        "servers[3].vc: must be text (put it in quotes), got 103959",
        "servers[4].count: must be a whole number, got 1.5",
        "servers[4].gpus: must be a finite number, got inf",
        "servers[5].count: must be <= 1,000,000, got 99999999",
        "servers[5].gpus: must be a number, got 'eight'",
        "servers[6]: must be a mapping, got ['g', 8]",
        "servers[8].name: a server 'h' is already in servers[7]",
    ]


def test_a_gpu_type_must_be_declared(tmp_path: Path) -> None:
    text = "name: a\ngpu_types: {V100: {}}\nservers: [{name: a, gpus: 1, gpu_type: V10}]"
    assert problems(tmp_path, text) == [
        "servers[0].gpu_type: unknown GPU type 'V10'. Did you mean 'V100'? "
        "Known: V100 (declared under gpu_types)"
    ]


def test_numbered_names_must_not_meet_given_ones(tmp_path: Path) -> None:
    text = "name: a\nservers: [{name: a, count: 2, gpus: 1}, {name: a-1, gpus: 1}]"
    assert problems(tmp_path, text) == ["servers[1].name: a server 'a-1' is already in servers[0]"]


def test_a_resource_that_some_servers_declare_is_asked_of_all(tmp_path: Path) -> None:
    text = "name: a\nservers: [{name: a, gpus: 1, cpus: 4}, {name: b, gpus: 1, disk_gib: 1}]"
    assert problems(tmp_path, text) == [
        "servers[0].disk_gib: is missing, but other servers declare it; 0 means none",
        "servers[1].cpus: is missing, but other servers declare it; 0 means none",
    ]


def test_a_cluster_must_offer_something(tmp_path: Path) -> None:
    expected = "no server offers anything; give one of them GPUs or CPUs"
    assert refusal(tmp_path, "name: a\nservers: [{name: a, gpus: 0, cpus: 0}]") == expected
    assert refusal(tmp_path, "name,gpus\na,0\n", "c.csv") == expected
    # Less than one milli-GPU is nothing.
    assert refusal(tmp_path, "name: a\nservers: [{name: a, gpus: 0.0001}]") == expected


def test_a_list_without_servers_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, "name: a\nservers: []") == ["servers: must not be empty, got []"]
    assert refusal(tmp_path, "name,gpus\n", "c.csv").startswith("no server offers anything")


def test_the_number_of_servers_is_bounded_over_all_entries(tmp_path: Path) -> None:
    text = "name: a\nservers: [{name: a, gpus: 1, count: 600000}, {name: b, gpus: 1, count: 600000}]"
    assert problems(tmp_path, text) == ["servers: at most 1,000,000 in all, got 1,200,000"]


def test_csv_problems_name_their_line(tmp_path: Path) -> None:
    text = 'name,gpus,count\na,8,1\nb,-1,2\n"c\nd",1,x\ne,1\na,1,1\n,3,1\n'
    assert problems(tmp_path, text, "c.csv") == [
        "line 3, gpus: must be >= 0, got '-1'",
        "line 5, name: must be printable text without spaces around it, got 'c\\nd'",
        "line 5, count: must be a whole number, got 'x'",
        "line 6: has 2 cells, the header 3",
        "line 8, name: is missing",
        "line 7, name: a server 'a' is already in line 2",
    ]


def test_a_csv_header_is_checked_first(tmp_path: Path) -> None:
    known = (
        "name, count, gpus, cpus, memory_gib, disk_gib, cpu_norm, memory_norm, disk_norm, gpu_type, vc, kind,"
        " workers, ps, worker_memory_gib, ps_memory_gib, speed"
    )
    assert problems(tmp_path, "name;gpus\na;8\n", "c.csv") == [
        f"line 1: unknown column 'name;gpus'; known: {known}",
        "line 1: column 'name' is missing",
        "line 1: column 'gpus' is missing",
    ]
    assert problems(tmp_path, "name,gpus,gpus\na,8,8\n", "c.csv") == ["line 1: column 'gpus' appears twice"]


def test_an_unclosed_quote_names_its_line(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path, 'name,gpus\n"a,8\n', "c.csv") == "line 2: is not valid CSV: unexpected end of data"
    )


def test_a_flood_of_problems_is_cut_and_counted(tmp_path: Path) -> None:
    lines = ["name,gpus", *(f"s{i},-1" for i in range(MAX_PROBLEMS + 5))]
    with pytest.raises(InvalidClusterError) as caught:
        load_text(tmp_path, "\n".join(lines), "c.csv")
    first, *rest = str(caught.value).splitlines()
    assert first.endswith("c.csv: 105 problems")
    assert (len(rest), rest[-1]) == (MAX_PROBLEMS + 1, "  and 5 more")


@pytest.mark.parametrize("file_name", ["c.yaml", "c.csv"])
def test_an_empty_file_is_called_that(tmp_path: Path, file_name: str) -> None:
    assert refusal(tmp_path, b"", file_name) == "is empty"
    assert refusal(tmp_path, b" \n\n", file_name) == "is empty"


@pytest.mark.parametrize("file_name", ["c.yaml", "c.csv"])
def test_a_binary_file_is_called_that(tmp_path: Path, file_name: str) -> None:
    assert refusal(tmp_path, b"PAR1\x15\x04\xff\xfe", file_name) == (
        "is not UTF-8 text (byte 6 is 0xff); save it as UTF-8"
    )


@pytest.mark.parametrize("text", ["# nothing\n", "- a\n- b\n", "8", "text", "null"])
def test_a_document_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith("must be a mapping, got ")


# --- whatever is in it

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**400, max_value=10**401)
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["toy", "edge", "V100", 0, 1, 4, 2.5])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "name",
    "count",
    "gpus",
    "cpus",
    "memory_gib",
    "disk_gib",
    "gpu_type",
    "vc",
    "kind",
    "workers",
    "ps",
    "speed",
]
SERVERS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "name": VALUES,
        "gpu_types": VALUES | st.dictionaries(st.text(max_size=4), SERVERS, max_size=2),
        "servers": VALUES | st.lists(SERVERS | VALUES, max_size=4),
        "other": VALUES,
    },
)


def load_or_refuse(folder: Path, raw: bytes, file_name: str) -> None:
    try:
        cluster = load_text(folder, raw, file_name)
    except (InvalidClusterError, UnknownNameError):
        return
    assert cluster.capacity.shape == (len(cluster), len(cluster.resources))
    assert (cluster.capacity >= 0).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(document=FILES | VALUES)
def test_any_yaml_document_loads_or_is_refused(folder: Path, document: Any) -> None:
    load_or_refuse(folder, yaml.safe_dump(document).encode("utf-8", "surrogatepass"), "c.yaml")


@given(
    rows=st.lists(st.lists(st.text(max_size=6) | st.sampled_from(["a", "1", "8"]), max_size=4), max_size=4)
)
def test_any_csv_list_loads_or_is_refused(folder: Path, rows: list[list[str]]) -> None:
    lines = ["name,gpus,count", *(",".join(row) for row in rows)]
    load_or_refuse(folder, "\n".join(lines).encode("utf-8", "surrogatepass"), "c.csv")


@given(raw=st.binary(max_size=60), file_name=st.sampled_from(["c.yaml", "c.csv"]))
def test_any_bytes_load_or_are_refused(folder: Path, raw: bytes, file_name: str) -> None:
    load_or_refuse(folder, raw, file_name)


@given(text=st.text(alphabet="-:[]{}&*!|>?,#'\"%@` \n\tax1.<~=", max_size=60))
def test_any_yaml_syntax_loads_or_is_refused(folder: Path, text: str) -> None:
    load_or_refuse(folder, text.encode(), "c.yaml")


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=5), data=st.data())
def test_totals_are_those_of_the_description(folder: Path, counts: list[int], data: st.DataObject) -> None:
    gpus = [data.draw(st.integers(1, 16)) for _ in counts]
    servers = [
        {"name": f"s{i}", "count": n, "gpus": g} for i, (n, g) in enumerate(zip(counts, gpus, strict=True))
    ]
    cluster = load_text(folder, yaml.safe_dump({"name": "drawn", "servers": servers}))
    assert len(cluster) == sum(counts)
    assert describe_cluster(cluster).capacity == {
        "gpu": sum(n * g for n, g in zip(counts, gpus, strict=True))
    }
