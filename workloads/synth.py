"""Old name of `workloads.synthetic.synth`, kept until version 0.2."""

from warnings import warn

from workloads.synthetic.synth import synth as synth

warn("workloads.synth is now workloads.synthetic.synth; import from there", DeprecationWarning, 2)
