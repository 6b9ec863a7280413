"""Words that other programs write where a table has no value, and truth values."""

from __future__ import annotations

import json

import pytest

from tests.command_line import answer
from tests.workloads.conversions import Trace, converted

BLANK_WORDS = ("NaN", "nan", "None", "<NA>", "NA", r"\N", "Unknown", "null", "N/A", "n/a", "NULL")
"""Those of pandas, R, Hive and Slurm, of databases and of JSON."""

REQUIRED = "job_id,submit_s,duration_s,num_gpus"


OPTIONAL = (
    *("user", "vc", "status", "group_id", "model", "attempts", "priority", "num_tasks", "cpu_per_task"),
    *("memory_gib_per_task", "disk_gib_per_task", "cpu_norm_per_task", "scheduling_class", "wait_s"),
    *("span_s", "different_machines", "chunks", "epochs", "minibatch_s", "blocks", "exchange", "samples"),
    *("utility_max", "loss_b0", "birth_s", "value", "outlook", "reported_gpus"),
)


def test_a_word_for_nothing_is_a_blank_in_every_optional_column(trace: Trace) -> None:
    header = ",".join((REQUIRED, *OPTIONAL)) + "\n"
    rows = "".join(
        f"{word},{k},60,1,{','.join([word] * len(OPTIONAL))}\n" for k, word in enumerate(BLANK_WORDS)
    )
    report, frame = converted(trace(header + rows))
    assert report.rejected == {}
    assert tuple(frame["job_id"]) == BLANK_WORDS  # a name is never blank
    filled = [name for name in OPTIONAL if frame[name].null_count() < frame.height]
    assert filled == []


def test_a_table_with_words_for_nothing_is_the_table_with_empty_fields(trace: Trace) -> None:
    """Every word beside sound values, in turn in each of three columns."""
    values = ("ann", "7", "2.5")

    def text(words: tuple[str, ...]) -> str:
        rows = []
        for k, word in enumerate(words):
            cells = [word if k % 3 == column else value for column, value in enumerate(values)]
            rows.append(f"j{k},{k},60,1,{','.join(cells)}\n")
        return f"{REQUIRED},user,priority,wait_s\n" + "".join(rows)

    with_words = converted(trace(text(BLANK_WORDS)))[1]
    empty = converted(trace(text(("",) * len(BLANK_WORDS))))[1]
    assert with_words.equals(empty)
    assert with_words["priority"].to_list() == [7, None, 7, 7, None, 7, 7, None, 7, 7, None]


@pytest.mark.parametrize("column", ["submit_s", "duration_s", "num_gpus"])
def test_a_word_for_nothing_in_a_required_column_costs_the_row_for_a_counted_reason(
    trace: Trace, column: str
) -> None:
    sound = {"submit_s": "1", "duration_s": "60", "num_gpus": "1"}
    rows = []
    for k, word in enumerate(BLANK_WORDS):
        cells = {**sound, column: word}
        rows.append(f"j{k},{','.join(cells.values())}\n")
    report, frame = converted(trace(REQUIRED + "\n" + "".join(rows) + "sound,1,60,1\n"))
    assert frame["job_id"].to_list() == ["sound"]
    assert set(report.rejected) <= {f"missing_{column}", f"invalid_{column}"}
    assert sum(report.rejected.values()) == len(BLANK_WORDS)


def test_words_that_only_contain_a_blank_word_are_kept_as_they_are(trace: Trace) -> None:
    words = ["NA-west", "nano", "Nonesuch", "UnknownUser", "nullable", "NaN5", r"\Nope", "<NA", "annA"]
    rows = "".join(f"j{k},{k},60,1,{word},{word}\n" for k, word in enumerate(words))
    report, frame = converted(trace(f"{REQUIRED},user,vc\n{rows}"))
    assert report.rejected == {}
    assert frame["user"].to_list() == frame["vc"].to_list() == words


