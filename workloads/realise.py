"""Old name of `workloads.realisation`, kept until version 0.2."""

from warnings import warn

from workloads.realisation import Realisation as Realisation
from workloads.realisation import Window as Window
from workloads.realisation import realise as realise

warn("workloads.realise is now workloads.realisation; import from there", DeprecationWarning, 2)
