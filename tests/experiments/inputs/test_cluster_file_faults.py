"""Faults of cluster files: all are reported with their places, and any bytes load or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.cluster_summary import describe_cluster
from ray_sim.model.errors import InvalidClusterError, UnknownNameError
from tests.cluster_files import load_text, problems, refusal
from workloads.documents import MAX_PROBLEMS

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


LACKS = "is missing, but other servers declare it; 0 means none"
KNOWN = "Did you mean 'V100'? Known: V100 (declared under gpu_types)"


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (
            "gpu_types: {V100: {}}\nservers: [{name: a, gpus: 1, gpu_type: V10}]",
            [f"servers[0].gpu_type: unknown GPU type 'V10'. {KNOWN}"],
        ),
        (
            "servers: [{name: a, count: 2, gpus: 1}, {name: a-1, gpus: 1}]",
            ["servers[1].name: a server 'a-1' is already in servers[0]"],
        ),
        (
            "servers: [{name: a, gpus: 1, cpus: 4}, {name: b, gpus: 1, disk_gib: 1}]",
            [f"servers[0].disk_gib: {LACKS}", f"servers[1].cpus: {LACKS}"],
        ),
        (
            "servers: [{name: a, gpus: 1, count: 600000}, {name: b, gpus: 1, count: 600000}]",
            ["servers: at most 1,000,000 in all, got 1,200,000"],
        ),
    ],
)
def test_servers_must_agree_with_each_other(tmp_path: Path, entries: str, told: list[str]) -> None:
    assert problems(tmp_path, f"name: a\n{entries}") == told


def test_a_cluster_must_offer_something(tmp_path: Path) -> None:
    expected = "no server offers anything; give one of them GPUs or CPUs"
    assert refusal(tmp_path, "name: a\nservers: [{name: a, gpus: 0, cpus: 0}]") == expected
    assert refusal(tmp_path, "name,gpus\na,0\n", "c.csv") == expected
    # Less than one milli-GPU is nothing.
    assert refusal(tmp_path, "name: a\nservers: [{name: a, gpus: 0.0001}]") == expected


def test_a_list_without_servers_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, "name: a\nservers: []") == ["servers: must not be empty, got []"]
    assert refusal(tmp_path, "name,gpus\n", "c.csv").startswith("no server offers anything")


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
        " workers, ps, worker_memory_gib, ps_memory_gib, sockets, server_class, price, speed"
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
