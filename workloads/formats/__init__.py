"""Trace formats, one folder each.

`registry.py` lists them for `workloads/convert.py`, `text.py` reads delimited text, and `packed.py` limits
the sizes of compressed files. No format imports another. CONTRIBUTING.md says how to add one.
"""
