"""Values that only Google would refuse are refused before anything is created; what Google takes is taken."""

import ipaddress
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.loader import Catalog
from infra.clouds.google import shapes
from infra.plan import make_plan
from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

NETWORK = "{{name: {}, subnetwork: s}}"
SUBNETWORK = "{{name: n, subnetwork: {}}}"
SITE = "https://www.googleapis.com/compute/v1/"
NO = {
    "target.project": ["''", "A B", "Acme-1", "acme", "acme-", "1acme-1", "acme_one", "a" * 31, "acme.test:ab", "12345678"],
    "target.zones": ["['']", "[Europe-West4-A]", "[europe-west4]", "[europe west4-a]", "[europe-west4-a/b]"],
    "target.subnet_range": [
        *("foo", "''", "0.0.0.0/0", "0.0.0.0/3", "10.9.0.1/24", "10.9.0.0", "10.9.0.0/30", "10.9.0.0/32"),
        *("fd00::/64", "127.0.0.0/24", "169.254.0.0/24", "224.0.0.0/8", "172.17.3.0/24"),
    ],
    "target.network": [
        *map(NETWORK.format, ("''", "A", "a_b", "-a", "a-", "a" * 64, "projects/acme-1/networks/n")),
        *map(SUBNETWORK.format, ("''", "S", "s.t", "regions/r/subnetworks/s", "'s t'")),
    ],
    "target.service_account": [
        *("''", "me", "me@example.com", "ab@acme-1.iam.gserviceaccount.com", "Vllm-box@acme-1.iam.gserviceaccount.com"),
        "serviceAccount:vllm-box@acme-1.iam.gserviceaccount.com",
    ],
    "target.host_image": ["''", "ubuntu", "projects/acme-1/images/x", "projects/acme-1/global/images/X"],
    "target.disk_type": ["''", "A B"],
    "secret.name": ["''", "a/b", "a b", "a.b", "ä", "a" * 256],
    "access.source_ranges": ["[]", "[nonsense]", "[35.235.240.1/20]", "[35.235.240.0]", "['']"],
    "access.members": ["[]"],
    "serving.limit_mm_per_prompt": ["{image: -1}", "{picture: 1}"],
    "serving.max_model_len": ["true"],
    "model.revision": ["''", "'a b'"],
    "window": ["-5"],
}
YES = {
    "target.project": ["acme-1", "a" * 30, "acme.test:acme-1", "a1b2c3"],
    "target.subnet_range": ["10.0.0.0/8", "10.9.0.0/29", "192.168.0.0/16", "100.64.0.0/10", "172.18.0.0/16", "8.8.8.0/24"],
    "target.network": [
        *map(NETWORK.format, ("n", "a" * 63, f"'{SITE}projects/acme-1/global/networks/n'")),
        SUBNETWORK.format("projects/acme-1/regions/europe-west4/subnetworks/s"),
    ],
    "target.service_account": [
        *("vllm-box@acme-1.iam.gserviceaccount.com", "vllm-box@acme-1.acme.test.iam.gserviceaccount.com"),
        *("123-compute@developer.gserviceaccount.com", "acme-1@appspot.gserviceaccount.com"),
    ],
    "target.host_image": ["projects/acme-1/global/images/mine-1"],
    "secret.name": ["HF_token-1", "a" * 255],
    "serving.limit_mm_per_prompt": ["{image: 0, video: 2}"],
    "access": ["{members: [], grants: existing}"],
    "model.revision": ["refs/pr/7"],
}
REFUSED = [f"{key}={value}" for key, values in NO.items() for value in values]
TAKEN = [f"{key}={value}" for key, values in YES.items() for value in values]


@pytest.mark.parametrize("setting", REFUSED)
def test_refused_with_exit_2_whatever_is_allowed(tpu_v6e, setting):
    with pytest.raises(BadConfig) as error:
        make_plan(tpu_v6e(setting), Catalog.load(), ["ingress-open", "unknown-zone", "disk-type-unsupported", "placeholder"])
    assert error.value.exit_code is ExitCode.USAGE
    key = setting.partition("=")[0].partition(".")[0]
    assert f"flexserve:{key}" in str(error.value)


@pytest.mark.parametrize("setting", TAKEN)
def test_taken(tpu_v6e, setting):
    assert make_plan(tpu_v6e(setting), Catalog.load()).allowed == ()


@settings(max_examples=30)  # building a text by a pattern is what takes the time
@given(st.from_regex(r"\A[a-z][a-z0-9-]{4,28}[a-z0-9]\Z"))
def test_every_id_of_googles_rule_is_a_project(text):
    assert shapes.project(text) == text


@given(st.text(max_size=40))
def test_no_other_text_is_a_short_name(text):
    rule = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)  # as the discovery document of Compute Engine has it
    if rule.fullmatch(text):
        assert shapes.short_name(text) == text
    else:
        with pytest.raises(ValueError, match="write"):
            shapes.short_name(text)


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_range_that_is_taken_is_one_that_google_gives(address, prefix):
    network = ipaddress.IPv4Network((address, prefix), strict=False)
    try:
        shapes.subnet_range(str(network))
    except ValueError:
        odd = [n for n in (*shapes.RESERVED, shapes.DOCKERS) if network.overlaps(ipaddress.IPv4Network(n))]
        assert odd or not shapes.LARGEST <= prefix <= shapes.SMALLEST
    else:
        assert shapes.LARGEST <= prefix <= shapes.SMALLEST and not network.is_loopback and not network.is_multicast
    if address != network.network_address:
        with pytest.raises(ValueError, match="range"):
            shapes.subnet_range(f"{address}/{prefix}")
