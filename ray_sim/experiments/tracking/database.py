"""SQLite database of MLflow: its file, the schema revision of this version, and a new one by migrations."""

from __future__ import annotations

from pathlib import Path


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
