"""Names that the guide gave before modules moved work for one more version, and say where they went."""

from __future__ import annotations

import importlib
import sys

import pytest

import ray_sim

MOVED = {
    "workloads.drawn_jobs": ("workloads.synthetic.drawn_jobs", ("draw_jobs",)),
    "workloads.enrich": ("workloads.training.enrich", ("enrich",)),
    "workloads.horizon_request": ("workloads.synthetic.horizon_request", ("HorizonRequest",)),
    "workloads.realise": ("workloads.realisation", ("Realisation", "Window", "realise")),
    "workloads.synth": ("workloads.synthetic.synth", ("synth",)),
}


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_new_one_and_warns(old: str) -> None:
    new, names = MOVED[old]
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"^{old} is now {new}; import from there$"):
        module = importlib.import_module(old)
    assert all(getattr(module, name) is getattr(importlib.import_module(new), name) for name in names)


def test_the_old_name_of_a_policys_context_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"^ray_sim.GrantedWorld is now ray_sim.PolicyContext"):
        assert ray_sim.GrantedWorld is ray_sim.PolicyContext
