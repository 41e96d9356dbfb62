"""AWS's own descriptions of its APIs: read as botocore reads them, by another reader."""

from __future__ import annotations

import json

import botocore.loaders
import pytest
from botocore.loaders import JSONFileLoader

from infra.clouds.aws import models

BOTOCORE = botocore.loaders.Loader.BUILTIN_DATA_PATH
FILES = ("endpoints", "partitions", "sdk-default-configuration", "sagemaker/2017-07-24/service-2", "iam/2010-05-08/paginators-1")


@pytest.mark.parametrize("file", FILES)
def test_it_reads_what_botocores_own_reads_in_the_same_order(file):
    path = f"{BOTOCORE}/{file}"
    ours, its = models.Reader(), JSONFileLoader()
    assert ours.exists(path) and its.exists(path)
    assert json.dumps(ours.load_file(path)) == json.dumps(its.load_file(path))


def test_what_is_not_there_and_what_is_no_json(tmp_path):
    assert not models.Reader().exists(str(tmp_path / "a")) and models.Reader().load_file(str(tmp_path / "a")) is None
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ValueError, match="truncated"):
        models.Reader().load_file(str(tmp_path / "a"))


def test_every_session_has_it_and_the_operators_own_descriptions(tmp_path, monkeypatch):
    own = tmp_path / "toy" / "2020-01-01"
    own.mkdir(parents=True)
    (own / "service-2.json").write_text('{"operations": {}}')
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    loaders = [models.session(region)._session.get_component("data_loader") for region in ("us-east-2", "eu-west-1")]
    assert loaders[0] is loaders[1] and type(loaders[0].file_loader) is models.Reader
    assert loaders[0].load_service_model("toy", "service-2") == {"operations": {}}
    assert "sagemaker" in loaders[0].list_available_services("service-2")
