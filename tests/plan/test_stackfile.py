"""Oddities of a stack file: what Pulumi would read differently is refused, nothing is passed over, no secret is repeated."""

import json
import re
import secrets

import pytest
import yaml

from infra import goyaml
from infra.deployment import from_pulumi, from_stack_text
from verdict.errors import BadConfig, FlexserveError, Refused

TOKEN = "hf_" + "AbCdEfGh" * 3


@pytest.fixture
def text(root):
    """The shipped stack file, filled in."""
    shipped = (root / "stacks" / "Pulumi.tpu-v6e.yaml").read_text(encoding="utf-8")
    return shipped.replace("your-project", "acme-1").replace("user:you@example.com", "user:ops@acme.test")


def more(text, *lines):
    """With more keys below `config:`."""
    return text + "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("disk_gb: 200", "disk_gb: '200'"),
        lambda text: more(text, "gcp:project: other"),
        lambda text: text.replace("name: hf-token", "name: &it hf-token") + "x: *it\n",
        lambda text: text.replace("  flexserve:window:", "  window:"),
    ],
    ids=["CRLF", "BOM", "a number as text", "a provider's key", "an alias", "a key of the project without its name"],
)
def test_the_same_deployment(text, change):
    assert from_stack_text("s", change(text)) == from_stack_text("s", text)


def test_a_key_without_a_namespace_is_the_projects_own_as_in_pulumi(text):
    found = from_stack_text("s", text.replace("flexserve:window: 4h", "window: 20m"))
    assert found.common.window == 1200


BAD = [
    ("flexserv:window: 20m", "did you mean flexserve:window?"),
    ("Flexserve:window: 20m", "did you mean flexserve:window?"),
    ("flex-serve:egress: nat", "did you mean flexserve:egress?"),
    ("flexserve:window: 20m", "stands twice (line"),
    ("window: 20m", "flexserve:window stands twice, with and without flexserve:"),
    ("windo: 20m", "flexserve:windo: no such key; did you mean window?"),
    ("flexserve/window: 20m", "no such key"),
    ("flexserve:config:window: 20m", "no such key"),
    ("flexserve:owner: 2026-13-45", "is not YAML"),
    ("flexserve:owner: " + "9" * 5000, "is not YAML"),
    ("flexserve:allow: &a [*a]", "nests too deep"),
    ("flexserve:allow: " + "[" * 2000 + "]" * 2000, "nests too deep"),
    ("flexserve:owner: {a: {a: 1, a: 2}}", "stands twice (line"),
    ('flexserve:owner: "\x01"', "is not YAML"),
]


@pytest.mark.parametrize(("line", "says"), BAD, ids=[re.sub(r"(.{30}).*", r"\1", line) for line, _ in BAD])
def test_what_is_refused(text, line, says):
    with pytest.raises(BadConfig) as error:
        from_stack_text("s", more(text, line))
    assert says in str(error.value) and "Traceback" not in str(error.value)


