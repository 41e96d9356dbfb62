"""`SSL_CERT_FILE`: what is wrong with it is said with its name and its path, by all that read it."""

from __future__ import annotations

import pytest

from flexserve.tunnel.iap.trust import trust
from infra.clouds import http
from infra.clouds.certificates import unusable
from rehearsal.relay import tls
from verdict.errors import BadConfig


def missing(path):
    return "No such file or directory"


def empty(path):
    path.write_text("")
    return "no certificate"


def text(path):
    path.write_text("not a certificate")
    return "no certificate"


def folder(path):
    path.mkdir()
    return ""


@pytest.mark.parametrize("reader", [http.client, trust])
@pytest.mark.parametrize("spoilt", [missing, empty, text, folder])
def test_the_variable_and_the_path_are_named(tmp_path, monkeypatch, reader, spoilt):
    path = tmp_path / "ca.pem"
    why = spoilt(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(BadConfig) as caught:
        reader()
    assert caught.value.what == f"SSL_CERT_FILE names {path}, which cannot be used"
    assert why in caught.value.why and "unset" in caught.value.way_out


def test_a_file_with_certificates_is_used(tmp_path, monkeypatch):
    path, _ = tls.make(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    assert unusable() is None
    http.client().close()
    assert trust().cert_store_stats()["x509_ca"] == 1
    monkeypatch.delenv("SSL_CERT_FILE")
    assert unusable() is None