def test_other_words_in_a_column_of_numbers_still_cost_the_row(trace: Trace) -> None:
    words = ["inf", "-inf", "abc", "1,5", "NaN7", "0x10", "NAN GB", "none", "unknown", "yes"]
    rows = "".join(f'j{k},{k},60,1,"{word}"\n' for k, word in enumerate(words))
    report, frame = converted(trace(f"{REQUIRED},wait_s\n{rows}sound,9,60,1,<NA>\n"))
    assert frame.select("job_id", "wait_s").rows() == [("sound", None)]
    assert report.rejected == {"invalid_wait_s": len(words)}


def test_blanks_around_a_word_and_quotes_do_not_count(trace: Trace) -> None:
    rows = 'a,0,60,1, NaN ,x\nb,1,60,1,"None",\tNA\nc,2,60,1," null ","<NA>"\n'
    report, frame = converted(trace(f"{REQUIRED},priority,user\n{rows}"))
    assert report.rejected == {}
    assert frame.select("priority", "user").rows() == [(None, "x"), (None, None), (None, None)]


def test_a_table_of_hive_has_tabs_and_its_own_word_for_nothing(trace: Trace) -> None:
    text = (
        "job_id\tsubmit_s\tduration_s\tnum_gpus\tuser\tmemory_gib_per_task\n"
        "a\t0\t60\t1\t\\N\t\\N\n"
        "b\t1\t60\t1\tann\t4\n"
        "c\t2\t\\N\t1\tben\t4\n"
    )
    report, frame = converted(trace(text, "hive.tsv"))
    assert frame.select("job_id", "user", "memory_gib_per_task").rows() == [
        ("a", None, None),
        ("b", "ann", 4),
    ]
    assert sum(report.rejected.values()) == 1


def test_words_for_nothing_have_no_unit_and_no_tasks_to_be_divided_by(trace: Trace) -> None:
    mapping = (
        "columns: {job_id: Name, submit_s: Submit, duration_s: Minutes, num_gpus: G,"
        " memory_gib_per_task: Mem, wait_s: Wait}\n"
        "units: {duration_s: min, memory_gib_per_task: mib, wait_s: ms}\n"
        "per_job: [memory_gib_per_task]\n"
        'time_format: "%d.%m.%Y %H:%M"\n'
        "time_zone: Europe/Berlin\n"
    )
    rows = (
        "a,26.10.2023 08:05,2,4,NaN,None\n"
        "b,26.10.2023 08:06,2,4,8192,1500\n"
        "c,Unknown,2,4,8192,1500\n"
        "d,26.10.2023 08:07,NA,4,8192,1500\n"
    )
    report, frame = converted(trace("Name,Submit,Minutes,G,Mem,Wait\n" + rows), mapping)
    found = frame.select("job_id", "duration_s", "memory_gib_per_task", "wait_s").rows()
    # 8192 MiB of the whole job are 2 GiB for each of four tasks.
    assert found == [("a", 120, None, None), ("b", 120, 2, 1.5)]
    reasons = {reason.partition("_")[2]: n for reason, n in report.rejected.items()}
    assert reasons == {"submit_s": 1, "duration_s": 1}


def test_seconds_and_a_word_for_nothing_are_no_mixture_of_dates_and_numbers(trace: Trace) -> None:
    report, frame = converted(trace(f"{REQUIRED}\na,5,60,1\nb,NaN,60,1\nc,7,60,1\n"))
    assert frame["submit_s"].to_list() == [5, 7]
    assert (report.warnings, sum(report.rejected.values())) == ((), 1)


