"""Trace formats, one folder or module each.

`registry.py` lists them for `workloads/convert.py`; `text.py` reads delimited text, and limits the sizes of
compressed files. No format imports another. CONTRIBUTING.md says how to add one.
"""
