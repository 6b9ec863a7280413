"""Figures of a summary that only some kinds of jobs have, one module per kind; `registry` lists them."""
