"""MLflow servers on loopback addresses, and a PostgreSQL database for them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.patience import PATIENCE_S, until


def free_port() -> int:
    """A port of 127.0.0.1 on which no process listens now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def mlflow_server(
    store: str, artifacts: str | Path, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a server over a store and a place for artifacts; yields its address once it answers."""
    address = f"http://127.0.0.1:{port or (port := free_port())}"
    options = ["--backend-store-uri", store, "--artifacts-destination", str(artifacts), "--workers", "1"]
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), *options]
    server = subprocess.Popen(
        command,
        env={**kept, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: server.poll() is not None or _answers(f"{address}/health"), "the server answers")
        assert server.poll() is None, f"the MLflow server ended by itself: {command}"
        yield address
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE_S)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def postgres_programs() -> Path | None:
    """Folder of PostgreSQL's initdb and postgres; None if they are not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "postgres").exists() else None


@contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """Start PostgreSQL with a database in a temporary folder; yields its URI for SQLAlchemy.

    PostgreSQL refuses to run as root, so root starts it under the account ``nobody``.
    """
    user = "nobody" if os.geteuid() == 0 else None
    folder, port = Path(tempfile.mkdtemp()), free_port()
    try:
        if user is not None:
            shutil.chown(folder, user)
        make = [str(programs / "initdb"), "-D", "data", "-U", "mlflow", "--auth=trust", "--no-sync"]
        subprocess.run(make, user=user, cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S)
        options = ["-h", "127.0.0.1", "-p", str(port), "-c", "unix_socket_directories=", "-F"]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [str(programs / "postgres"), "-D", "data", *options],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            until(lambda: _accepts(port), "PostgreSQL accepts connections")
            yield f"postgresql+psycopg2://mlflow@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # end sessions, then the server
            server.wait(PATIENCE_S)
    finally:
        shutil.rmtree(folder)


def _accepts(port: int) -> bool:
    """Whether PostgreSQL takes a session; while it starts, it refuses them."""
    import psycopg2

    with suppress(psycopg2.OperationalError):
        psycopg2.connect(host="127.0.0.1", port=port, user="mlflow", dbname="postgres").close()
        return True
    return False
