from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.model.errors import InvalidWorkloadError
from tests.workloads.conversions import Trace
from workloads.formats.guessing.proposal import Proposal
from workloads.formats.guessing.reading import add_reading
from workloads.formats.tables.files import Reading


def reading(path: Path, folder: Path) -> Reading:
    proposal = Proposal()
    add_reading(proposal, path, folder)
    return proposal.mapping.read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,5;2\n", Reading(separator=";")),
        ("a\tb c\n1\t2 3\n", Reading(separator="\t")),
        ("a  b\n1 \t 2\n", Reading(separator=" ")),
        ('a,b\n"1,5",2\n', Reading(separator=",")),
        ('a|b\n"1|2\n', Reading(separator="|", quotes=False)),
        ("# made by us\na,b\n1,2\n", Reading(separator=",", comment="#")),
        ("# a,b\n1,2\n", Reading(separator=",", comment="#", header=["a", "b"])),
        ("x,1\ny,2\n", Reading(separator=",", header=["c1", "c2"])),
        (";a;b\n0;1;2\n", Reading(separator=";")),
        ("a;b\n1;J\xfcrgen\n", Reading(separator=";", encoding="cp1252")),
        ('{"tags": [1], "jobs": [{"a": 1}]}', Reading(format="json", records="jobs")),
        ('{"a": [{"b": 1}]}\n{"a": []}\n', Reading()),
        ('[{"a": 1}]', Reading()),
    ],
)
def test_how_a_file_is_read_is_found(trace: Trace, tmp_path: Path, text: str, expected: Reading) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    assert reading(trace(text.encode("cp1252")), folder) == expected


def test_a_text_that_no_separator_divides_is_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="neither commas, semicolons, tabs, bars, blanks divide"):
        reading(trace("one\ntwo\n"), tmp_path)
