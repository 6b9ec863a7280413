"""The command line, `ray-sim`: commands are functions of their names, listed in `app`.

They import heavy packages inside their functions, so that --help is fast.
"""

from __future__ import annotations

import signal


def process() -> int:
    """Run a command as a process of its own; Ctrl-C during the imports ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ray_sim.cli.app import process as run_process

    return run_process()


def main(argv: list[str] | None = None) -> int:
    """Run a command in this process; see `ray_sim.cli.app.main`."""
    from ray_sim.cli.app import main as run

    return run(argv)
