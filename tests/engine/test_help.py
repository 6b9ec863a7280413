"""`help` lists every public member of views and contexts with its docstring."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable

import pytest

from ray_sim import policy_api
from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.elastic_worlds import busy_bounded
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.policies.registry import create_policy

OF_KIND: dict[str, tuple[str, Callable[[], World], type, type]] = {
    "rigid": ("fifo", busy_world, policy_api.View, policy_api.PolicyContext),
    "elastic": ("pd_ors", busy_bounded, policy_api.ElasticView, policy_api.ElasticContext),
    "chunked": ("a_online", busy_chunks, policy_api.ChunkedView, policy_api.ChunkedContext),
    "announced": ("posted_price", busy_announced, policy_api.AnnouncedView, policy_api.AnnouncedContext),
}


class _PlainText(pydoc.TextDoc):
    """Text of `help` without overstruck letters."""

    def bold(self, text: str) -> str:
        return text


_PLAIN = _PlainText()

FACES = [face for *_, view, context in OF_KIND.values() for face in (view, context)]


def public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("kind", OF_KIND)
def test_classes_have_all_members_of_the_objects_that_a_policy_gets(kind: str) -> None:
    name, new_world, view_class, context_class = OF_KIND[kind]
    policy = create_policy(name)
    simulation = Simulation(new_world(), policy)
    policy.start(simulation.world, simulation.streams)
    view = simulation.advance()
    assert (type(view), type(simulation.world)) == (view_class, context_class)
    assert public(view) == public(view_class)
    assert public(simulation.world) == public(context_class)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_help_shows_every_member_with_its_text(face: type) -> None:
    shown = [line.strip(" |") for line in pydoc.render_doc(face, renderer=_PLAIN).splitlines()]
    for name in public(face):
        text = inspect.getdoc(inspect.getattr_static(face, name)) or ""
        assert text, f"{face.__name__}.{name}"
        at = next(i for i, line in enumerate(shown) if line == name or line.startswith(f"{name}("))
        assert text.splitlines()[0] in shown[at + 1 : at + 3], f"{face.__name__}.{name}"
