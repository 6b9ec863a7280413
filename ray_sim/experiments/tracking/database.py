"""SQLite database of MLflow: its file, the schema revision of this version, and a new one by migrations."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

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