def test_a_status_that_is_unknown_is_none(trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(f"{REQUIRED},status\na,0,60,1,Unknown\nb,1,60,1,COMPLETED\nc,2,60,1,\n")
    assert converted(path)[1]["status"].to_list() == [None, "COMPLETED", None]
    told = answer(capsys, "info", str(path.with_name("w.parquet")))
    assert "Unknown" not in json.dumps(told["statuses"])


TRUE, FALSE = ("True", "TRUE", "true", "tRUE"), ("False", "FALSE", "false", "fALSE")


def test_truth_values_in_any_case_are_1_and_0(trace: Trace) -> None:
    cells = [*TRUE, *FALSE, "1", "0", " True ", '"false"', "", "None"]
    rows = "".join(f"j{k},{k},60,1,{cell}\n" for k, cell in enumerate(cells))
    report, frame = converted(trace(f"{REQUIRED},different_machines\n{rows}"))
    assert report.rejected == {}
    assert frame["different_machines"].to_list() == [1] * 4 + [0] * 4 + [1, 0, 1, 0, None, None]


def test_what_is_no_truth_value_still_costs_the_row(trace: Trace) -> None:
    cells = ["Truely", "yes", "T", "0.5", "2", "-1", "True False"]
    rows = "".join(f"j{k},{k},60,1,{cell}\n" for k, cell in enumerate(cells))
    report, frame = converted(trace(f"{REQUIRED},different_machines\n{rows}sound,9,60,1,True\n"))
    assert frame.select("job_id", "different_machines").rows() == [("sound", 1)]
    assert sum(report.rejected.values()) == len(cells)
    assert all(reason.endswith("_different_machines") for reason in report.rejected)


def test_texts_of_truth_values_stay_texts_in_columns_of_texts(trace: Trace) -> None:
    _, frame = converted(trace(f"{REQUIRED},user,vc\na,0,60,1,True,false\n"))
    assert frame.select("user", "vc").rows() == [("True", "false")]


FUNCTION = '''
import math

import polars as pl


def jobs(path):
    """Rows as pandas hands them over: NaN for a missing number, None for a missing truth value."""
    return pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_s": [0.0, 1.0, 2.0, 3.0],
            "duration_s": [60.0, 60.0, math.nan, 60.0],
            "num_gpus": [1.0, 2.0, 1.0, 4.0],
            "wait_s": [math.nan, 5.0, 1.0, None],
            "priority": [math.nan, 3.0, 1.0, None],
            "user": ["None", "ann", "ben", "<NA>"],
            "different_machines": [True, False, True, None],
        }
    )
'''


def test_a_table_of_pandas_is_read_by_a_format_of_ones_own(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = trace(FUNCTION, "rows_of_pandas.py")
    monkeypatch.chdir(module.parent)
    monkeypatch.syspath_prepend(module.parent)
    report, frame = converted(trace("not looked at", "rows.pickle"), format_name="rows_of_pandas:jobs")
    found = frame.select("job_id", "wait_s", "priority", "user", "different_machines").rows()
    assert found == [("a", None, None, None, 1), ("b", 5, 3, "ann", 0), ("d", None, None, None, None)]
    assert sum(report.rejected.values()) == 1


def test_a_pod_list_that_pandas_wrote_has_pods_that_never_started(trace: Trace) -> None:
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
        "creation_time,deletion_time,scheduled_time\n"
    )
    rows = (
        "p,4000,2048,1,1000,NaN,LS,Succeeded,0,20,10\n"
        "q,NaN,NaN,1,1000,,LS,Succeeded,0,20,10\n"
        "r,4000,2048,1,1000,,LS,Pending,0,NaN,NaN\n"
        "s,4000,2048,1,1000,,LS,Running,0,NaN,10.0\n"
    )
    report, frame = converted(trace(header + rows), format_name="gpu-pods")
    # A blank demand of a pod is null, which counts as 0.
    found = frame.select("job_id", "cpu_per_task", "memory_gib_per_task").fill_null(0).rows()
    assert found == [("p", 4, 2), ("q", 0, 0)]
    assert report.rejected == {"never_started": 1, "missing_end": 1}
    assert report.notes["pods_that_ask_for_gpu_models"] == 0
