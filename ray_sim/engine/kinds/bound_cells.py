"""World parameter `bound_cells`: size limit of the linear programme for bound B4 on the mean JCT.

The kinds of rigid and of elastic jobs declare `BOUND_CELLS` and read its value with `cells_of`. The name and
the range are part of scenario files: a change breaks existing files. Another default changes the certificates
of all runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from ray_sim.engine.kinds.base import KindParameter
from ray_sim.model.parameters import Parameter, Value

BOUND_CELLS = KindParameter(
    Parameter(
        "bound_cells",
        "int",
        None,
        "largest number of variables (jobs x time steps) of the linear programme for bound B4 on the mean "
        "completion time. none = the certificate has no B4",
        source="docs/models/certificates.md#b4",
        minimum=100,
    ),
    "is about a bound for rigid and elastic jobs",
)


def cells_of(values: Mapping[str, Value]) -> int | None:
    """Largest number of variables, >= 100; None if B4 is not asked for or the world has no such parameter."""
    cells = values.get("bound_cells")
    return cells if isinstance(cells, int) else None
