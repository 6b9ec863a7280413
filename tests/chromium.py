"""Pages in headless Chromium: their document, and the answers of scripts in frames of given widths."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import Any

from tests.patience import PATIENCE_S

CATCH = "<script>window.failures = []; addEventListener('error', (e) => failures.push(e.message));"
CATCH += "console.error = (...all) => failures.push(all.join(' '));</script>"
"""Script for the head of a page: errors are kept in `window.failures`."""

_WALL = """
<meta name="color-scheme" content="light dark">
<script>
const answers = {};
addEventListener("message", ({ data: [name, answer] }) => {
  answers[name] = answer;
  if (Object.keys(answers).length === document.querySelectorAll("iframe").length)
    console.log("FOUND" + JSON.stringify(answers) + "DNUOF");
});
</script>
"""
"""Page of frames: the window of a browser without a screen is never as narrow as a phone, and a frame is."""


def document_of(browser: str, profile: Path, address: str, size: str) -> str:
    """Return the document after its scripts have run; the browser's clock runs ahead while nothing loads.

    Parameters
    ----------
    profile : folder for the browser's files
    size : width and height of the window in pixels
    """
    command = [*_command(browser, profile, size), "--virtual-time-budget=90000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


def _command(browser: str, profile: Path, size: str, *, dark: bool = False) -> list[str]:
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={profile}", f"--window-size={size}"]
    return [*command, f"--blink-settings=preferredColorScheme={0 if dark else 1}"]


def answers_of(
    browser: str, profile: Path, folder: Path, frames: Mapping[str, tuple[str, int]], *, dark: bool = False
) -> dict[str, dict[str, Any]]:
    """Open pages of a folder in frames and return what each posts to its parent, by name of the frame.

    A page posts ``[window.name, answer]``.

    Parameters
    ----------
    frames : page in the folder, with its query, and width in pixels, by name
    """
    wall = _WALL
    for name, (page, width) in frames.items():
        wall += f'<iframe width="{width}" height="900" name="{name}" src="{page}"></iframe>\n'
    (folder / "wall.html").write_text(wall)
    # In real time: a clock that runs ahead does not wait for the threads that unpack a page's data.
    command = [*_command(browser, profile, "1600,1200", dark=dark), "--enable-logging=stderr"]
    command.append((folder / "wall.html").as_uri())
    said = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        patience = Timer(PATIENCE_S, process.kill)
        patience.start()
        try:
            for line in process.stderr:
                said.append(line)
                if found := re.search(r'"FOUND(.*)DNUOF"', line):
                    answers: dict[str, dict[str, Any]] = json.loads(found[1])
                    return answers
        finally:
            patience.cancel()
            process.terminate()
    raise AssertionError("the page gave no answer:\n" + "".join(said[-20:]))
