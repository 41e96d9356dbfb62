"""Every pattern of a part finds a file, no file is of two parts, and an option names the part."""

import pytest

from tests.conftest import ROOT
from tests.parts import PARTS, belongs

FILES = [path.relative_to(ROOT / "tests").as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]


@pytest.mark.parametrize("part", PARTS)
def test_every_pattern_finds_a_test(part):
    from fnmatch import fnmatchcase

    assert [pattern for pattern in PARTS[part] if not any(fnmatchcase(file, pattern) for file in FILES)] == []


def test_no_file_is_of_two_parts():
    assert [file for file in FILES if sum(belongs(file, part) for part in PARTS) > 1] == []


@pytest.mark.parametrize("word", ["ec2", "sagemaker", "tunnel", "g5g"])
def test_a_file_named_after_a_part_is_of_one(word):
    named = [file for file in FILES if word in file.rpartition("/")[2]]
    assert named and [file for file in named if not any(belongs(file, part) for part in PARTS)] == []
