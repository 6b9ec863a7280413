from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from ray_sim.model.errors import InvalidScenarioError
from workloads import documents
from workloads.documents import MAX_DEPTH, dotted_problems, parse_yaml, read_text


def refusal(text: str) -> str:
    with pytest.raises(InvalidScenarioError) as caught:
        parse_yaml(text, "sweep.yaml", InvalidScenarioError)
    return str(caught.value)


def test_plain_yaml_comes_back_as_lists_mappings_and_scalars() -> None:
    text = "a: [1, 2.5, yes, text]\nb: {c: null}\n"
    assert parse_yaml(text, "x", InvalidScenarioError) == {"a": [1, 2.5, True, "text"], "b": {"c": None}}


def test_a_repeated_key_is_refused_where_yaml_would_keep_the_last() -> None:
    assert refusal("a: 1\nb: 2\na: 3\n") == (
        "sweep.yaml: is not valid YAML: line 3, column 1: key 'a' appears twice"
    )


def test_a_merge_bomb_is_refused_before_it_is_built() -> None:
    # Thirty levels that each merge the one before twice would be 2^30 entries.
    levels = [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 31)]
    text = "\n".join(["a0: &a0 {key: 1}", *levels])
    assert refusal(text) == (
        "sweep.yaml: is not valid YAML: line 2, column 10: merge keys ('<<') are not allowed"
    )


def test_an_alias_is_refused_with_its_place() -> None:
    assert refusal("a: &x [1]\nb: *x\n") == (
        "sweep.yaml: is not valid YAML: line 2, column 4: "
        "aliases are not allowed; write out what '*x' stands for"
    )


def test_a_tag_runs_no_constructor() -> None:
    assert "tags such as 'tag:yaml.org,2002:python/object/apply:os.system'" in refusal(
        "!!python/object/apply:os.system ['true']"
    )


def test_nesting_is_bounded() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_yaml(deepest, "x", InvalidScenarioError) is not None
    assert f"nested more than {MAX_DEPTH} deep" in refusal(f"[{deepest}]")
    assert f"nested more than {MAX_DEPTH} deep" in refusal("[" * 100_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: c", "line 1, column 5: mapping values are not allowed in this context"),
        ("a: 1\n---\nb: 2", "line 2, column 1: but found another document"),
        ("a: 2017-13-45", "month must be in 1..12"),
        ("a: -" + "1" * 5000, "line 1, column 4: a number of 5,000 digits; at most 1,000 are read"),
        ("gpus: 1:30", "line 1, column 7: YAML reads 1:30 as a number of base 60; write a text in quotes"),
        ("a: [-20:30:40.5]", "line 1, column 5: YAML reads -20:30:40.5 as a number of base 60"),
        ("1:30: b", "line 1, column 1: YAML reads 1:30 as a number of base 60"),
        ("seed: 010", "line 1, column 7: YAML reads 010 as a number of base 8; write a text in quotes"),
        ("a: \x00", "unacceptable character #x0000: control characters are not allowed"),
        ("? {a: 1}\n: 2", "line 1, column 3: found unhashable key"),
    ],
)
def test_what_yaml_cannot_read_is_a_clear_error(text: str, reason: str) -> None:
    assert refusal(text).startswith(f"sweep.yaml: is not valid YAML: {reason}")


@pytest.mark.parametrize(
    "text", ["'1:30'", '"010"', "0", "0.10", "1:90", "a:1", "10:00-11:00", "089", "0.0", "-0"]
)
def test_texts_and_plain_numbers_are_not_refused_as_numbers_of_another_base(text: str) -> None:
    plain = text.strip("'\"")
    assert str(parse_yaml(text, "x", InvalidScenarioError)) in (plain, plain.removeprefix("-"), "0.1")


def test_a_file_that_is_not_text_names_the_first_bad_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: caf\xe9".encode("latin-1"))
    with pytest.raises(InvalidScenarioError, match=r"is not UTF-8 text \(byte 9 is 0xe9\)"):
        read_text(path, InvalidScenarioError)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "windows.csv"
    path.write_bytes(b"\xef\xbb\xbfname,gpus\n")
    assert read_text(path, InvalidScenarioError) == "name,gpus\n"


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 2**20)
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InvalidScenarioError, match="is larger than 1 MiB"):
        read_text(path, InvalidScenarioError)


@pytest.mark.parametrize("text", ["1e-4", "-2E4", "1.5e4"])
def test_an_exponent_that_yaml_reads_as_a_text_is_said_to_be_one(text: str) -> None:
    class Rates(BaseModel):
        model_config = ConfigDict(strict=True)
        rate: float

    def problems(value: str) -> list[str]:
        with pytest.raises(ValidationError) as failure:
            Rates.model_validate(parse_yaml(f"rate: {value}", "file", InvalidScenarioError))
        return dotted_problems(failure.value)

    hint = ", which YAML reads as a text; write a point and a sign, as in 1.0e-4 or 1.0e+4"
    assert problems(text) == [f"rate: must be a number, got '{text}'{hint}"]
    assert problems("slow") == ["rate: must be a number, got 'slow'"]
    assert Rates.model_validate(parse_yaml("rate: 1.0e-4", "file", InvalidScenarioError)).rate == 0.0001
