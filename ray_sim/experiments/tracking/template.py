"""New MLflow databases as copies of a migrated, empty template in the user's cache.

A copy takes milliseconds. MLflow itself runs every migration of its history, which takes seconds.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

from ray_sim.kernels.private_files import read_private

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
