"""Linear programmes by HiGHS on one thread, so that the solution does not depend on the machine's load.

The bounds of this package and the prices of `menu=expected` call it; `milp` has programmes in whole numbers.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

from ray_sim.model.units import FloatArray


def linear_optimum(cost: FloatArray, *, method: Literal["highs-ds", "highs-ipm"], **rows: Any) -> Any:
    """Minimise; returns SciPy's result, whose ``status`` is 0 if it is an optimum.

    Parameters
    ----------
    cost : (N,)
    rows : ``A_ub``, ``b_ub``, ``A_eq``, ``b_eq`` and ``bounds`` of `scipy.optimize.linprog`; sparse matrices
        by rows
    """
    from scipy.optimize import linprog  # slow to import

    with warnings.catch_warnings():
        # SciPy passes threads and random_seed on to HiGHS, with a warning.
        warnings.simplefilter("ignore")
        options: Any = {"threads": 1, "random_seed": 0}  # SciPy's types lack these two
        return linprog(cost, method=method, options=options, **rows)
