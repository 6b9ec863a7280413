"""Old name of `workloads.training.enrich`, kept until version 0.2."""

from warnings import warn

from workloads.training.enrich import enrich as enrich

warn("workloads.enrich is now workloads.training.enrich; import from there", DeprecationWarning, 2)
