"""Texts from outside are shown without credentials and without characters that steer a terminal."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ray_sim.model.text import has_secret, markdown_text, natural, shown, without_secrets


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("s3://key:hidden@bucket/w.parquet", "s3://...@bucket/w.parquet"),
        ("s3://b/w?region=x&secret_key=hidden&y=1", "s3://b/w?region=x&secret_key=...&y=1"),
        ("s3://b/w?secret%5Fkey=hidden&%73ig=hidden", "s3://b/w?secret%5Fkey=...&%73ig=..."),
        ("s3:/key:hidden@bucket/w.csv: no such file", "s3:/...@bucket/w.csv: no such file"),
        ("s3://b/w#token=hidden", "s3://b/w#token=..."),
        ("gs://b/w?X-Goog-Signature=hidden", "gs://b/w?X-Goog-Signature=..."),
        ("see 'https://h/w?sig=hidden' and postgresql://me:hidden@h/db.", "see 'https://h/w?sig=...' and postgresql://...@h/db."),
        ("s3://b/w?session_token=hidden#x", "s3://b/w?session_token=...#x"),
    ],
)  # fmt: skip
def test_credentials_of_urls_are_not_shown(text: str, safe: str) -> None:
    assert has_secret(text)
    assert without_secrets(text) == safe
    assert "hidden" not in shown(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/w.parquet?region=us-east-1",
        "gs://anonymous@b/w",
        "a key=value outside of URLs",
        "token=3",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert not has_secret(text)
    assert shown(text) == text


def test_control_characters_are_escaped() -> None:
    # Clear the screen, set the title, overwrite the line, 8-bit CSI, right-to-left override, half a pair.
    assert shown("\x1b[2J\x1b]0;x\x07a\rb\x9b1m\u202ec\ud800") == (
        r"\x1b[2J\x1b]0;x\x07a\rb\x9b1m\u202ec\ud800"
    )
    assert shown("a\nb\tc") == r"a\nb\tc"
    assert shown("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert shown("Tübingen 東京 €") == "Tübingen 東京 €"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("synth:philly:5000x1.2", "synth&#58;philly&#58;5000x1.2"),
        ("a_b*c*[d](e) `f` #g ~~h~~", r"a\_b\*c\*\[d\](e) \`f\` \#g \~\~h\~\~"),
        ("<img src=x onerror=alert(1)>&amp;", "&lt;img src=x onerror=alert(1)&gt;&amp;amp;"),
        ("http://www.example.org/x", "http&#58;//www&#46;example&#46;org/x"),
        ("pool@server.count=4 @someone", "pool@server&#46;count=4 &#64;someone"),
        ("two\nlines\x1b[0m", r"two\\nlines\\x1b\[0m"),
        ("27 s to 3.5 s; +12 %: no markup", "27 s to 3.5 s; +12 %: no markup"),
    ],
)
def test_markdown_has_no_markup_of_a_name(text: str, markdown: str) -> None:
    assert markdown_text(text) == markdown


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12))
def test_markdown_of_a_text_renders_as_the_text(text: str) -> None:
    rendered = MarkdownIt("gfm-like", {"linkify": False}).renderInline(markdown_text(f"x {text}"))
    assert unescape(rendered) == shown(f"x {text}")


def test_texts_come_in_the_order_of_their_numbers() -> None:
    ordered = ["", "defaults", "x=0.5", "x=3", "x=3, y=20", "x=3, y=100", "x=20", "x=1e+06"]
    assert sorted({*ordered}, key=natural) == ordered