def test_aliases_of_aliases_are_refused_before_they_are_held_in_full(text):
    lines = ["x:a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x:a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(BadConfig, match="without aliases"):
        from_stack_text("s", more(text, *lines))


@pytest.mark.parametrize("value", ["4:00:00", "2026-01-01", "9" * 400 + "d", "4\N{FULLWIDTH DIGIT ONE}h", "1e", "0o7x", "1.2.3"])
def test_a_window_that_pulumi_reads_as_text_is_no_window(text, value):
    with pytest.raises(BadConfig, match="is not a duration"):
        from_stack_text("s", text.replace("window: 4h", f"window: {value}"))


# What Pulumi 3.274 makes of these within a group of keys, as it was seen. None: it refuses the file.
GO = [
    ("1e3", 1000), ("1.0e3", 1000), ("1.0", 1), ("5.", 5), ("-.5", -0.5), ("+1.5", 1.5), ("1e-7", 1e-7), ("1e21", 1e21),
    ("08", 8), ("017", 15), ("0o17", 15), ("1_000.5", 1000.5), ("'1e3'", "1e3"), ("1:30", "1:30"), ("1.5:30", "1.5:30"),
    ("1.2.3", "1.2.3"), ("1e", "1e"), ("0o8", "0o8"), (".inf", None), ("-.INF", None), (".nan", None), ("1e400", None),
    ('{"<<": {a: 1}, b: 2}', {"a": 1, "b": 2}), ("{<<: {a: 1}, <<: {b: 2}}", None),
]  # fmt: skip


@pytest.mark.parametrize(("written", "is_read"), GO, ids=[written for written, _ in GO])
def test_within_a_group_of_keys_values_are_what_pulumi_makes_of_them(written, is_read):
    if is_read is None:
        with pytest.raises(BadConfig, match="is not YAML"):
            goyaml.parse(f"k: {written}", "it")
    else:
        found = goyaml.parse(f"k: {written}", "it")["k"]
        assert found == is_read and type(found) is type(is_read)


@pytest.mark.parametrize("item", ["allow=&a [*a]", f"target.disk_gb={'9' * 5000}", "owner=2026-13-45", "allow={a: 1, a: 2}"])
def test_set_is_read_in_the_same_way(text, item):
    with pytest.raises(BadConfig, match="--set"):
        from_stack_text("s", text, [item])


# What Pulumi 3.274 hands to the program for these lines of a stack file, as it was seen.
PASSED = [
    ('flexserve:owner: "123"', "123"),
    ("flexserve:owner: ops", "ops"),
    ("flexserve:window: 14400", "14400"),
    ("flexserve:secret:", ""),
    ("flexserve:allow: [disk-too-small]", '["disk-too-small"]'),
]


@pytest.mark.parametrize(("line", "passed"), PASSED)
def test_the_program_reads_what_the_commands_read(text, line, passed):
    key = line.partition(": ")[0].rstrip(":")
    base = "\n".join(part for part in re.split(r"\n(?=  \S)", text.rstrip()) if not part.startswith(f"  {key}:")) + "\n"
    read = from_stack_text("s", more(base, line))
    others = {k: v if isinstance(v, str) else json.dumps(v) for k, v in yaml.safe_load(base)["config"].items()}
    assert from_pulumi("s", others | {key: passed}) == read


def test_a_misspelt_namespace_is_refused_in_the_program_too():
    with pytest.raises(BadConfig, match="nothing reads flexserv"):
        from_pulumi("s", {"flexserv:window": "20m"})


PLACES = [
    lambda text: more(text, f"flexserve:owner: {TOKEN}: x: ["),
    lambda text: more(text, f"flexserve:owner: *{TOKEN}"),
    lambda text: more(text, f"flexserve:owner: !{TOKEN} x"),
    lambda text: more(text, f"flexserve:{TOKEN}: x"),
    lambda text: more(text, f"flexserve:allow: [{TOKEN}]"),
    lambda text: more(text, f"flexserve:owner: {{{TOKEN}: 1, {TOKEN}: 2}}"),
    lambda text: text.replace("name: hf-token", f"{TOKEN}: x"),
    lambda text: text.replace("kind: gce_flex", f"kind: {TOKEN}"),
    lambda text: text.replace("disk_gb: 200", f"disk_gb: {TOKEN}"),
    lambda text: text.replace("disk_gb: 200", f"disk_gb: [{{a: {TOKEN}}}]"),
    lambda text: text.replace("window: 4h", f"window: {TOKEN}"),
    lambda text: text.replace("egress: address", f"egress: {TOKEN}"),
    lambda text: text.replace("vllm/vllm-tpu:v0.27.0", TOKEN),
    lambda text: text.replace("[europe-west4-a]", f"[{TOKEN}]"),
    lambda text: text.replace("max_model_len: 65536", f"extra_args: {{{TOKEN}: 1}}"),
    lambda text: text.replace("max_model_len: 65536", f"environment: {{{TOKEN}: x}}"),
    lambda text: text.replace("max_model_len: 65536", f"environment: {{VLLM_API_KEY: {TOKEN}}}"),
    lambda text: text.replace("google/gemma-4-E2B-it", TOKEN),
    lambda text: text.replace("google/gemma-4-E2B-it", f"google/gemma-4-E2B-it\n    revision: '{TOKEN} x'"),
    lambda text: text.replace("user:ops@acme.test", TOKEN),
    lambda text: text.replace("window: 4h", f'window: "4h\\n{TOKEN}"'),
    lambda text: text.replace("egress: address", f"egress: |\n    address\n    {TOKEN}"),
    lambda text: text.replace("disk_gb: 200", f'disk_gb: {{a: "\\t{TOKEN}"}}'),
    lambda text: text.replace("kind: gce_flex", f'kind: "gce\\x1b{TOKEN}"'),
    lambda text: text.replace("hf-token", f'"hf\\n{TOKEN}"'),
]


@pytest.mark.parametrize("place", PLACES, ids=map(str, range(len(PLACES))))
def test_a_secrets_value_is_repeated_by_no_error(text, place):
    """In words, as JSON, and however its characters are joined."""
    from catalog.loader import Catalog
    from infra.plan import make_plan

    odd = place(text)
    assert odd != text
    with pytest.raises(FlexserveError) as error:
        make_plan(from_stack_text("s", odd), Catalog.load())
    said = f"{error.value} {error.value.as_dict()}"
    assert TOKEN[3:] not in said
    assert error.value.exit_code in (2, 3)


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        "hf_oauth_" + "eyJh.AbCd-EfGh_" * 2,
        "api_org_" + "AbCdEfGh" * 4,
        "AKIA" + "Z" * 16,
        "ASIA" + "Z" * 16,
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEbody\nmore\n-----END RSA PRIVATE KEY-----",
    ],
    ids=["Hub", "Hub, OAuth", "Hub, of an organization", "AWS", "AWS, for a while", "key"],
)
def test_no_error_repeats_a_secrets_value_whoever_wrote_its_words(secret):
    body = secret.splitlines()[1] if "\n" in secret else secret
    mark = secrets.token_hex(4)
    said = FlexserveError(f"it said {secret}", why=secret, way_out=f"{secret}, {mark}")
    as_written = FlexserveError(repr(f"a\n{body}\x1b{body}"), why=json.dumps({"a": f"\t{body}"}))
    for error in (said, *([as_written] if body == secret else []), Refused("r", why=secret, way_out="")):
        assert body not in f"{error} {error.as_dict()} {error!r}"
    assert mark in str(said)
