"""Announcement profiles as files: what may be in them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.layer_file import (
    ANNOUNCEMENT_PROFILES,
    load_announcement_draws,
    load_workload_layers,
    names_announcement_profile,
)
from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from workloads.announcements.profile import History
from workloads.training.draws import Constant, Uniform

OWN = """
name: own
announcements:
  lead_s: 60
  value: {form: linear, worth: [1, 8], slack: 2}
  outlook: {construction: history, history_of: user, duration_error: 1}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text)
    return path


def test_the_bundled_profiles_bear_their_files_names_and_no_training_profile_has_them() -> None:
    bundled = {name: load_announcement_draws(name) for name in ANNOUNCEMENT_PROFILES.bundled()}
    assert list(bundled) == ["announced", "announced_history", "common_announced"]
    assert all(draws.name == name and draws.title for name, draws in bundled.items())
    assert bundled["announced"].outlook.history is None
    assert bundled["announced_history"].outlook.history == History("vc", 50, 5)
    assert not bundled.keys() & TRAINING_PROFILES.bundled().keys()


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path, OWN)
    draws = load_announcement_draws(path)
    assert (draws.lead_s, draws.value.worth, draws.value.slack) == (
        Constant(60.0),
        Uniform(1, 8),
        Constant(2.0),
    )
    assert draws.outlook.history == History("user", 50, 5)
    assert names_announcement_profile(path)
    assert not names_announcement_profile(written(tmp_path, "{name: training, columns: {}}"))
    assert names_announcement_profile("announced")
    assert not names_announcement_profile("pd_ors")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("lead_s: 60", "lead_s: -1"), "announcements.lead_s: .*from 0 to 1073741824, got -1"),
        (("lead_s: 60", "lead_s: [9, 3]"), "announcements.lead_s: .*LOW at most HIGH"),
        (("lead_s: 60", "lead_s: {times: 2, column: x}"), "announcements.lead_s: .*must not be a multiple"),
        (("worth: [1, 8], ", ""), "announcements.value: .*either `worth_per_gpu_hour` or `worth`"),
        (("form: linear", "form: square"), "announcements.value.form: .*'deadline', 'step', 'linear'"),
        (("slack: 2", "slack: 0"), "announcements.value.slack: .*from 0.01"),
        (("history_of: user, ", ""), "announcements.outlook: .*expected `history_of: user`"),
        (("construction: history, ", ""), "announcements.outlook: .*only with `construction: history`"),
        (("duration_error: 1", "duration_error: -1"), "announcements.outlook.duration_error: "),
        (("slack: 2", "slack: 2, worth_range: [9, 3]"), "announcements.value: .*least first"),
        (("slack: 2", "slack: 2, worth_range: [1]"), "announcements.value.worth_range"),
        (("slack: 2", "slack: 2, worth_range: 7"), "announcements.value.worth_range"),
        (("slack: 2", "slack: 2, slck: 3"), "announcements.value.slck: "),
    ],
)
def test_a_wrong_profile_is_refused_by_its_key(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        load_announcement_draws(written(tmp_path, OWN.replace(*change)))


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown announcement profile 'anounced'.*'announced'"):
        load_announcement_draws("anounced")


def test_drawn_jobs_may_have_statements_but_not_another_training_profile() -> None:
    whole = {"profile": "pd_ors", "jobs": 5, "horizon_s": 7200}
    stated = WorkloadSpec.model_validate({"synth": whole, "enrich": "announced"})
    assert [layer.draws.name for layer in load_workload_layers(stated)] == ["announced"]
    twice = WorkloadSpec.model_validate({"synth": whole, "enrich": ["announced", "optimus_nine_models"]})
    with pytest.raises(InvalidInputError, match="training profile pd_ors train already; leave optimus_nine"):
        load_workload_layers(twice)
