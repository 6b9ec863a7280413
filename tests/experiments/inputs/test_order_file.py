"""Files of orders of arrival: by list and seed, and what is wrong with them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ray_sim.experiments.inputs.order_file import read_orders
from ray_sim.model.errors import InvalidWorkloadError

HEADER = "pod_list,seed,what,order\n"
ONE = "a,42,pods,2 0 1 0\na,42,servers,1 0\n"
TWO = "b,7,servers,0\nb,7,pods,0\n"


def _file(folder: Path, text: str) -> str:
    path = folder / "orders.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return str(path)


def test_an_order_has_jobs_and_servers_by_seed(tmp_path: Path) -> None:
    found = read_orders(_file(tmp_path, HEADER + ONE + TWO), "a")
    assert list(found) == [42]
    assert (found[42].jobs.tolist(), found[42].servers.tolist()) == ([2, 0, 1, 0], [1, 0])


def test_the_only_list_of_a_file_needs_no_name(tmp_path: Path) -> None:
    plain = tmp_path / "orders.csv"
    plain.write_text(HEADER + TWO)
    assert read_orders(str(plain), None)[7].jobs.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "pod_list", "problem"),
    [
        (HEADER + ONE + TWO, None, "`pod_list` is needed; its lists: a, b"),
        (HEADER + ONE + TWO, "c", "has no pod_list 'c'; its lists: a, b"),
        ("pods,order\n" + ONE, "a", "line 1: expected pod_list,seed,what,order, found 'pods,order'"),
        (HEADER + "a,42,nodes,1\n", "a", "line 2: what: expected pods or servers, found 'nodes'"),
        (HEADER + ONE + "a,43,pods,1 x\n", "a", "line 4: invalid literal for int"),
        (HEADER + "a,42,pods\n", "a", "line 2: not enough values"),
        (HEADER + "a,42,pods,1\n", "a", "a, seed 42: has no line of servers"),
        (HEADER, "a", "has no pod_list 'a'"),
    ],
)
def test_wrong_files_are_refused_by_line(
    tmp_path: Path, text: str, pod_list: str | None, problem: str
) -> None:
    with pytest.raises(InvalidWorkloadError) as raised:
        read_orders(_file(tmp_path, text), pod_list)
    assert problem in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match=r"no\.csv: no such file"):
        read_orders(str(tmp_path / "no.csv"), None)
