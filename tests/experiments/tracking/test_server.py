"""Sweeps on an MLflow server with PostgreSQL and an S3 bucket, as a group would run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from mlflow import MlflowClient
from moto.server import ThreadedMotoServer

from ray_sim.cli import main
from ray_sim.experiments.tracking.experiment import HASH_TAG, NOTE_TAG, SWEEP_TAG
from ray_sim.experiments.tracking.views import CONFIGURATION_TAG, LINE_TAG, VIEW_TAG
from tests.mlflow_server import mlflow_server, postgres, postgres_programs
from tests.stored_sweeps import numbered, scaled, store_sweep
from tests.sweeps import logged_experiment, logged_runs

pytestmark = [pytest.mark.docs, pytest.mark.slow]

BUCKET = "results"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """A store of objects with a bucket; yields the environment that names it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "MLFLOW_S3_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield environment
    server.stop()


@pytest.fixture(scope="module")
def server(s3: dict[str, str]) -> Iterator[MlflowClient]:
    """An MLflow server on both, which MLFLOW_TRACKING_URI names."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL; on Debian: apt-get install postgresql")
    with (
        postgres(programs) as database,
        mlflow_server(database, f"s3://{BUCKET}/mlflow", environment=s3) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("MLFLOW_TRACKING_URI", address)
        yield MlflowClient(tracking_uri=address)


def test_a_sweep_is_in_the_database_and_its_files_are_in_the_bucket(
    server: MlflowClient, tmp_path: Path
) -> None:
    runs = numbered(scaled(["fifo", "sjf"], (0.8, 1.25), 2))
    store = store_sweep(tmp_path / "results", "study", runs, "full")
    assert main(["log", str(store.root)]) == 0
    assert {VIEW_TAG, NOTE_TAG} <= logged_experiment(server, "study").tags.keys()

    def counts() -> dict[str, int]:
        runs = logged_runs(server, "study")
        tags = (HASH_TAG, CONFIGURATION_TAG, LINE_TAG, SWEEP_TAG)
        return {tag: sum(tag in run.data.tags for run in runs) for tag in tags}

    once = counts()
    assert list(once.values()) == [8, 4, 2, 1]
    assert main(["log", str(store.root)]) == 0
    assert counts() == once
    (sweep_run,) = logged_runs(server, "study", f"tags.`{SWEEP_TAG}` = 'study'")
    report = Path(server.download_artifacts(sweep_run.info.run_id, "report.html", str(tmp_path)))
    objects = boto3.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    (size,) = [each["Size"] for each in objects if each["Key"].endswith("/artifacts/report.html")]
    assert report.stat().st_size == size
    assert "Sweep study" in report.read_text()
    assert sum(each["Key"].endswith("/jobs.parquet") for each in objects) == 8
    assert not (store.root / "mlflow.db").exists()
