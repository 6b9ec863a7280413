"""`ray-sim train` and `ray-sim log` of a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import answer, complaint

pytest.importorskip("torch", reason="PyTorch is not installed")

from ray_sim.cli import main
from ray_sim.experiments.tracking.log import TRAININGS
from tests.learning.small_training import written

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_training_is_logged_with_curves_parameters_and_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "out"
    facts = answer(capsys, "train", "harmony", str(written(tmp_path)), "--actors", "0", "-o", str(out))
    assert (facts["rounds"], facts["resumed"], facts["tracking_error"]) == (4, 0, None)
    from mlflow import MlflowClient  # takes seconds

    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(TRAININGS)
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params["learning.most_jobs"] == "6"
    for name in ("reward", "entropy", "policy_loss", "value_loss", "reward_model_error", "validation_jct_s"):
        points = client.get_metric_history(run.info.run_id, name)
        assert [point.step for point in points] == {
            "validation_jct_s": [1, 3],
            "reward_model_error": [1, 2, 3],
        }.get(name, [0, 1, 2, 3])
    artifacts = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert artifacts == {"checkpoint.npz", "last.npz", "curves.parquet"}
    logged = answer(capsys, "log", str(out))
    assert (logged["created"], logged["present"]) == (0, 1)


def test_a_round_is_a_line_and_what_is_changed_is_not_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = written(tmp_path, phases={"online": 1}), tmp_path / "out"
    assert main(["train", "harmony", str(plan), "--actors", "0", "-o", str(out)]) == 0
    shown = capsys.readouterr()
    assert "round 1 of 1, online: reward" in shown.err
    assert "validation JCT" in shown.err
    (out / "last.npz").write_bytes(b"other")
    assert "last.npz: changed since it was written" in complaint(capsys, "log", str(out))


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(tmp_path)
    assert "none.yaml" in complaint(capsys, "train", "harmony", str(tmp_path / "none.yaml"))
    assert "--address nowhere: must be local, auto, ray://HOST:PORT or HOST:PORT" in complaint(
        capsys, "train", "harmony", str(plan), "--address", "nowhere"
    )
