"""Whatever people write, a command ends in a result or in an error of ours; `make fuzz` tries many more."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_file import parse_sweep
from tests.mutated_inputs import MAP, SWEEPS, Desk, totals_of
from tests.proofs import instances
from workloads.convert import convert
from workloads.trace_format import ConvertOptions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"), [("maps", instances(150)), ("sweeps", instances(60)), ("commands", instances(15))]
)
def test_mutated_inputs_end_in_a_result_or_in_an_error_of_ours(kind: str, count: int, tmp_path: Path) -> None:
    totals, tracebacks = totals_of(kind, count, seed=7, folder=tmp_path)
    assert tracebacks == []
    assert totals["refused"] + totals.get("accepted", 0) == count


def test_unmutated_inputs_are_accepted(tmp_path: Path) -> None:
    desk = Desk.made_in(tmp_path)
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(MAP))
    options = ConvertOptions(mapping=tmp_path / "map.yaml")
    assert convert("csv", [tmp_path / "trace.csv"], tmp_path / "w.parquet", options=options).kept == 9
    with contextlib.chdir(desk.folder):
        for content in SWEEPS:
            assert parse_sweep(content, "sweep.yaml", HashedInputs()).configurations
