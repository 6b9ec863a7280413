"""The live page of a sweep: counts and common seeds, on the loopback interface only, to its last state."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from ray_sim.experiments.live_page import REFRESH_S, LivePage
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult
from tests.results_by_hand import three_jobs
from tests.stored_sweeps import store_results

AGAIN = f'<meta http-equiv="refresh" content="{REFRESH_S}">'


@pytest.fixture
def page(tmp_path: Path) -> LivePage:
    """Three seeds, two of which both policies have: mean JCTs (10 + last) / 2 of 25, 26 and 30, 32."""
    given: dict[str, list[RunResult | None]] = {
        "fifo": [*map(three_jobs, (40.0, 42.0)), None],
        "las": [*map(three_jobs, (50.0, 54.0, 9.0))],
    }
    store = store_results(tmp_path, "study", given)
    made = LivePage("study", store, store.read_plan()[1])
    made.progress(5, 0, 6)
    made.under_way(3)
    return made


def _facts(html: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))


def test_a_page_counts_runs_and_compares_over_common_seeds(page: LivePage) -> None:
    html = page.html().decode()
    facts = _facts(html)
    # Of six runs five are done; so only one of the three that Ray was given is left.
    assert (facts["done"], facts["running, or next on a core"], facts["left"]) == ("5 of 6", "1", "0")
    assert re.findall(r'<tr><td>(.*?)</td><td class="number">(.*?)</td>', html) == [
        ("fifo", "26 s"),
        ("las", "31 s"),
    ]
    assert "least mean JCT: fifo: 26 s (too few seeds) over 2 common seeds" in html
    assert AGAIN in html


def test_failed_runs_are_not_done(page: LivePage) -> None:
    page.progress(5, 2, 9)
    facts = _facts(page.html().decode())
    assert [facts[key] for key in ("done", "failed", "running, or next on a core", "left")] == [
        "3 of 9",
        "2",
        "3",
        "1",
    ]


def test_only_the_page_is_served_and_only_to_this_machine(page: LivePage) -> None:
    with page.served(0) as link:
        address = urlsplit(link)
        assert (address.hostname, address.path) == ("127.0.0.1", "/")
        for method, path, host, status in [
            ("GET", "/", address.netloc, 200),
            ("GET", "/", f"localhost:{address.port}", 200),
            ("GET", "/", "elsewhere.example", 404),
            ("GET", "/../sweep.json", address.netloc, 404),
            ("GET", "/sweep.json", address.netloc, 404),
            ("POST", "/", address.netloc, 501),
        ]:
            connection = HTTPConnection("127.0.0.1", address.port or 0)
            connection.request(method, path, headers={"Host": host})
            assert connection.getresponse().status == status, (method, path, host)
            connection.close()
        last = ThreadPoolExecutor(1).submit(_last_page, link)
    html = last.result()
    assert AGAIN not in html
    assert _facts(html)["left"] == "1"  # one run never ended


def _last_page(link: str) -> str:
    """Load a page as a browser does, until it is the last one."""
    while "the sweep has ended" not in (html := urlopen(link).read().decode()):
        pass
    return str(html)


def test_a_taken_port_is_named(page: LivePage) -> None:
    with page.served(0) as link:
        port = urlsplit(link).port or 0
        with (
            pytest.raises(InvalidInputError, match=f"port {port} of 127.0.0.1: .*choose another one"),
            page.served(port),
        ):
            pass
