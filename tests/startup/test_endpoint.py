"""The wrapper around an endpoint's entry point: the token is in one process's environment, and nowhere else."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal.machine.builds import KERNEL
from startup import image
from startup.endpoint import arch, entry, secret
from startup.endpoint.secret import Answer, Never
from startup.endpoint.sign import Keys, signed
from tests.startup.specs import ENDPOINT

SENTINEL = "hf_" + "SENTINELsentinel42"
ARN = "arn:aws:secretsmanager:us-east-2:111122223333:secret:hf-token-AbCdEf"
HOME = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/x", "FLEXSERVE_SECRET_ARN": ARN}
KEYS = Answer(200, json.dumps({"AccessKeyId": "ASIAX", "SecretAccessKey": "role-secret", "Token": "role-token=="}).encode())
GIVEN = Answer(200, json.dumps({"SecretString": SENTINEL}).encode())


def refusal(code, status=400):
    return Answer(
        status, json.dumps({"__type": f"com.amazonaws#{code}" if "#" not in code else code, "Message": SENTINEL}).encode()
    )


class Aws:
    """Answers in turn; the last one for ever."""

    def __init__(self, credentials, answers):
        self.queues = {"http://169.254.170.2/v2/credentials/x": list(credentials), "secretsmanager": list(answers)}
        self.asked, self.time, self.said = [], 0.0, []

    def __call__(self, url, headers, body):
        self.asked.append((url, dict(headers), body))
        queue = self.queues["secretsmanager" if url.startswith("https://secretsmanager.") else url]
        return queue.pop(0) if len(queue) > 1 else queue[0]

    def run(self, environment):
        def sleep(seconds):
            self.time += seconds

        return entry.environment_of(environment, self, sleep, lambda: self.time, self.said.append)


def test_the_token_is_in_the_environment_and_in_no_line():
    aws = Aws([KEYS], [GIVEN])
    assert aws.run(HOME) == {**HOME, "HF_TOKEN": SENTINEL}
    assert SENTINEL not in "".join(aws.said) and "role-secret" not in "".join(aws.said)
    url, headers, body = aws.asked[-1]
    assert url == "https://secretsmanager.us-east-2.amazonaws.com/" and json.loads(body) == {"SecretId": ARN}
    assert headers["x-amz-security-token"] == "role-token==" and "role-secret" not in json.dumps(headers)


def test_without_a_secret_nothing_is_asked_and_nothing_changes():
    aws = Aws([KEYS], [GIVEN])
    assert aws.run({"A": "b"}) == {"A": "b"} and aws.asked == []


def test_a_role_that_comes_late_is_waited_for():
    none = [Answer(404, b""), Answer(0, b"Connection refused"), Answer(200, b"{}")]
    late = [refusal("AccessDeniedException"), refusal("ThrottlingException"), Answer(500, b"")]
    aws = Aws([*none, KEYS], [*late, GIVEN])
    assert aws.run(HOME)["HF_TOKEN"] == SENTINEL
    assert len([line for line in aws.said if "again in" in line]) == 6
    assert any("AccessDeniedException" in line for line in aws.said) and SENTINEL not in "".join(aws.said)


@pytest.mark.parametrize(
    ("credentials", "answer", "words"),
    [
        (KEYS, refusal("AccessDeniedException"), "still so after 300 s: AccessDeniedException"),
        (Answer(404, b""), GIVEN, "gives no credentials yet"),
        (KEYS, refusal("ResourceNotFoundException"), "no secret of this name"),
        (KEYS, refusal("InvalidRequestException"), "marked for deletion"),
        (KEYS, Answer(200, b'{"SecretString": "  \\n"}'), "it is empty"),
        (KEYS, Answer(200, b'{"SecretBinary": "aGk="}'), "it is empty"),
        (KEYS, Answer(200, b'{"SecretString": "two words"}'), "no token"),
    ],
)
def test_what_cannot_be_mended_ends_by_name(credentials, answer, words):
    aws = Aws([credentials], [answer])
    with pytest.raises(Never, match=re.escape(words)):
        aws.run(HOME)
    assert aws.time <= entry.PATIENCE_S and SENTINEL not in "".join(aws.said)


def test_a_container_that_knows_no_role_says_so():
    with pytest.raises(Never, match="RELATIVE_URI"):
        Aws([KEYS], [GIVEN]).run({"FLEXSERVE_SECRET_ARN": ARN})


def test_a_plain_name_is_looked_for_in_the_containers_region():
    aws = Aws([KEYS], [GIVEN])
    aws.run({**HOME, "FLEXSERVE_SECRET_ARN": "hf-token", "AWS_REGION": "us-west-2"})
    assert aws.asked[-1][0] == "https://secretsmanager.us-west-2.amazonaws.com/"
    with pytest.raises(Never, match="AWS_REGION"):
        aws.run({**HOME, "FLEXSERVE_SECRET_ARN": "hf-token"})


@pytest.mark.parametrize("text", [SENTINEL, f"  {SENTINEL}\n", json.dumps({"token": SENTINEL})])
def test_forms_of_the_value(text):
    assert secret.token_in(text) == SENTINEL


def test_the_address_and_word_of_the_credential_provider(tmp_path):
    told = []

    def ask(url, headers, body):
        told.append((url, dict(headers)))
        return KEYS

    word = tmp_path / "word"
    word.write_text("Bearer x\n")
    full = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/k", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(word)}
    assert secret.keys_of(full, ask) == Keys("ASIAX", "role-secret", "role-token==")
    secret.keys_of({**HOME, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "v"}, ask)
    assert told == [
        ("http://127.0.0.1:9/k", {"authorization": "Bearer x"}),
        ("http://169.254.170.2/v2/credentials/x", {"authorization": "v"}),
    ]


def test_it_becomes_the_entry_point_with_its_arguments(monkeypatch, capsys):
    became = []
    monkeypatch.setattr(entry, "environment_of", lambda environment, say: {**environment, "HF_TOKEN": SENTINEL})
    monkeypatch.setattr(os, "execvpe", lambda *call: became.append(call))
    entry.main(["/usr/local/bin/sagemaker_entrypoint.sh", "serve"], {"A": "b"})
    word = "/usr/local/bin/sagemaker_entrypoint.sh"
    assert became == [(word, [word, "serve"], {"A": "b", "HF_TOKEN": SENTINEL})]
    assert SENTINEL not in "".join(capsys.readouterr())


def test_a_secret_that_cannot_be_read_starts_no_server(monkeypatch, capsys):
    monkeypatch.setattr(os, "execvpe", lambda *call: pytest.fail("it started all the same"))
    assert entry.main(["x"], {"FLEXSERVE_SECRET_ARN": ARN}) == 1
    said = capsys.readouterr().err
    assert said.startswith(entry.SAID) and entry.GIVEN_UP in said and ARN in said


def test_run_as_the_image_runs_it(tmp_path):
    for name, data in image.context(ENDPOINT).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    shown = tmp_path / "entry"
    shown.write_text('#!/bin/sh\necho "$@" "$SM_VLLM_DTYPE" "$PYTHONPATH" $$\n')
    shown.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-IB", tmp_path / "flexserve", shown, "serve", "a b"],
        env={"SM_VLLM_DTYPE": "float16", "PYTHONPATH": "/kept", "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate(timeout=60)
    assert out == f"serve a b float16 /kept {process.pid}\n" and process.returncode == 0  # the same process
    assert not list(tmp_path.rglob("__pycache__"))


def test_patched_and_looked_at_as_the_build_does_it(tmp_path):
    for name, data in image.context(ENDPOINT).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    site = tmp_path / "site"
    kernel = site / "vllm/v1/attention/ops/triton_unified_attention.py"
    kernel.parent.mkdir(parents=True)
    kernel.write_bytes(KERNEL)
    (site / "vllm/__init__.py").touch()

    def run(*words):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
        argv = [sys.executable, "-S", "-B", "-m", *words]
        return subprocess.run(argv, cwd=tmp_path / "flexserve", env=environment, capture_output=True, text=True, timeout=60)

    assert run("startup.turing", "check").returncode == 1
    done = run("startup.turing", "apply")
    assert done.returncode == 0 and "changed now" in done.stdout, done.stderr
    assert run("startup.turing", "check").returncode == 0
    assert "No module named 'torch'" in run("startup.endpoint.arch", "7.5").stderr


names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(lambda s: f"x-amz-{s}")
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@settings(deadline=None)  # a host with other work is no slow function
@given(
    headers=st.dictionaries(names, words, max_size=3),
    body=st.binary(max_size=200),
    token=st.one_of(st.just(""), words),
    keys=st.tuples(words, words),
)
def test_the_signature_is_botocores(headers, body, token, keys):
    url, scope, stamp = "https://secretsmanager.us-east-2.amazonaws.com/", ("us-east-2", "secretsmanager"), "20260930T131500Z"
    headers = {name: value for name, value in headers.items() if name not in ("x-amz-date", "x-amz-security-token")}
    request = AWSRequest("POST", url, headers=dict(headers), data=body)
    request.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(*keys, token or None), scope[1], scope[0])
    request.headers["X-Amz-Date"] = stamp
    if token:
        request.headers["X-Amz-Security-Token"] = token
    there = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    mine = signed(url, headers, body, Keys(*keys, token), scope, stamp)["authorization"]
    assert mine.endswith(f"Signature={there}")
    assert f"SignedHeaders={signer.signed_headers(signer.headers_to_sign(request))}," in mine


def test_keys_are_not_shown():
    assert "role-secret" not in repr(Keys("ASIAX", "role-secret", "t"))


@pytest.mark.parametrize(
    ("flags", "capability", "good"),
    [
        ("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", "7.5", True),
        ("sm_80 sm_86 sm_90 sm_100 sm_120", "7.5", False),
        ("sm_70 sm_80", "7.5", False),
        ("sm_75 sm_80 sm_86 sm_90", "8.9", True),
        ("sm_75 sm_90", "8.9", False),
        ("sm_80 sm_89", "8.6", True),
        ("", "7.5", False),
    ],
)
def test_what_torch_was_built_for(flags, capability, good, monkeypatch, capsys):
    assert arch.runs(flags.split(), capability) is good
    torch = types.SimpleNamespace(__version__="2.12.0", _C=types.SimpleNamespace(_cuda_getArchFlags=lambda: flags or None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert arch.main([capability]) == (0 if good else 1)
    said = capsys.readouterr()
    assert (f"capability {capability}" in said.out) is not good and "torch 2.12.0" in said.out


def test_the_wrapper_needs_the_standard_library_alone():
    folder = Path(entry.__file__).parent
    used = {
        line.split()[1].split(".")[0]
        for file in folder.glob("*.py")
        if file.name != "arch.py"
        for line in file.read_text().splitlines()
        if re.match(r"(from|import) ", line)
    }
    assert used - set(sys.stdlib_module_names) == {"startup"}
