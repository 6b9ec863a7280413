"""Tables of measured speeds: the bundled ones, and files of a user."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.measured_speeds import PairRow, SpeedRow
from workloads.training.speed_tables import bundled_speeds, load_speeds

HEADER = "model,batch,gpus,gpu_type,consolidated,steps_per_s\n"
PAIRS_HEADER = "gpu_type,model_a,batch_a,model_b,batch_b,steps_per_s_a,steps_per_s_b\n"


def table(path: Path, *lines: str, header: str = HEADER) -> Path:
    """Write a CSV file."""
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def test_the_bundled_tables_have_speeds_for_1_2_4_and_8_gpus_of_three_types() -> None:
    assert list(bundled_speeds()) == ["gavel_physical", "gavel_simulation"]
    for name in bundled_speeds():
        rows = load_speeds(name).rows
        keys = Counter(gpus for _, _, gpus in {row[:3] for row in rows})
        assert keys == {1: 26, 2: 19, 4: 19, 8: 19}
        # 83 keys on one server; on several 57 of more than one GPU, six of which lack K80.
        assert Counter((row.gpu_type, row.consolidated) for row in rows) == {
            **{(kind, True): 83 for kind in ("K80", "P100", "V100")},
            ("K80", False): 51,
            ("P100", False): 57,
            ("V100", False): 57,
        }
    # Of 26 models and batches there are 26 * 27 / 2 = 351 pairs; so many do not fit on a GPU.
    pairs = load_speeds().pairs
    assert len(pairs) == 3 * 351
    assert Counter(row.gpu_type for row in pairs if row[5:] == (0, 0)) == {"V100": 21, "P100": 11, "K80": 45}
    assert load_speeds("gavel_physical").pairs == pairs


def test_recommendation_is_8_to_12_times_as_fast_on_v100_in_the_physical_table() -> None:
    batch = np.array([512.0, 1024, 2048, 4096, 8192])
    fast, slow = (
        load_speeds(name).speeds(["Recommendation"] * 5, batch, np.ones(5, np.int64), ["V100"])[..., 0]
        for name in ("gavel_physical", "gavel_simulation")
    )
    assert ((fast / slow > 7.5) & (fast / slow < 12.5)).all()


def test_the_bundled_numbers_are_those_of_the_source(shared_data: Path) -> None:
    source = shared_data / "data" / "gavel"
    with gzip.open(source / "speeds.csv.gz", "rt") as file:
        given = [row for row in csv.DictReader(file) if row["state"] != "missing"]
    for name in ("simulation", "physical"):
        wanted = {
            (*_key(row["model"], row["batch"]), int(row["gpus"]), row["gpu_type"], row["consolidated"] == "1",
             float(row["steps_per_s"]))
            for row in given
            if row["table"] == name and (row["gpus"], row["consolidated"]) != ("1", "0")
        }  # fmt: skip
        assert set(load_speeds(f"gavel_{name}").rows) == wanted
    with gzip.open(source / "pairs.csv.gz", "rt") as file:
        pairs = [
            PairRow(
                row["gpu_type"],
                *_key(row["model_a"], row["batch_a"]),
                *_key(row["model_b"], row["batch_b"]),
                float(row["steps_per_s_a"]),
                float(row["steps_per_s_b"]),
            )
            for row in csv.DictReader(file)
        ]
    assert set(pairs[:1053]) == set(pairs[1053:]) == set(load_speeds().pairs)


def _key(model: str, batch: str) -> tuple[str, int | None]:
    return model, int(batch) if batch else None


def test_a_table_of_ones_own_has_the_columns_in_any_order(tmp_path: Path) -> None:
    header = "steps_per_s,gpu_type,consolidated,gpus,model\n"
    rows = table(tmp_path / "rows.csv", "2.5,H100,1,1,gpt", "0,H100,false,2,gpt", header=header)
    pairs = table(tmp_path / "pairs.csv", "H100,gpt,,net,8,1,2", header=PAIRS_HEADER)
    found = load_speeds(rows, pairs)
    assert found.rows == (
        SpeedRow("gpt", None, 1, "H100", True, 2.5),
        SpeedRow("gpt", None, 2, "H100", False, 0.0),
    )
    assert found.pairs == (PairRow("H100", "gpt", None, "net", 8, 1.0, 2.0),)
    assert load_speeds(rows).pairs == ()


def test_the_order_of_lines_and_the_file_do_not_change_the_digest(tmp_path: Path) -> None:
    lines = ["m,8,1,A,1,2", "m,8,2,A,1,3"]
    one, other = table(tmp_path / "1.csv", *lines), table(tmp_path / "2.csv", *reversed(lines))
    assert load_speeds(one).sha256 == load_speeds(other).sha256


def test_every_problem_of_a_table_is_named_with_its_line(tmp_path: Path) -> None:
    path = table(
        tmp_path / "bad.csv",
        *(",8,1,A,1,3", "m,8,1,A,0,3", "m,0,1,A,1,-3", "m,,1,A,1,nan", "m,8,1,A,1,1", "m,8,1,A,1,2"),
        *("m,8,1", "m,8,1,A,perhaps,1"),
    )
    with pytest.raises(InvalidInputError) as refused:
        load_speeds(path)
    assert str(refused.value).splitlines() == [
        f"{path}: 8 problems",
        "  line 2, model: is missing",
        "  line 3: one GPU is always on one server; write 1 for consolidated, got {'batch': '8', "
        "'consolidated': '0', 'gpu_type': 'A', ...}",
        "  line 4, batch: must be >= 1, got '0'",
        "  line 4, steps_per_s: must be >= 0, got '-3'",
        "  line 5, steps_per_s: must be a finite number, got 'nan'",
        "  line 7, repeats line 6, all columns but the speeds are equal",
        "  line 8: has 3 cells, the header 6",
        "  line 9, consolidated: must be true or false, got 'perhaps'",
    ]


def test_two_jobs_alike_have_one_speed(tmp_path: Path) -> None:
    rows = table(tmp_path / "rows.csv", "m,8,1,A,1,3")
    pairs = table(tmp_path / "p.csv", "A,m,8,m,8,1,1", "A,m,,m,,1,2", header=PAIRS_HEADER)
    with pytest.raises(
        InvalidInputError, match=r"1 problem\n  line 3: two jobs alike must have the same speed"
    ):
        load_speeds(rows, pairs)


def test_a_pair_in_the_other_order_is_the_same_pair(tmp_path: Path) -> None:
    rows = table(tmp_path / "rows.csv", "m,8,1,A,1,3")
    pairs = table(tmp_path / "p.csv", "A,m,8,n,,1,2", "A,n,,m,8,2,1", header=PAIRS_HEADER)
    with pytest.raises(InvalidInputError, match=r"p.csv: 1 problem\n  line 3, repeats line 2, "):
        load_speeds(rows, pairs)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("model,gpus,gpu_type,consolidated,speed\n", "line 1: unknown column 'speed'; known: model, batch,"),
        ("model,gpus,gpu_type,consolidated,speed\n", "line 1: column 'steps_per_s' is missing"),
        (HEADER, "has no speeds; add lines"),
    ],
)
def test_a_table_without_its_columns_or_lines_is_refused(tmp_path: Path, header: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        load_speeds(table(tmp_path / "t.csv", header=header))


def test_an_unknown_name_lists_the_bundled_tables(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"table of speeds 'gavel'.*Known: gavel_physical, gavel_sim"):
        load_speeds("gavel")
    with pytest.raises(InvalidInputError, match=r"none.csv: cannot be read"):
        load_speeds(tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="has pairs of its own"):
        load_speeds("gavel_simulation", tmp_path / "pairs.csv")
