"""MLflow's SQLite database: its file, its schema revision, and new ones as copies of a migrated template.

A copy of the template in the user's cache takes milliseconds; MLflow itself runs every migration of its
history, which takes seconds.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ray_sim.kernels.private_files import read_private

ARTIFACTS = "mlartifacts"
"""Folder of files beside the database."""


def sqlite_file(uri: str) -> Path | None:
    """Path of the database file of a plain SQLite URI."""
    path = uri.removeprefix("sqlite:///")
    return Path(path) if path not in (uri, "", ":memory:") and "?" not in path else None


def schema_revision() -> str | None:
    """Schema revision of this version of MLflow."""
    from alembic.script import ScriptDirectory
    from mlflow.store import db_migrations

    return ScriptDirectory(str(Path(db_migrations.__file__).parent)).get_current_head()


def migrate(database: Path) -> None:
    """Make a new store by all of MLflow's migrations."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{database}").search_experiments(max_results=1)


def relocate(database: Path, experiment_id: str) -> str | None:
    """Point an experiment to the files beside its database, which was moved or copied with them.

    MLflow keeps absolute locations. Those of other places, as of a store in a cloud, stay.

    Returns
    -------
    Location that was wrong; None if it was right
    """
    there = database.absolute().parent / ARTIFACTS
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
        old = str(connection.execute(query, (experiment_id,)).fetchone()[0])
        is_ours = old.startswith("file://") and old.endswith(f"/{ARTIFACTS}")
        if not is_ours or old == there.as_uri() or not there.is_dir():
            return None
        connection.execute(
            "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
            (there.as_uri(), experiment_id),
        )
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
            "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
            (there.as_uri(), len(old) + 1, experiment_id, len(old), old),
        )
        return old


@cache
def write_without_waiting(database: Path) -> None:
    """Commit to the database without waiting for the disk, in all later connections of this process.

    Waiting took most of the time. If the process dies, nothing is lost. If the machine dies, the database may
    be damaged; `ray-sim log` then writes a new one from the results beside it.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def _(connection: object, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            [(_, _, file), *_] = connection.execute("PRAGMA database_list")
            if file == str(database.resolve()):
                connection.execute("PRAGMA synchronous=OFF")


Migrate = Callable[[Path], None]
"""Function that makes a new MLflow store at a path."""


def new_database(database: Path, revision: str | None, migrate: Migrate) -> None:
    """Put a migrated, empty store at `database`, whole, unless a file exists there.

    Parameters
    ----------
    revision : schema revision of this MLflow; a template of another revision is replaced
    """
    if database.exists():
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    template = template_path()
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=f".{database.name}.") as folder:
        fresh = Path(folder) / "new.db"
        with suppress(OSError):  # none there, or one that another user may have written
            fresh.write_bytes(read_private(template))
        if not _is_sound(fresh, revision):
            fresh.unlink(missing_ok=True)
            _make(fresh, Path(folder) / "migrated.db", migrate)
            _keep(fresh, template)
        _place(fresh, database)


def template_path() -> Path:
    """Path of the template of this version of MLflow."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "ray_sim" / f"mlflow-{version('mlflow')}.db"


def _place(fresh: Path, database: Path) -> None:
    try:
        os.link(fresh, database)
    except FileExistsError:
        pass  # another process was quicker
    except OSError:  # a file system without hard links
        fresh.replace(database)


def _is_sound(template: Path, revision: str | None) -> bool:
    if not template.is_file():
        return False
    with closing(sqlite3.connect(f"{template.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
            return found == [(revision,)] and connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        except sqlite3.DatabaseError:
            return False


def _make(fresh: Path, migrated: Path, migrate: Migrate) -> None:
    migrate(migrated)
    with closing(sqlite3.connect(migrated)) as connection:
        # The default experiment contains a path; MLflow makes a new one if it is absent.
        connection.execute("DELETE FROM experiments")
        connection.commit()
        connection.execute("VACUUM INTO ?", (str(fresh),))


def _keep(fresh: Path, template: Path) -> None:
    with suppress(OSError):  # if the template cannot be kept, the next store also takes seconds
        template.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent, prefix=f".{template.name}.") as folder:
            kept = Path(shutil.copyfile(fresh, Path(folder) / "new.db"))
            kept.chmod(0o600)
            kept.replace(template)
