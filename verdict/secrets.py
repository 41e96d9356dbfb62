"""What the values of secrets look like: where a name belongs they are refused, and no message repeats them."""

from __future__ import annotations

import re

SECRET_VALUE = re.compile(
    r"(?<![A-Za-z0-9_-])(?:hf_[A-Za-z0-9]{8,}|AKIA[0-9A-Z]{12,}|ya29\.[\w-]{8,}|AIza[\w-]{35}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|sk-[A-Za-z0-9_-]{20,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Tokens of the Hub, AWS, Google, GitHub and of OpenAI's kind, and private keys."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_WORDS = "(what looks like a secret's value)"


def hidden(text: str) -> str:
    """The text with words in place of what looks like a secret's value; a private key to its end."""
    return SECRET_VALUE.sub(_WORDS, _KEY.sub(_WORDS, text))
