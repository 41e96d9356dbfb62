"""The kept form of the catalog: the same rows as the TOML's, and never used when it is of other files, torn or another's."""

from __future__ import annotations

import msgspec
import pytest

from catalog import kept, loader


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path))
    return tmp_path / "catalog"


@pytest.fixture
def no_toml(monkeypatch):
    """From here on, reading TOML is an error."""

    def refuse():
        def read(*_):
            raise AssertionError("the TOML was read")

        monkeypatch.setattr(loader, "read", read)

    return refuse


def test_the_kept_form_has_the_same_rows(folder, no_toml):
    first = loader.load_tables()
    no_toml()
    assert loader.load_tables() == first
    assert first.accelerators and first.models and first.prices


def test_a_file_that_changed_is_read_again(folder, tmp_path, monkeypatch):
    loader.load_tables()
    (tmp_path / "copy").mkdir()
    for file in loader.HERE.glob("*.toml"):
        (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    zones = tmp_path / "copy" / "zones.toml"
    zones.write_text(zones.read_text().replace("europe-west4-a", "europe-west4-z"))
    monkeypatch.setattr(loader, "HERE", tmp_path / "copy")
    assert "europe-west4-z" in {zone.name for zone in loader.load_tables().zones}
    assert len(list(folder.iterdir())) == 1, "what was kept of other contents goes"


@pytest.mark.parametrize("harm", [lambda b: b[:-1], lambda b: b[:40] + b"x" + b[41:], lambda b: b"", lambda b: b"\0" * len(b)])
def test_a_torn_one_is_made_again(folder, harm, no_toml):
    first = loader.load_tables()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert loader.load_tables() == first
    assert file.read_bytes() == whole


def test_rows_of_another_shape_are_made_again(folder):
    first = loader.load_tables()
    (file,) = folder.iterdir()
    kept.write(file, msgspec.msgpack.encode({"accelerators": [{"name": "t4g"}]}))
    assert loader.load_tables() == first


def test_another_users_is_not_read(folder, monkeypatch):
    loader.load_tables()
    (file,) = folder.iterdir()
    monkeypatch.setattr(kept.os, "getuid", lambda: 12345)
    assert kept.read(file) is None


def test_without_a_place_to_write_it_loads_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path / "file"))
    assert loader.load_tables().models


def test_names_tell_contents_and_names_apart():
    names = {kept.name(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"", "c": b"b"}, {})}
    assert len(names) == 5
