"""Texts from outside are shown without credentials and without characters that steer a terminal."""

from __future__ import annotations

import pytest

from ray_sim.model.text import has_secret, shown, without_secrets


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
