"""Refusals that no plan can make, by name: what they look at exists later only. `--allow` knows none of them."""

from __future__ import annotations

from collections.abc import Mapping

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "secret-in-script": (
        "`render`, `up`",
        "A script, container file or environment that holds what looks like a secret's value.",
    ),
    "live-machine-would-be-replaced": (
        "`up`",
        "A change that a machine which serves cannot take: `--replace` makes it anew (`FLEXSERVE_REPLACE=1` with plain `pulumi`).",
    ),
    "image-not-a-single-one": (
        "`up`, the build",
        "A built image of several platforms, or with another manifest than Docker's own: SageMaker takes neither.",
    ),
    "turing-unknown-tree": (
        "the patch",
        "A vLLM in which the place to patch is not found by its structure.",
    ),
}
"""Id -> when, and what."""
