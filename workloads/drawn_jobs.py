"""Old name of `workloads.synthetic.drawn_jobs`, kept until version 0.2."""

from warnings import warn

from workloads.synthetic.drawn_jobs import draw_jobs as draw_jobs

warn(
    "workloads.drawn_jobs is now workloads.synthetic.drawn_jobs; import from there",
    DeprecationWarning,
    stacklevel=2,
)
