"""`make fuzz`: many damaged traces of every format, mutated mapping and sweep files, and command lines.

A conversion must end in a report that counts every record, or in an error of ours: never in a traceback,
a hang, or memory without bound. Totals are printed as JSON; the exit code is 1 where something went wrong,
and the file that did it is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import numpy as np

from benchmarks.processes import peak_mb, python
from tests.damaged import GOOD, PIECES, RECORDS, counts_or_error, file_of
from tests.mutated_inputs import totals_of

DAMAGED = 100_000
"""Damaged records of each format, by default; and a hundredth of it damaged files."""

CASES = {"maps": 10_000, "sweeps": 3_000, "commands": 1_000}
"""Mutated inputs of each kind, by default."""

RECORDS_PER_FILE = 250
GOOD_PER_FILE = 25
"""Records that stay as they are, so that there is something to convert."""

LONG_RECORD = 10_000_000
"""Bytes of the longest record."""

TIMEOUT_S = 120
MAX_MB = 1500

_VALUES: tuple[object, ...] = (
    *(None, True, -1, 0, 7, 1e300, 10**30, "", "None", "x", "\ud800", [], {}),
    *("2017-13-45 99:99:99", "2017-11-05 01:30:00"),
)
"""What takes the place of a value of a job log."""


def damaged_bytes(rng: np.random.Generator, content: bytes, edits: int) -> bytes:
    """The content with some stretches of up to 20 bytes replaced."""
    for _ in range(edits):
        start = int(rng.integers(len(content) + 1))
        end = start + int(rng.integers(21))
        known, unknown = PIECES[int(rng.integers(len(PIECES)))], rng.bytes(int(rng.integers(5)))
        content = content[:start] + (known if rng.random() < 0.7 else unknown) + content[end:]
    return content


def damaged_value(rng: np.random.Generator, value: object) -> object:
    """A JSON value with one value somewhere in it replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        return {**value, key: damaged_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        return [*value[:place], damaged_value(rng, value[place]), *value[place + 1 :]]
    return _VALUES[int(rng.integers(len(_VALUES)))]


def file_of_records(rng: np.random.Generator, name: str) -> bytes:
    """Right records and damaged ones, in one file that is otherwise right."""
    count = RECORDS_PER_FILE + GOOD_PER_FILE
    records = [RECORDS[name](i) for i in range(count)]
    return file_of(
        name, [*records[:GOOD_PER_FILE], *(_damaged(rng, name, r) for r in records[GOOD_PER_FILE:])]
    )


def _damaged(rng: np.random.Generator, name: str, record: bytes) -> bytes:
    """A record that its neighbours survive: JSON stays JSON, and a line stays text."""
    if name == "philly":
        return json.dumps(damaged_value(rng, json.loads(record))).encode()
    damaged = damaged_bytes(rng, record, int(rng.integers(1, 4)))
    return damaged.decode(errors="ignore").encode().rstrip(b"\n") + b"\n"


def damaged_file(rng: np.random.Generator, name: str) -> bytes:
    """A right file that is damaged somewhere, packed and damaged, cut, or odd as a whole."""
    content = GOOD[name]
    ways: list[Callable[[], bytes]] = [
        lambda: damaged_bytes(rng, content, int(rng.integers(1, 6))),
        lambda: gzip.compress(damaged_bytes(rng, content, int(rng.integers(1, 6))), mtime=0),
        lambda: damaged_bytes(rng, gzip.compress(content, mtime=0), 1),
        lambda: gzip.compress(content, mtime=0)[: int(rng.integers(len(content)))],
        lambda: content[: int(rng.integers(len(content)))],
        lambda: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"),
        lambda: b"# a comment\n" + content,
        lambda: content + content,
        lambda: content.replace(b",", b',"', 1 + int(rng.integers(5))),
        lambda: content + GOOD[sorted(GOOD)[int(rng.integers(len(GOOD)))]],
        lambda: rng.bytes(int(rng.integers(1, 300))),
    ]
    return ways[int(rng.integers(len(ways)))]()


def long_records(name: str) -> Iterator[bytes]:
    """Files with one record of `LONG_RECORD`: of text, of digits, of quotes, of fields."""
    for filler in (b"x", b"9", b'""', b"a,", b"{"):
        long = filler * (LONG_RECORD // len(filler))
        if name == "philly":
            yield b'[{"jobid": "' + long.replace(b'"', b"'") + b'"}]'
            yield GOOD[name].rstrip()[:-1] + b"," + long + b"]"
        else:
            yield GOOD[name] + long + b"\n"


def files(rng: np.random.Generator, name: str, records: int) -> Iterator[tuple[int, bytes]]:
    """Each damaged file, and how many damaged records it has; one damaged as a whole counts as one."""
    for _ in range(-(-records // RECORDS_PER_FILE)):
        yield RECORDS_PER_FILE, file_of_records(rng, name)
    for _ in range(records // 100):
        yield 1, damaged_file(rng, name)
    for content in long_records(name):
        yield 1, content


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end after {TIMEOUT_S} s")


def run_format(name: str, records: int, seed: int, keep: Path) -> dict[str, object]:
    """Convert damaged files of one format; totals."""
    rng = np.random.default_rng(seed)
    totals: Counter[str] = Counter({"failed": 0})
    reasons: Counter[str] = Counter()
    began = time.perf_counter()
    signal.signal(signal.SIGALRM, _too_late)
    with tempfile.TemporaryDirectory(prefix="ray-sim-fuzz-") as folder:
        for damaged, content in files(rng, name, records):
            totals.update({"damaged": damaged, "files": 1})
            signal.alarm(TIMEOUT_S)
            try:
                report = counts_or_error(name, content, Path(folder))
            except BaseException:  # also what Rust panics with
                totals["failed"] += 1
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}-{totals['files']}").write_bytes(content)
                traceback.print_exc()
                continue
            finally:
                signal.alarm(0)
            if report is None:
                totals["refused_files"] += 1
            else:
                totals.update({"rows_read": report.read, "rows_kept": report.kept})
                reasons.update(report.rejected)
    return {
        **totals,
        "rows_rejected": reasons.total(),
        "reasons": len(reasons),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mb": round(peak_mb()),
    }


def main() -> int:
    """Run all formats, each in a process of its own, or one of them in this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", "traces", *CASES), default="all")
    parser.add_argument("--cases", type=int, help=f"of maps, sweeps or commands; by default {CASES}")
    parser.add_argument("--records", type=int, default=DAMAGED)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-failures"), help="folder of files that failed"
    )
    parser.add_argument("--format", choices=sorted(GOOD))
    asked = parser.parse_args()
    if asked.format is not None:
        json.dump(run_format(asked.format, asked.records, asked.seed, asked.keep), sys.stdout)
        return 0
    totals: dict[str, dict[str, float]] = {}
    for kind, count in CASES.items():
        if asked.what in ("all", kind):
            totals[kind] = _mutated(kind, asked.cases or count, asked.seed)
    for name in sorted(GOOD) if asked.what in ("all", "traces") else ():
        options = ["--records", str(asked.records), "--seed", str(asked.seed), "--keep", str(asked.keep)]
        _, output = python("-m", "tests.fuzz", "--format", name, *options)
        totals[name] = json.loads(output)
        sys.stderr.write(f"{name}: {output}\n")
    json.dump(totals, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return int(any(one["failed"] or one.get("peak_mb", 0) > MAX_MB for one in totals.values()))


def _mutated(kind: str, count: int, seed: int) -> dict[str, float]:
    """Mutated inputs of one kind; the tracebacks of those that failed are printed."""
    with tempfile.TemporaryDirectory(prefix="ray-sim-fuzz-") as folder:
        totals, tracebacks = totals_of(kind, count, seed, Path(folder))
    sys.stderr.write("".join(f"{kind}: {text}\n" for text in tracebacks) + f"{kind}: {totals}\n")
    return totals


if __name__ == "__main__":
    sys.exit(main())
