"""Dates in tables against Python's datetime, csv and zoneinfo."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.proofs import quick_first
from tests.workloads.conversions import Trace
from tests.workloads.conversions import converted as of_table
from workloads.convert import ConversionReport, convert
from workloads.formats.tables import times
from workloads.formats.tables.times import dates_of, form_problem, iso_dates, with_dates
from workloads.store import read_frame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RANGE_US = 128 * 365 * 86_400 * 10**6
"""From 1971 to 2098; from 2100 on, polars knows no summer time."""

# Polars warns on standard error of codes that are not what they seem.
pytestmark = pytest.mark.filterwarnings("error")


def random_time(rng: random.Random) -> datetime:
    return datetime(1971, 1, 1) + timedelta(microseconds=rng.randrange(RANGE_US))


def seconds(time: datetime) -> float:
    return (time - EPOCH) // timedelta(microseconds=1) / 10**6


def read(texts: Sequence[str], form: str | None = None, zone: str = "UTC") -> list[float | None]:
    rows = pl.LazyFrame({"text": texts}, {"text": pl.String})
    return (
        with_dates(rows, "cell", dates_of(pl.col("text"), form), zone).collect()["first_s of cell"].to_list()
    )


def converted(trace: Trace, cells: list[str], mapping: str = "", rebase: bool = False) -> ConversionReport:
    rows = "".join(f'"{cell}",60,1\n' for cell in cells)
    path = trace(f"submit_s,duration_s,num_gpus\n{rows}")
    return of_table(path, mapping or None, rebase=rebase)[0]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_iso_dates_are_the_instants_that_python_reads(zone: str) -> None:
    rng = random.Random(zone)
    texts, expected = [], []
    for _ in range(4_000):
        time = random_time(rng)
        digits = f"{time.microsecond:06}"[: rng.randint(0, 6)]
        clock = rng.choice([f"{time:%H:%M:%S}" + (f".{digits}" if digits else ""), f"{time:%H:%M}"])
        offset = rng.choice(["", "Z", "z", "+05:30", "-0800", "+14", "-12:45"])
        text = f"{time:%Y-%m-%d}{rng.choice('Tt ')}{clock}{offset}"
        known = datetime.fromisoformat(text.upper())
        if known.tzinfo is None:
            known = known.replace(tzinfo=ZoneInfo(zone))
            if known.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) != known.replace(
                tzinfo=None
            ):
                continue  # an hour that the clocks skipped
        texts.append(text)
        expected.append(seconds(known.astimezone(UTC)))
    assert read(texts, None, zone) == expected


@pytest.mark.parametrize(
    ("ours", "pythons"),
    [
        ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M:%S.%f"),
        ("%Y-%m-%d %H:%M:%S.%6f", "%Y-%m-%d %H:%M:%S.%f"),
        ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S"),
        ("%b %d %Y %I:%M:%S %p", "%b %d %Y %I:%M:%S %p"),
        ("%Y%m%d%H%M%S%.f", "%Y%m%d%H%M%S.%f"),
        ("%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M:%S.%f%z"),
        ("%Y-%m-%dT%H:%M:%S%#z", "%Y-%m-%dT%H:%M:%S%z"),
        ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%z"),
        ("%Y-%m-%d", "%Y-%m-%d"),
        ("%F %T", "%Y-%m-%d %H:%M:%S"),
        ("%s", "%Y-%m-%d"),
    ],
)
def test_dates_of_a_stated_form_are_the_instants_that_python_reads(ours: str, pythons: str) -> None:
    rng = random.Random(ours)
    zones = [UTC, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/Caracas")]
    times = [random_time(rng).replace(tzinfo=rng.choice(zones)) for _ in range(500)]
    texts = [f"{time:{pythons}}" for time in times]
    known = [datetime.strptime(text, pythons) for text in texts]
    expected = [seconds(time if time.tzinfo else time.replace(tzinfo=UTC)) for time in known]
    if ours == "%s":
        texts = [f"{time:.0f}" for time in expected]
    assert read(texts, ours) == expected
    assert form_problem(ours, None) is None


def test_no_fraction_of_a_second_is_lost_or_moved(trace: Trace) -> None:
    cells = [
        "2017-10-09 03:00:00.9",
        "2017-10-09 03:00:00.09",
        "2017-10-09 03:00:00",
        "2017-10-09 03:00:00.000001",
    ]
    expected = [0.0, 0.000001, 0.09, 0.9]
    for mapping in ("", 'time_format: "%Y-%m-%d %H:%M:%S%.f"'):
        frame = read_frame(converted(trace, cells, mapping, rebase=True).out)
        assert frame["submit_s"].to_list() == pytest.approx(expected, abs=2.4e-7)  # a bit of 1.5e9 s


def test_rows_of_one_column_may_be_written_in_all_of_these_ways(trace: Trace) -> None:
    # All are 2017-10-09 10:00 UTC, but for the fractions of a second that tell them apart.
    cells = [
        *("2017-10-09T10:00:00.5Z", "2017-10-09 15:30:00.25+05:30", "2017-10-09T03:00:00,125", "1507543200"),
        *("2017-10-09T02:00:00.0625-0800", "2017-10-09 10:00:00.1234567891 +00", "2017-10-09T03:00"),
    ]
    report = converted(trace, cells, "time_zone: America/Los_Angeles")
    frame = read_frame(report.out).sort("trace_order")
    shifts = [time - 1_507_543_200 for time in frame["submit_s"]]
    assert shifts == [0.5, 0.25, 0.125, 0.0, 0.0625, 0.0]
    assert report.rejected == {"invalid_submit_s": 1}  # ten digits are no fraction of a clock
    assert report.notes["epoch_utc"] == "1970-01-01T00:00:00+00:00"
    assert report.warnings == (
        "submit_s: 5 rows have dates and 1 have numbers, which are taken as seconds since 1970 in UTC",
    )


def test_digits_beyond_microseconds_are_cut() -> None:
    assert read(["1971-01-01T00:00:00.123456999"]) == [365 * 86_400 + 0.123456]


@pytest.mark.slow
def test_dates_are_read_once_and_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A table may exceed memory, and megabytes read are told as their dates are.
    lengths = []

    def noted(texts: pl.Series) -> pl.Series:
        lengths.append(len(texts))
        return iso_dates(texts)

    monkeypatch.setattr(times, "iso_dates", noted)
    count = 300_000
    (tmp_path / "dates.txt").write_text("2017-10-09T10:00:00\n" * count)
    rows = pl.scan_lines(tmp_path / "dates.txt", name="text")
    dates = with_dates(rows, "cell", times.dates_of(pl.col("text"), None), "UTC")
    assert dates.collect(engine="streaming")["first_s of cell"].n_unique() == 1
    assert sum(lengths) == count
    assert max(lengths) < count


@pytest.mark.parametrize(
    "text",
    quick_first(
        [
            *(
                "2017-02-29",
                "2017-10-09T24:00:00",
                "2017-10-09T10:60",
                "2017-10-09T10:00:60",
                "2017-10-9",
                "2017-10",
            ),
            *(
                "2017-10-09T10:00:00+24:00",
                "2017-10-09Z",
                "20171009T100000Z",
                "09.10.2017",
                "2017-10-09T10",
                "soon",
            ),
            *("2017-10-09T10:00:00 UTC", "٢٠١٧-10-09", "2017-10-09T10:00:00.", "T10:00"),
        ],
        2,
    ),
)
def test_what_is_no_iso_date_is_rejected(trace: Trace, text: str) -> None:
    report = converted(trace, [text, "2017-10-09T10:00:00Z"])
    assert (report.kept, report.rejected) == (1, {"invalid_submit_s": 1})


def test_the_double_hour_is_its_first_pass_and_the_skipped_one_is_rejected(trace: Trace) -> None:
    cells = ["2017-11-05T01:30", "2017-11-05T01:30-08:00", "2017-03-12T02:30", "2017-03-12T02:30-08:00"]
    report = converted(trace, cells, "time_zone: America/Los_Angeles")
    zone = ZoneInfo("America/Los_Angeles")
    twice = [datetime(2017, 11, 5, 1, 30, tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)]
    found = read_frame(report.out)["submit_s"].to_list()
    assert found == [datetime(2017, 3, 12, 10, 30, tzinfo=UTC).timestamp(), *twice]
    assert report.rejected == {"skipped_submit_s": 1}
    assert report.notes["ambiguous_local_times"] == 1


@pytest.mark.parametrize(
    ("zone", "cells", "kept_s"),
    quick_first(
        [
            # Berlin is an hour ahead of UTC: its 1970 begins 3,600 s before ours.
            ("Europe/Berlin", ["1970-01-01", "1970-01-01T00:59:59.999999", "1970-01-01T01:00"], [0.0]),
            ("UTC", ["1970-01-01T00:00+05:30", "1969-12-31T23:59:59.5", "1969-12-31T18:30-05:30"], [0.0]),
            # Apia was 11 h behind: 1969-12-31 23:22:49 is 1970-01-01 10:22:49 in UTC.
            ("Pacific/Apia", ["1969-12-31T23:22:49", "1969-12-31T12:59:59"], [37_369.0]),
            # 2^32 s are 2106-02-07 06:28:16 in UTC.
            ("UTC", ["2106-02-07T06:28:16.000001", "2106-02-07T08:28:16+02:00"], [2.0**32]),
            ("UTC", ["9999-12-31T23:59-12:00", "0001-01-01T00:00+14", "1970-01-01T00:00:01"], [1.0]),
        ],
        2,
    ),
)
def test_the_range_of_dates_is_judged_in_utc(
    trace: Trace, zone: str, cells: list[str], kept_s: list[float]
) -> None:
    report = converted(trace, cells, f"time_zone: {zone}")
    assert read_frame(report.out)["submit_s"].to_list() == kept_s
    assert report.rejected == {"absurd_submit_s": len(cells) - len(kept_s)}


def test_dates_of_a_zone_end_where_its_summer_time_is_not_known(trace: Trace) -> None:
    # 2099-07-01 12:00 and 2100-07-01 12:00 are in summer time in Berlin, two hours ahead of UTC.
    cells = [
        "2099-07-01T12:00",
        "2099-12-31T23:59:59",
        "2100-01-01",
        "2100-07-01T12:00",
        "2100-07-01T12:00+02",
    ]
    report = converted(trace, cells, "time_zone: Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    expected = [
        datetime(2099, 7, 1, 12, tzinfo=zone).timestamp(),
        datetime(2099, 12, 31, 23, 59, 59, tzinfo=zone).timestamp(),
        datetime(2100, 7, 1, 10, tzinfo=UTC).timestamp(),
    ]
    assert read_frame(report.out)["submit_s"].to_list() == expected
    assert report.rejected == {"absurd_submit_s": 2}
    assert converted(trace, cells).kept == 5  # in UTC there is no summer time


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (
            "%Y-%m-%d %H:%M:%S%Z",
            ["2017-10-09 03:00:00PST", "2017-10-09 03:00:00Z"],
            [
                *("2017-10-09 03:00:00.75", "2017-10-09 03:00:00.75PST", "2017-10-09 03:00:00+05:30"),
                *("2017-10-09 03:00:00UTC+05:30", "2017-10-09 03:00:00", "2017-10-09 03:00:00PST PST"),
            ],
        ),
        ("%Y-%m-%d %H:%M%Z", ["2017-10-09 03:00PST"], ["2017-10-09 03:00:59", "2017-10-09 03:00:59PST"]),
        (
            "%Y-%m-%d %H:%M:%S %Z",
            [f"2017-10-09 03:00:00 {name}" for name in ("PST", "America/New_York", "America/Port-au-Prince")],
            [f"2017-10-09 03:00:00 {name}" for name in ("Etc/GMT+5", "-05", "UTC+05:30", "PST8PDT", "é")],
        ),
        ("%a %b %e %H:%M:%S %Z %Y", ["Mon Oct  9 03:00:00 PDT 2017"], ["Mon Oct  9 03:00:00 .75 2017"]),
        ("%Z %b %d %Y %I:%M:%S %p", ["PDT Oct 09 2017 03:00:00 AM"], ["+07 Oct 09 2017 03:00:00 AM"]),
        ("%Y-%m-%d %H:%M:%S 5%% %%Z", ["2017-10-09 03:00:00 5% %Z"], ["2017-10-09 03:00:00 5% PST"]),
    ],
)
def test_only_the_name_of_a_zone_is_skipped(form: str, good: list[str], bad: list[str]) -> None:
    known = datetime(2017, 10, 9, 3, tzinfo=UTC).timestamp()
    assert form_problem(form, "UTC") is None
    assert read([*good, *bad], form) == [known] * len(good) + [None] * len(bad)


def test_a_zone_that_no_date_needs_is_a_warning(trace: Trace) -> None:
    report = converted(trace, ["2017-10-09T10:00Z"], "time_zone: Europe/Berlin")
    assert report.warnings == (
        "time_zone Europe/Berlin: not used, as no kept row has a date without an offset",
    )


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (
            'time_format: "%Y-%m-%d %H:%M:%S.%f"',
            "time_format: %f is a count of nanoseconds, .* write %.f for",
        ),
        ('time_format: "%Y-%m-%d %H:%M:%S %Z"', "time_format: %Z skips the name of a zone"),
        ('{time_format: "%F %T %Z %Z", time_zone: UTC}', "time_format: %Z is there more than once"),
        ('{time_format: "%F %T%ZT", time_zone: UTC}', "time_format: '%F %T%ZT' writes .* reads no date"),
        ('time_format: "%Y-%m-%d %H"', "time_format: .* is no form of dates .*both hour and minute"),
        ('time_format: "%Q"', "time_format: '%Q' is no form of dates"),
        ('time_format: "%H:%M"', "time_format: '%H:%M' writes .* reads no date out of that"),
        ('time_format: ""', "time_format: '' writes"),
        ('{time_format: "%s", time_zone: Europe/Berlin}', "time_zone: the dates carry their offset"),
        ('{time_format: "%+", time_zone: Europe/Berlin}', "time_zone: the dates carry their offset"),
        ("time_zone: Mars/Olympus", "time_zone: unknown zone 'Mars/Olympus'"),
    ],
)
def test_a_form_that_loses_something_is_refused(trace: Trace, mapping: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        converted(trace, ["2017-10-09 03:00:00.9"], mapping)


@pytest.mark.parametrize(
    ("cell", "mapping", "told"),
    quick_first(
        [
            (
                "03/02/2017 04:05",
                "",
                "neither a number nor an ISO 8601 date; say how dates are .* `time_format`",
            ),
            (
                "2017-10-09T10:00Z",
                'time_format: "%d.%m.%Y"',
                "understood without `time_format`; leave that out",
            ),
            ("9.10.2017 10:00:00.9", 'time_format: "%d.%m.%Y %T"', "not of the time_format .* is %.f"),
            ("1507543200000", "", "the most is 68719476736 s; say the file's unit under `units`"),
            ("-1", "", "count from the first submission with --rebase"),
            ("", "", "is blank in line 2 of trace.csv: give one value for all rows under `constants`"),
        ],
        2,
    ),
)
def test_where_no_row_is_kept_the_error_shows_a_value_and_the_mend(
    trace: Trace, tmp_path: Path, cell: str, mapping: str, told: str
) -> None:
    with pytest.raises(InvalidWorkloadError, match=told) as error:
        converted(trace, [cell, cell], mapping)
    shown = repr(cell) if cell else "blank"
    assert f"submit_s is {shown} in line 2 of trace.csv" in str(error.value)
    rejects = tmp_path / "w.parquet.rejects.parquet"
    assert str(error.value).endswith(f"the rejected rows are in {rejects}")
    assert pl.read_parquet(rejects)["text"].to_list() == [f'"{cell}",60,1'] * 2
    assert not (tmp_path / "w.parquet").exists()


def test_the_mend_names_the_users_own_column(trace: Trace) -> None:
    path = trace("submit_s,Elapsed,num_gpus\n0,10 min,1\n1,3 min,1\n2,3,1,1\n")
    told = r"duration_s \(column 'Elapsed'\) is '10 min' in line 2 of trace.csv: a number has a point"
    with pytest.raises(InvalidWorkloadError, match=told):
        of_table(path, "columns: {duration_s: Elapsed}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "outlook", "told"),
    [
        ("deadline 5 100", "10:20:0.5 20:30:0.4", "probabilities sum to 0.9, must sum to 1"),
        ("step 5@10 6@20", "10:20:1", "a later completion must not be worth more"),
    ],
)
def test_a_text_without_its_form_is_named_with_what_is_wrong_in_it(
    trace: Trace, value: str, outlook: str, told: str
) -> None:
    header = "submit_s,duration_s,num_gpus,birth_s,value,outlook"
    path = trace(f"{header}\n10,20,1,0,{value},{outlook}\n")
    with pytest.raises(InvalidWorkloadError, match=told):
        convert("csv", [path], path.with_name("w.parquet"))


def test_rows_without_a_form_beside_sound_ones_are_warned_of_with_the_first_and_its_mend(
    trace: Trace,
) -> None:
    rows = ["deadline 5 100,10:20:1", "deadline 5 100,10:20:0.5 20:30:0.4", "step 5@10 6@20,10:20:1"]
    rows += ["deadline 5 100,10:20:0.5"]
    told = "\n".join(f"10,20,1,0,{row}" for row in rows)
    path = trace(f"submit_s,duration_s,num_gpus,birth_s,value,outlook\n{told}\n")
    report = convert("csv", [path], path.with_name("w.parquet"))
    assert (report.kept, report.rejected) == (1, {"invalid_outlook": 2, "invalid_value": 1})
    outlook, value = report.warnings
    assert outlook.startswith(
        "invalid_outlook: 2 rows rejected; outlook is '10:20:0.5 20:30:0.4' in line 3 of trace.csv: "
        "probabilities sum to 0.9, must sum to 1; divide each by the sum; wanted: points AFTER:DURATION"
    )
    assert value.startswith("invalid_value: 1 row rejected; value is 'step 5@10 6@20' in line 4 of trace.csv")
    assert "a later completion must not be worth more" in value


def test_a_table_that_csv_and_datetime_read_is_read_alike(trace: Trace) -> None:
    rng = random.Random(0)
    cells = []
    for _ in range(300):
        time = random_time(rng)
        cells.append(
            rng.choice([time.isoformat(), f"{time.isoformat(sep=' ')}Z", "x", "", f"{time:%Y/%m/%d}"])
        )
    report = converted(trace, cells)
    expected = []
    with report.sources[0].open(newline="") as stream:
        for row, line in enumerate(csv.DictReader(stream)):
            try:
                time = datetime.fromisoformat(line["submit_s"])
            except ValueError:
                continue
            expected.append((str(row), seconds(time if time.tzinfo else time.replace(tzinfo=UTC))))
    frame = read_frame(report.out).sort("trace_order")
    assert frame.select("job_id", "submit_s").rows() == expected


@pytest.mark.parametrize(
    ("mapping", "cells", "expected"),
    quick_first([
        # Numbers among dates are in the unit of `units`, and count from 1970 as the dates do.
        ("units: {submit_s: min}", ["1970-01-01T00:10Z", "20"], [600, 1200]),
        ("{columns: {submit_s: at}, units: {submit_s: min}}", ["1970-01-01T00:10", "20"], [600, 1200]),
        ("{derived: {submit_s: at + 1}, units: {submit_s: min}}", ["1970-01-01T00:10", "20"], [601, 1260]),
        # By time_format submit_s has dates only; in an expression what has not the form is a number.
        ("{columns: {submit_s: at}, time_format: '%d.%m.%Y %H:%M'}", ["01.01.1970 00:10", "20"], [600, None]),
        ("{derived: {submit_s: at + 1}, time_format: '%d.%m.%Y'}", ["02.01.1970", "20"], [86401, 21]),
        ("{derived: {submit_s: at}, time_format: '%d.%m.%Y %H:%M'}", ["1970-01-01T00:10", "20"], [None, 20]),
        ("{derived: {submit_s: at}, cells: {at: {time_format: '%Y%m%d'}}}", ["19700102", "2"], [86400, None]),
        # A skipped time and a date out of range are unread; an absurd or negative operand is a number.
        ("{derived: {submit_s: at + 1}, time_zone: Europe/Berlin}", ["2023-03-26T02:30", "20"], [None, 21]),
        ("{derived: {submit_s: 'max(at, 1)'}}", ["9999-01-01", "-7", "1e300"], [None, 1, None]),
        ("{derived: {submit_s: at / 1e300}}", ["1e300", "0"], [1, 0]),
    ], 2),
)  # fmt: skip
def test_numbers_and_dates_of_one_column(
    trace: Trace, mapping: str, cells: list[str], expected: list[float | None]
) -> None:
    rows = "".join(f"{row},{cell},60,1\n" for row, cell in enumerate(cells))
    path = trace(
        f"job_id,{'at' if ' at' in mapping or '(at' in mapping else 'submit_s'},duration_s,num_gpus\n{rows}"
    )
    report, frame = of_table(path, mapping)
    found = dict(frame.select("job_id", "submit_s").iter_rows())
    assert [found.get(str(row)) for row in range(len(cells))] == expected
    assert sum(report.rejected.values()) == expected.count(None)
