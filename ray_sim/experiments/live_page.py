"""Page on a running sweep that browsers of this machine load again and again: `ray-sim sweep --live`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.sweep_info import Ranking, Standings
from ray_sim.model.errors import InvalidInputError, RaySimError
from ray_sim.model.readable import duration
from ray_sim.progress import Pace
from ray_sim.reports.page import Cell, Page, Section, Table, fact_texts, number_cell, render
from ray_sim.reports.statistics import interval_text

REFRESH_S = 3
"""Seconds after which a browser loads the page again."""

LOOPBACK = "127.0.0.1"


class LivePage:
    """State of a sweep that runs in this process; threads of the server read it."""

    def __init__(self, name: str, store: ResultStore, entries: Iterable[Entry]) -> None:
        self._name, self._standings, self._pace = name, Standings(store, entries), Pace()
        self._counts, self._rate, self._under_way = (0, 0, 0), "", 0
        self._reading = threading.Lock()
        self._asked_at = -float("inf")
        self._ending, self._told = threading.Event(), threading.Event()

    def progress(self, done: int, failed: int, total: int) -> None:
        """Note the configurations that have ended, of these those that failed, and all."""
        self._counts, self._rate = (done, failed, total), self._pace.text(done, total)

    def under_way(self, count: int) -> None:
        """Note the number of configurations that run, or that wait for a core of Ray."""
        self._under_way = count

    def html(self) -> bytes:
        """The page as it is now; that of a sweep that has ended does not load itself again."""
        self._asked_at, last = time.monotonic(), self._ending.is_set()
        with self._reading:
            with suppress(RaySimError, OSError):  # a result that is being replaced
                self._standings.update()
            rankings = self._standings.rankings()
        ended, failed, total = self._counts
        running = 0 if last else min(self._under_way, total - ended)
        facts = {
            "done": f"{ended - failed:,} of {total:,}",
            "running, or next on a core": running,
            "failed": failed,
            "left": total - ended - running,
            "pace": self._rate or "-",
        }
        state = "the sweep has ended" if last else f"loads itself again every {REFRESH_S} s"
        sections = (Section("Progress", facts=fact_texts(facts.items())), *map(_section, rankings))
        if last:
            self._told.set()
        return render(Page(f"Sweep {self._name}", state, sections, 0 if last else REFRESH_S))

    @contextmanager
    def served(self, port: int) -> Iterator[str]:
        """Serve the page on the loopback interface until the block ends, and yield its address.

        A browser that has just loaded it gets the last state before the server ends. Port 0 takes a free one.

        Raises
        ------
        InvalidInputError : the port is taken, or not allowed
        """
        try:
            server = _Server((LOOPBACK, port), _Answer)
        except OSError as error:
            problem = f"port {port} of {LOOPBACK}: {error.strerror}; choose another one, or 0 for any"
            raise InvalidInputError(problem) from error
        server.page = self
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/"
            self._ending.set()
            if time.monotonic() - self._asked_at < 2 * REFRESH_S:
                self._told.wait(2 * REFRESH_S)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    page: LivePage
    daemon_threads = False  # its end waits for answers under way


class _Answer(BaseHTTPRequestHandler):
    server: _Server
    timeout = 2

    def do_GET(self) -> None:
        """Answer ``/`` with the page; a request under another name comes from a foreign site."""
        hosts = [f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")]
        if self.headers.get("Host") not in hosts or self.path != "/":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.page.html())

    def log_message(self, *_: object) -> None:
        """Say nothing: the terminal shows the progress of the sweep."""


def _section(ranking: Ranking) -> Section:
    rows = [
        (each.policy, duration(each.mean_jct_s), interval_text(each.interval, each.runs, duration))
        for each in ranking.standings
    ]
    cells = tuple((Cell(policy), number_cell(mean), number_cell(ends)) for policy, mean, ends in rows)
    tables = (Table(("policy", "mean JCT", "95 % interval"), cells),) if cells else ()
    return Section(ranking.place, text=(f"{ranking.label}: {ranking.text}",), tables=tables)
