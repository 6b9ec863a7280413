"""Old name of `workloads.synthetic.horizon_request`, kept until version 0.2."""

from warnings import warn

from workloads.synthetic.horizon_request import HorizonRequest as HorizonRequest

warn(
    "workloads.horizon_request is now workloads.synthetic.horizon_request; import from there",
    DeprecationWarning,
    stacklevel=2,
)
