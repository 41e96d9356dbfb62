"""What an endpoint's image is built from: right form, same bytes everywhere, a tag that changes with what the image is."""

import io
import json
import subprocess
import zipfile

import pytest
import yaml
from msgspec.structs import replace

from startup import image
from startup.render import render
from tests.startup.specs import ENDPOINT, PLAIN
from verdict.errors import BadConfig, Refused

BOOT = ENDPOINT.sagemaker
AS_IT_IS = replace(ENDPOINT, secret=None, sagemaker=replace(BOOT, repository="", patch=False))
ONLY_WRAPPED = replace(ENDPOINT, sagemaker=replace(BOOT, gpu="L4", capability="8.9", patch=False))


def test_the_files_that_it_is_built_from():
    files = image.context(ENDPOINT)
    for name, data in files.items():
        assert b"\r" not in data and (data.endswith(b"\n") or not data), name
        if name.endswith(".py"):
            compile(data, name, "exec")
    assert files["Dockerfile"].decode().count(f"FROM {ENDPOINT.image}@{ENDPOINT.image_digest}\n") == 1
    spec = yaml.safe_load(files["buildspec.yml"])
    assert spec["version"] == 0.2
    assert [*spec["phases"]] == ["pre_build", "build", "post_build"]
    steps = [command for phase in spec["phases"].values() for command in phase["commands"]]
    assert steps == ["bash build.sh login", "bash build.sh build", "bash build.sh check"]


def test_a_shell_checker_reads_the_build_script(tmp_path):
    file = tmp_path / "build.sh"
    file.write_bytes(image.context(ENDPOINT)["build.sh"])
    subprocess.run(["bash", "-n", file], check=True)
    subprocess.run(["shellcheck", file], check=True)


def test_only_a_patched_image_carries_the_patch():
    assert "flexserve/startup/turing/patch.py" in image.context(ENDPOINT)
    files = image.context(ONLY_WRAPPED)
    assert not any("turing" in name for name in files) and b"turing" not in files["Dockerfile"]
    assert b"startup.endpoint.arch 8.9" in files["Dockerfile"]


def test_what_is_run_as_it_is_has_no_files_and_no_tag():
    assert image.context(AS_IT_IS) == {}
    with pytest.raises(BadConfig, match="no tag"):
        image.image_key(AS_IT_IS)
    assert "built no\n" in render(AS_IT_IS).script.decode()


def test_an_unresolved_base_is_shown_and_not_built():
    loose = replace(ENDPOINT, image_digest=None)
    assert f"FROM {ENDPOINT.image}:{ENDPOINT.image_tag}\n".encode() in image.context(loose)["Dockerfile"]
    assert b"# not resolved: " in render(loose).script and b"# not resolved: " not in render(ENDPOINT).script
    with pytest.raises(BadConfig, match="no tag"):
        image.image_key(loose)


def test_the_tag_names_base_and_patch_and_fits_a_registry():
    key = image.image_key(ENDPOINT)
    assert key.startswith("0123456789ab-patch1-") and len(key) <= 128 and key.isascii()
    assert image.image_key(ONLY_WRAPPED).startswith("0123456789ab-") and "patch" not in image.image_key(ONLY_WRAPPED)


SAME = {
    "another model": replace(ENDPOINT, model="google/gemma-4-12B-it", model_revision="0" * 40),
    "other arguments": replace(ENDPOINT, environment={"SM_VLLM_DTYPE": "float16"}),
    "another stack": replace(ENDPOINT, stack="other", deployment_id="zzzzzz"),
    "another secret": replace(ENDPOINT, secret=replace(ENDPOINT.secret, name="other")),
    "another repository": replace(ENDPOINT, sagemaker=replace(BOOT, repository="theirs")),
}
OTHER = {
    "another base": replace(ENDPOINT, image_digest="sha256:" + "f" * 64),
    "without the patch": replace(ENDPOINT, sagemaker=replace(BOOT, patch=False)),
    "another card": replace(ENDPOINT, sagemaker=replace(BOOT, capability="8.9")),
}


@pytest.mark.parametrize("spec", SAME.values(), ids=SAME)
def test_the_tag_stays_with(spec):
    assert image.image_key(spec) == image.image_key(ENDPOINT)


@pytest.mark.parametrize("spec", OTHER.values(), ids=OTHER)
def test_the_tag_changes_with(spec):
    assert image.image_key(spec) != image.image_key(ENDPOINT)


def test_the_archive_has_no_clock_and_no_order_in_it():
    files = image.context(ENDPOINT)
    packed = image.archive(files)
    assert packed == image.archive(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(packed)) as found:
        assert {name: found.read(name) for name in found.namelist()} == files
        assert {entry.date_time for entry in found.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_environment_names_the_secret():
    assert image.environment(ENDPOINT)["FLEXSERVE_SECRET_ARN"] == "hf-token"
    arn = "arn:aws:secretsmanager:us-east-2:111122223333:secret:hf-token-AbCdEf"
    assert image.environment(replace(ENDPOINT, sagemaker=replace(BOOT, secret_arn=arn)))["FLEXSERVE_SECRET_ARN"] == arn
    assert "FLEXSERVE_SECRET_ARN" not in image.environment(AS_IT_IS)


def test_awss_own_image_reads_no_secret():
    with pytest.raises(BadConfig, match="no secret"):
        image.environment(replace(AS_IT_IS, secret=ENDPOINT.secret))


def test_what_looks_like_a_secret_is_refused():
    with pytest.raises(Refused) as refused:
        render(replace(ENDPOINT, environment={"SM_VLLM_HF_TOKEN": "hf_" + "A" * 20}))
    assert refused.value.rule == "secret-in-script" and "AAAA" not in str(refused.value)


def test_rendered_is_all_that_decides():
    rendered = render(ENDPOINT)
    assert rendered.stub == b"" and rendered.files == image.context(ENDPOINT)
    for name in rendered.files:
        assert f"# ---- {name}\n".encode() in rendered.script
    assert json.dumps("google/gemma-4-E2B-it").encode() in rendered.script
    changed = {
        render(spec).sha256
        for spec in (
            ENDPOINT,
            ONLY_WRAPPED,
            replace(ENDPOINT, environment={}),
            replace(ENDPOINT, image_digest="sha256:" + "f" * 64),
        )
    }
    assert len(changed) == 4


def test_the_repository_is_the_accounts_own():
    assert image.repository_uri(ENDPOINT, "111122223333") == "111122223333.dkr.ecr.us-east-2.amazonaws.com/fs-k3j9x2"
    with pytest.raises(BadConfig, match="no endpoint"):
        image.repository_uri(PLAIN, "111122223333")
