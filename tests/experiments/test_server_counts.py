"""References of clusters with other numbers of servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.server_counts import with_counts
from ray_sim.model.errors import InvalidClusterError

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
