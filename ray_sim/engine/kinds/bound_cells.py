"""World parameter for the bound B4 on the mean JCT, of rigid and elastic jobs."""

from __future__ import annotations

from collections.abc import Mapping

from ray_sim.engine.kinds.base import KindParameter
from ray_sim.model.parameters import Parameter, Value

BOUND_CELLS = KindParameter(
    Parameter(
        "bound_cells",
        "int",
        None,
        "maximum number of variables, jobs x time steps, of the linear programme behind the bound B4 on the "
        "mean completion time, which the certificate then has. none = no B4",
        source="docs/models/certificates.md#b4",
        minimum=100,
    ),
    "is about a bound for rigid and elastic jobs",
)


def cells_of(values: Mapping[str, Value]) -> int | None:
    """Value of the parameter; None where B4 is not asked for."""
    cells = values.get("bound_cells")
    return cells if isinstance(cells, int) else None
