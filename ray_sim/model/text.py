"""Display of external texts without credentials and control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

HIDDEN = "..."
"""Text shown in place of a credential."""

_USER = re.compile(r"(?<=:/)(?P<slash>/?)[^/\s@:]*:[^/\s@]*(?=@)")
"""Credentials in a URL, or in a URL read as a path, which has one slash."""

_PARAMETER = re.compile(r"(?<=[?&#])(?P<name>[^?&#=\s'\"]+)=[^&#\s'\"]+")

_CREDENTIAL = re.compile(
    r"key|sig|[\w.-]*(?:secret|passw|token|credential|signature|(?:api|access|account)[_-]?key)[\w.-]*",
    re.IGNORECASE,
)
"""Name of a parameter whose value is a credential."""

_MOST_CHARACTERS = 2_000

_MARKUP = re.compile(r"[\\`*_\[\]#~]")
"""Characters that Markdown reads as markup."""

_LINK = re.compile(r":(?=\S)|(?<!\d)\.(?=\S)|(?<!\S)@")
"""Characters that some dialects of Markdown read as part of a link, an emoji or a mention."""

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that control a terminal, or hide or reverse neighbouring characters."""


def natural(text: str) -> list[tuple[str, float]]:
    """Sort key of a text, by which ``x=300`` comes before ``x=1800``."""
    parts = re.findall(r"(\D*)(\d+(?:\.\d+)?(?:e[+-]?\d+)?)?", text)
    return [(word, float(digits or 0)) for word, digits in parts]


def has_secret(url: str) -> bool:
    """Whether a URL holds a password, or a parameter that is named like a credential."""
    return without_secrets(url) != url


def without_secrets(text: str) -> str:
    """Replace the credentials in all URLs of a text by `HIDDEN`."""
    return _PARAMETER.sub(_without_credential, _USER.sub(rf"\g<slash>{HIDDEN}", text))


def _without_credential(parameter: re.Match[str]) -> str:
    name = parameter["name"]
    return f"{name}={HIDDEN}" if _CREDENTIAL.fullmatch(unquote(name)) else parameter[0]


def number_of(text: str) -> float:
    """Parse a number in ASCII digits, as tables have it.

    Raises
    ------
    ValueError : not a number, or a form that only Python accepts: underscores, or digits of other scripts
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text!r}")
    return float(text)


def short_text(number: float) -> str:
    """Shortest text that `number_of` reads as the same number; whole numbers below 10^16 without a point."""
    return repr(number).removesuffix(".0")


def shown(value: object, *, lines: bool = False) -> str:
    r"""Text of a value for a terminal: no credentials, and control characters as ``\x1b``.

    Parameters
    ----------
    lines : whether to keep line ends, as in messages of several lines
    """
    text = without_secrets(str(value))
    if text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def names_text(names: Iterable[object]) -> str:
    """Names from outside in one line, as by `shown`."""
    return ", ".join(map(shown, names))


def cut(text: str) -> str:
    """The text, without what exceeds `_MOST_CHARACTERS`, for errors of others' code."""
    more = len(text) - _MOST_CHARACTERS
    return text if more <= 0 else f"{text[:_MOST_CHARACTERS]}... ({more:,} more characters)"


def markdown_text(value: object) -> str:
    """Text of a value for Markdown, in which nothing is markup; otherwise as by `shown`."""
    text = _MARKUP.sub(r"\\\g<0>", shown(value).translate(_HTML))
    # MLflow shows a backslash before one of these.
    return _LINK.sub(lambda found: f"&#{ord(found[0])};", text)


def _shown(character: str, lines: bool) -> str:
    if (lines and character == "\n") or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode()
