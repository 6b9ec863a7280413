"""Progress of calls from Python: nothing in a pipe, a bar in a notebook, nothing for a short call."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ray_sim.kernels.compile import compiled_before
from ray_sim.progress import in_notebook, shown_progress


class Screen:
    """A notebook's output: what its front end would show after each change."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Screen:
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A kernel of a notebook, as far as IPython's interface shows it."""
    screen = Screen()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=screen.display))
    return screen


def test_output_that_is_no_terminal_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not in_notebook()
    with shown_progress("sweep", show=True) as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_notebook_shows_a_long_call_and_clears_its_bar_at_the_end(screen: Screen) -> None:
    # One look at the clock at the start, then the report's, the bar's and the pace's: 2 s later each time.
    seconds = iter(range(0, 100, 2))
    with shown_progress("sweep <b>", show=True, compiles=False, clock=lambda: float(next(seconds))) as report:
        report(1, 4, "least: las")
        assert screen.shown[-1]["text/plain"] == "sweep <b> 1 of 4, least: las"
        assert '<progress value="1" max="4">' in screen.shown[-1]["text/html"]
        assert "sweep &lt;b&gt;" in screen.shown[-1]["text/html"]
    assert screen.shown[-1] == {"text/plain": "", "text/html": ""}


def test_a_short_call_or_one_that_asks_for_silence_shows_nothing(screen: Screen) -> None:
    with shown_progress("simulate", show=True, compiles=not compiled_before(), clock=lambda: 0.0) as report:
        report(1, 4)
    with shown_progress("simulate", show=False, compiles=False, clock=iter([0.0, 9.0]).__next__) as report:
        report(1, 4)
    assert screen.shown == []
