"""The tests of one part of the product, so that they can be run, and timed, alone: `make test PART=g5g-spot`.

A file belongs to one part at most; what is in none is of all of them (rules, plan, commands, pages, the toy target).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase


def _files(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}.py" for name in names)


PARTS: Mapping[str, Sequence[str]] = {
    "tunnel": ("tunnel/*",),
    "g5g-spot": (
        "arm64/*",
        *("providers_aws/*", "turing/*", "machine/test_ec2.py"),
        *_files(
            "cloud_aws",
            *("access", "faults", "foundation", "front", "fuzz", "instances", "policies", "prices", "schedules", "ssm"),
        ),
        *_files("infra", "aws_errors", "built", "image_config", "*_ec2_spot"),
        *_files("startup", "boot_builder", "boot_makes", "boot_spot"),
        *_files("plan", "places", "rules_g5g"),
        *_files("cli", "build", "build_command", "failover", "making", "secret_aws"),
        *_files("rehearsal", "life_builder", "life_g5g"),
    ),
    "sagemaker": (
        "sagemaker/*",
        *_files("cloud_aws", "endpoints", "images", "faults_sagemaker", "watched"),
        *_files("infra", "*_sagemaker"),
        *_files("startup", "endpoint", "image", "image_manifest"),
        *_files("plan", "rules_sagemaker"),
        *_files("cli", "image_read", "let_go", "watched"),
        *_files("rehearsal", "again_sagemaker", "as_it_is_sagemaker", "life_sagemaker"),
    ),
}
"""Patterns of files below `tests/`."""


def belongs(file: str, part: str) -> bool:
    """Whether `file`, below `tests/`, is of this part."""
    return any(fnmatchcase(file, pattern) for pattern in PARTS[part])


def has_some(folder: str, part: str) -> bool:
    """Whether a folder below `tests/` may hold files of this part."""
    return any(pattern.partition("/")[0] == folder.partition("/")[0] for pattern in PARTS[part])
