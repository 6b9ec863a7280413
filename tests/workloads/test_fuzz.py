"""Whatever the bytes, a conversion ends in a clear error or in a report that counts every row."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import RaySimError
from tests.damaged import GOOD, PIECES, counts_or_error
from tests.proofs import instances
from workloads.convert import convert
from workloads.store import load_workload, write_workload
from workloads.synthetic.synth import synth
from workloads.trace_format import ConvertOptions


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good file of some format with a few places replaced, doubled or cut."""
    name = draw(st.sampled_from(sorted(GOOD)))
    content = GOOD[name]
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        content = content[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + content[end:]
    return name, gzip.compress(content, mtime=0) if draw(st.booleans()) else content


@pytest.mark.slow
@settings(deadline=None, max_examples=instances(300))
@given(mutation=mutations(), rebase=st.booleans())
def test_a_damaged_file(
    mutation: tuple[str, bytes], rebase: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, content = mutation
    counts_or_error(name, content, tmp_path_factory.mktemp("fuzz"), rebase and name == "csv")


@pytest.mark.slow
@settings(deadline=None, max_examples=instances(150))
@given(content=st.binary(max_size=300), name=st.sampled_from(sorted(GOOD)))
@example(content=b"\x1f\x8b", name="csv")
@example(content=b"\xef\xbb\xbf", name="csv")
@example(content=b"BZh9\x00", name="csv")
@example(content=b"\x28\xb5\x2f\xfd\x00", name="csv")
@example(content=b"\x78\x9c", name="csv")
def test_random_bytes(content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    counts_or_error(name, content, tmp_path_factory.mktemp("fuzz"))


@pytest.mark.slow
@settings(deadline=None, max_examples=instances(150))
@given(tail=st.binary(max_size=200), name=st.sampled_from(sorted(GOOD)))
def test_random_bytes_after_a_good_file(
    tail: bytes, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counts_or_error(name, GOOD[name] + tail, tmp_path_factory.mktemp("fuzz"))


@settings(deadline=None, max_examples=instances(150))
@given(text=st.text(max_size=300))
@example(text="{columns: &a {x: *a}}")
@example(text="[" * 2000)
@example(text="constants: {num_gpus: 1e400, priority: 999999999999999999999999}")
@example(text="constants: {num_gpus: .inf}")
@example(text="derived: {duration_s: {column: num_gpus, times: {by: vc, table: {v0: 1e308, v1: 9e999}}}}")
@example(text="derived: {duration_s: {column: num_gpus, plus: {by: [vc, vc], table: {v0: {v0: 1}, v1: 3}}}}")
@example(text="derived: {duration_s: {column: x, times: " + "{by: a, table: " * 300 + "{a: 1}" + "}" * 302)
@example(text="derived: {duration_s: {column: x, times: {by: a, table: " + "{a: " * 900 + "1" + "}" * 903)
@example(text="file_name: {vc: '*'}")
@example(text="file_name: {vc: '" + "*a" * 50 + "'}")
def test_random_mapping(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    source, mapping = folder / "trace.csv", folder / "map.yaml"
    source.write_bytes(GOOD["csv"])
    mapping.write_text(text, encoding="utf-8")
    try:
        report = convert("csv", [source], folder / "w.parquet", options=ConvertOptions(mapping=mapping))
    except RaySimError:
        return
    assert report.read == GOOD["csv"].count(b"\n") - 1


WORKLOAD_JOBS = 40


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "w.parquet"
    write_workload(*synth("philly", WORKLOAD_JOBS, seed=0), path)
    return path.read_bytes()


@settings(deadline=None, max_examples=instances(300))
@given(data=st.data())
def test_a_damaged_workload(
    data: st.DataObject, workload: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = data.draw(st.integers(0, len(workload) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path_factory.mktemp("fuzz") / "w.parquet"
    path.write_bytes(workload[:place] + patch + workload[place + len(patch) :])
    try:
        table = load_workload(path)
    except RaySimError:
        return
    assert len(table) == WORKLOAD_JOBS
