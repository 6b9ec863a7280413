"""Texts from outside as they may be shown: without credentials and without control characters."""

from __future__ import annotations

import re
import unicodedata

HIDDEN = "..."
"""Shown in place of a credential."""

_USER = re.compile(r"(?<=:/)(?P<slash>/?)[^/\s@:]*:[^/\s@]*(?=@)")
"""The credentials in a URL, or in a URL read as a path, which has one slash."""

_SECRET = re.compile(
    r"(?P<name>[?&#](?:key|sig|[\w.-]*(?:secret|passw|token|credential|signature|(?:api|access|account)[_-]?key)"
    r"[\w.-]*)=)[^&#\s'\"]+",
    re.IGNORECASE,
)

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that steer a terminal, or hide or turn round what stands beside them."""


def has_secret(url: str) -> bool:
    """Whether a URL holds a password, or a parameter that is named like a credential."""
    return without_secrets(url) != url


def without_secrets(text: str) -> str:
    """The text with `HIDDEN` in place of the credentials of all URLs in it."""
    return _SECRET.sub(rf"\g<name>{HIDDEN}", _USER.sub(rf"\g<slash>{HIDDEN}", text))


def number_of(text: str) -> float:
    """The number that a text from outside is, in ASCII digits alone, as in tables.

    Raises
    ------
    ValueError : it is none, or Python's own: with underscores, or in digits of other scripts
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"no number: {text!r}")
    return float(text)


def shown(value: object, *, lines: bool = False) -> str:
    r"""The text of a value for a terminal: no credentials, and control characters as ``\x1b``.

    Parameters
    ----------
    lines : whether line ends stay, as in messages of several lines
    """
    text = without_secrets(str(value))
    if text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def _shown(character: str, lines: bool) -> str:
    if (lines and character == "\n") or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode()
