"""What is kept of a YAML file, and what is read without the YAML reader: the same values either way."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra import goyaml, keptfile, stackfile
from verdict.errors import BadConfig

TOKEN = "hf_" + "AbCdEfGh" * 3
TEXT = "a: {b: [1, 2.5, true, null, x]}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path))
    return tmp_path / "files" / "f.yaml"


@pytest.fixture
def no_reader(monkeypatch):
    def refuse():
        def parse(*_):
            raise AssertionError("the YAML was read")

        monkeypatch.setattr(goyaml, "parse", parse)

    return refuse


def test_the_second_time_it_is_not_read(folder, no_reader):
    first = keptfile.parsed("f.yaml", TEXT, "f")
    no_reader()
    assert keptfile.parsed("f.yaml", TEXT, "f") == first == {"a": {"b": [1, 2.5, True, None, "x"]}}


def test_another_text_is_read_and_takes_its_place(folder):
    keptfile.parsed("f.yaml", TEXT, "f")
    assert keptfile.parsed("f.yaml", "a: 2\n", "f") == {"a": 2}
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("harm", [lambda b: b[:-1], lambda b: b[:40] + b"x" + b[41:], lambda b: b""])
def test_a_torn_one_is_made_again(folder, harm):
    first = keptfile.parsed("f.yaml", TEXT, "f")
    (file,) = folder.iterdir()
    file.write_bytes(harm(file.read_bytes()))
    assert keptfile.parsed("f.yaml", TEXT, "f") == first


@pytest.mark.parametrize(
    "text", [f"a: {TOKEN}\n", "a: 2026-01-01\n", "1: a\n", "a: !!binary aGk=\n", f"a: {'9' * 30}\n"],
    ids=["a secret's value", "a date", "a number as a key", "bytes", "a large number"],
)  # fmt: skip
def test_what_is_not_kept_is_read_each_time(folder, text):
    assert keptfile.parsed("f.yaml", text, "f") == keptfile.parsed("f.yaml", text, "f") == goyaml.parse(text, "f")
    assert not folder.exists()


def test_what_an_alias_stands_for_is_a_copy_the_first_time_too(folder):
    found = keptfile.parsed("f.yaml", "a: &x {k: 1}\nb: *x\n", "f")
    found["a"]["k"] = 2
    assert found["b"] == {"k": 1}


def test_what_is_wrong_is_said_each_time(folder):
    for _ in range(2):
        with pytest.raises(BadConfig, match="f is not YAML"):
            keptfile.parsed("f.yaml", "a: [", "f")


def test_without_a_place_to_write_it_reads_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path / "file"))
    assert keptfile.parsed("f.yaml", TEXT, "f") == goyaml.parse(TEXT, "f")


WORDS = st.one_of(
    st.text(string.ascii_letters + string.digits + "_@:/.+-~#,[]{}\"' \t\\=&*!|>%", max_size=12),
    st.from_regex(r"\A[A-Za-z0-9._:/@+-]{1,14}\Z"),
    st.lists(st.text(max_size=6), max_size=3).map(lambda words: str(words).replace("'", '"')),
)


@given(WORDS)
@example("user:ops@acme.test")
@example("8h")
@example("Null")
@example("oN")
@example("0777")
@example('["1e5", "a: b", "#x"]')
@example("[1e5]")
@example("a:")
@example("a #b")
def test_a_plain_value_is_what_the_reader_reads(text):
    found = stackfile.plain(text)
    if found is not stackfile._NOT_PLAIN:
        read = goyaml.parse(text, "f")
        assert read == found and type(read) is type(found)


@pytest.mark.parametrize("text", ["acme-1", "tpu-v6e", "14400", '["user:ops@acme.test"]', "[]", "vllm/vllm-tpu:v0.9"])
def test_what_most_sets_hold_is_plain(text):
    assert stackfile.plain(text) is not stackfile._NOT_PLAIN
