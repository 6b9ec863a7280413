"""New MLflow stores come from a template that is checked, and made anew when it is no good."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient
from sqlalchemy import create_engine

from ray_sim.experiments.tracking.database import (
    migrate,
    new_database,
    schema_revision,
    template_path,
    write_without_waiting,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that MLflow itself made."""
    database = tmp_path_factory.mktemp("migrated") / "store.db"
    migrate(database)
    return database


class Migration:
    """What MLflow's migrations do, by copying their outcome, and how often."""

    def __init__(self, migrated: Path) -> None:
        self._migrated = migrated
        self.count = 0

    def __call__(self, database: Path) -> None:
        self.count += 1
        shutil.copyfile(self._migrated, database)


@pytest.fixture
def migration(migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migration:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Migration(migrated)


def _stores(directory: Path) -> list[str]:
    """What MLflow finds in a store."""
    client = MlflowClient(tracking_uri=f"sqlite:///{directory / 'mlflow.db'}")
    return [experiment.name for experiment in client.search_experiments()]


def test_the_second_store_is_a_copy_and_mlflow_takes_it(migration: Migration, tmp_path: Path) -> None:
    for name in ("first", "second"):
        new_database(tmp_path / name / "mlflow.db", schema_revision(), migration)
        assert _stores(tmp_path / name) == ["Default"]
        assert [path.name for path in (tmp_path / name).iterdir()] == ["mlflow.db"]
    assert migration.count == 1
    assert [path.name for path in template_path().parent.iterdir()] == [template_path().name]
    assert template_path().stat().st_mode & 0o777 == 0o600


def test_a_store_does_not_inherit_paths_of_the_template(migration: Migration, tmp_path: Path) -> None:
    new_database(tmp_path / "mlflow.db", schema_revision(), migration)
    with closing(sqlite3.connect(template_path())) as template:
        assert template.execute("SELECT count(*) FROM experiments").fetchone() == (0,)


def test_a_store_that_is_there_is_left_alone(migration: Migration, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"mine")
    new_database(tmp_path / "mlflow.db", schema_revision(), migration)
    assert (tmp_path / "mlflow.db").read_bytes() == b"mine"
    assert migration.count == 0


def test_a_template_that_others_can_write_is_made_anew(migration: Migration, tmp_path: Path) -> None:
    new_database(tmp_path / "mlflow.db", schema_revision(), migration)
    template_path().chmod(0o666)
    for name in ("again", "third"):
        new_database(tmp_path / name / "mlflow.db", schema_revision(), migration)
    assert migration.count == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "a page of zeros", "another revision"])
def test_a_template_that_is_no_good_is_made_anew(migration: Migration, tmp_path: Path, damage: str) -> None:
    new_database(tmp_path / "mlflow.db", schema_revision(), migration)
    _damage(template_path(), damage)
    new_database(tmp_path / "again" / "mlflow.db", schema_revision(), migration)
    new_database(tmp_path / "third" / "mlflow.db", schema_revision(), migration)
    assert migration.count == 2
    assert _stores(tmp_path / "again") == ["Default"]
    assert _stores(tmp_path / "third") == ["Default"]


def _damage(template: Path, how: str) -> None:
    content = template.read_bytes()
    if how == "empty":
        template.write_bytes(b"")
    elif how == "cut":
        template.write_bytes(content[: len(content) // 2])
    elif how == "garbage":
        template.write_bytes(b"x" * len(content))
    elif how == "a page of zeros":
        middle = len(content) // 2 // 4096 * 4096
        template.write_bytes(content[:middle] + bytes(4096) + content[middle + 4096 :])
    else:
        with closing(sqlite3.connect(template)) as connection:
            connection.execute("UPDATE alembic_version SET version_num = 'older'")
            connection.commit()


def test_without_a_writable_cache_a_store_is_made_all_the_same(migration: Migration, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    for name in ("first", "second"):
        new_database(tmp_path / name / "mlflow.db", schema_revision(), migration)
        assert _stores(tmp_path / name) == ["Default"]
    assert migration.count == 2


def test_the_faster_of_two_processes_keeps_its_store(migration: Migration, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"

    def slower(path: Path) -> None:
        migration(path)
        database.write_bytes(b"the other's")

    new_database(database, schema_revision(), slower)
    assert database.read_bytes() == b"the other's"
    assert [path.name for path in template_path().parent.iterdir()] == [template_path().name]


def test_only_the_given_database_is_written_without_waiting_for_the_disk(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.db", tmp_path / "other.db"
    write_without_waiting(ours)
    for database, synchronous in ((ours, 0), (other, 2)):  # 0 is OFF, 2 is FULL, SQLite's default
        with create_engine(f"sqlite:///{database}").connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous
