"""What the values of secrets look like: where a name belongs they are refused, and no message repeats them."""

from __future__ import annotations

import re

_TOKENS = (
    (r"hf_", r"(?:(?:oauth|jwt)_[\w.-]{8,}|(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{8,}|[a-z]{12,})"),  # hf_overrides, hf_transfer are words
    (r"api_org_", r"[A-Za-z0-9]{30,}"),
    (r"A[KS]IA", r"[0-9A-Z]{12,}"),
    (r"ya29\.", r"[\w-]{8,}"),
    (r"AIza", r"[\w-]{35}"),
    (r"gh[pousr]_", r"[A-Za-z0-9]{30,}"),
    (r"github_pat_", r"\w{20,}"),
    (r"sk-", r"[A-Za-z0-9_-]{20,}"),
)

# The last letter of an escaped character begins a word: `\n` in a text as JSON or Python writes it, `%3D` in an address.
_ESCAPED = (r"\\[abefnrtv0]", r"\\x[0-9a-fA-F]{2}", r"\\u[0-9a-fA-F]{4}", r"%[0-9a-fA-F]{2}")


def _token(head: str, rest: str) -> str:
    """That it is not in the middle of a word is asked after the head: what begins with letters is searched for much faster."""
    begins = "|".join((rf"(?<![A-Za-z0-9_-]{head})", *(rf"(?<={escaped}{head})" for escaped in _ESCAPED)))
    return f"{head}(?:{begins}){rest}"


SECRET_VALUE = re.compile("|".join(_token(*token) for token in _TOKENS) + r"|-----BEGIN [A-Z ]*PRIVATE KEY")
"""Tokens of the Hub, AWS, Google, GitHub and of OpenAI's kind, and private keys."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_WORDS = "(what looks like a secret's value)"


def hidden(text: str) -> str:
    """The text with words in place of what looks like a secret's value; a private key to its end."""
    return SECRET_VALUE.sub(_WORDS, _KEY.sub(_WORDS, text))
