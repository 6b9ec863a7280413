"""Places that errors name."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_sim
from ray_sim.model.arguments import in_range
from ray_sim.model.errors import InvalidInputError, place_of


@pytest.mark.parametrize("folder", [Path("/elsewhere"), Path(ray_sim.__file__).parents[2]])
def test_a_users_line_is_named_also_beside_a_clone_of_ray_sim(folder: Path) -> None:
    file = str(folder / "mine.py")
    with pytest.raises(InvalidInputError) as failed:
        eval(compile("\ncall('seed', -1, 0)", file, "eval"), {"call": in_range})  # noqa: S307  # a user's file
    # The call of `in_range`, which raises in ray_sim's own folder, below the second folder.
    assert place_of(failed.value, file) == f"{file}, line 2, in <module>"
