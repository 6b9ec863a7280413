"""Bars of characters for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

_LINE = "▁▂▃▄▅▆▇█"
_BAR = "▏▎▍▌▋▊▉█"

ASCII = str.maketrans(dict(zip(_LINE + _BAR[:-1], "__.-=+*#" + "   ####", strict=True)))
"""ASCII replacements of the bar characters."""


def sparkline(values: Sequence[float], width: int) -> str:
    """Numbers >= 0 as a line of bars, the highest full; a bar shows the mean of several if necessary."""
    n = len(values)
    places = min(n, width)
    ends = [place * n // places for place in range(places + 1)]
    heights = [fmean(values[begin:end]) for begin, end in pairwise(ends)]
    top = max(heights) or 1.0
    return "".join(_LINE[round(height / top * (len(_LINE) - 1))] for height in heights)


def bar(share: float, width: int) -> str:
    """Bar for a share in [0, 1] of the width, to an eighth of a character; not empty for a share above 0."""
    eighths = round(share * width * len(_BAR)) or int(share > 0)
    whole, part = divmod(eighths, len(_BAR))
    return _BAR[-1] * whole + (_BAR[part - 1] if part else "")
