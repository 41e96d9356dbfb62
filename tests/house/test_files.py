"""What holds for every file of the project."""

import ast
import re
from pathlib import Path

from tests.conftest import LONG
from tools.lint import tracked

ROOT = Path(__file__).resolve().parents[2]
FILES = tracked(ROOT)
MODULES = [f for f in FILES if f.suffix == ".py"]
MOST_LINES = 400
# Generated or copied as a whole: not read line by line.
DATA = (".lock", ".sum", ".json", ".jsonl", ".tsv", ".ambr", ".gz", ".zst", ".png")


def names(files):
    return [str(f.relative_to(ROOT)) for f in files]


def text_files():
    return [f for f in FILES if f.suffix not in (".gz", ".zst", ".png")]


def test_a_module_says_what_it_is():
    texts = {file: file.read_text(encoding="utf-8") for file in MODULES}
    said = {file for file, text in texts.items() if text.strip() and ast.get_docstring(ast.parse(text))}
    empty = {file for file, text in texts.items() if file.name == "__init__.py" and not text.strip()}
    assert names(sorted(set(MODULES) - said - empty)) == [], "no docstring"


def test_modules_are_short():
    long = {str(f.relative_to(ROOT)): n for f in MODULES if (n := len(f.read_text(encoding="utf-8").splitlines())) > MOST_LINES}
    assert long == {}


def test_the_long_tests_that_start_first_are_there():
    assert [name for name in LONG if not (ROOT / "tests" / f"{name}.py").is_file()] == []


# Put together here, so that this file does not hold what it looks for.
MACHINE = [re.escape(a + b) for a, b in (("/wo", "rk/"), ("/tmp/", "wt"), ("/root/", ".pyenv"), ("/opt/", "wheels"))]
REGISTRIES = [
    re.escape(a + b)
    for a, b in (
        ("pypi", ".org"), ("files.python", "hosted.org"), ("proxy.go", "lang.org"), ("sum.go", "lang.org"),
        ("registry.npm", "js.org"), ("static.crates", ".io"), ("index.crates", ".io"), ("repo1.ma", "ven.org"),
        ("deb.deb", "ian.org"), ("security.deb", "ian.org"), ("snapshot.deb", "ian.org"),
    )
]  # fmt: skip


def lines_with(patterns):
    found = []
    pattern = re.compile("|".join(patterns))
    for file in text_files():
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}")
    return found


def test_no_file_names_a_machine_it_was_made_on():
    assert lines_with(MACHINE) == []


def test_no_file_names_a_package_registry():
    assert lines_with(REGISTRIES) == []


def test_the_lock_has_a_hash_for_every_package_and_names_no_index():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 50
    for entry in entries:
        first = entry.splitlines()[0]
        assert re.match(r"[A-Za-z0-9._-]+==\S+ \\$", first), first
        assert "--hash=sha256:" in entry, first
    assert "://" not in text and "--index" not in text and "--find-links" not in text


def test_every_direct_dependency_is_in_the_lock_and_explained():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    direct = {re.match(r"[A-Za-z0-9._-]+", w)[0].lower() for w in wanted}
    lock = set(re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE))
    assert direct <= lock
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE))
    assert {d for d in direct if d not in explained} == set()
    assert {e for e in explained if e not in direct} == set()
