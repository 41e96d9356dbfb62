"""The rules of the part that runs on the machine, as tables."""

import base64
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from startup import boot_phases, container, phases, spec
from startup.onboard import attempt as attempts
from startup.onboard import causes, chat, hub, places, process, secret, server
from startup.onboard.boot import Boot, Step, cause_of
from startup.onboard.curl import Answer, _split
from startup.onboard.engine import Server
from startup.onboard.redact import Redactor
from startup.onboard.report import Report
from tests.startup.specs import AWKWARD, PLAIN

CAUSES = [
    ("packages", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4242", "apt-lock"),
    ("packages", "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)", "apt-lock"),
    ("packages", "E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "apt-lock"),
    ("packages", "W: Failed to fetch http://archive.ubuntu.com/x  Temporary failure resolving 'archive.ubuntu.com'", "apt-mirror"),
    ("packages", "E: Package 'docker.io' has no installation candidate", "apt-no-package"),
    ("packages", "dpkg: error: failed to write status: No space left on device", "no-space"),
    ("packages", "E: Failed to fetch http://m/./Packages  404  Not Found", "apt-mirror"),
    ("packages", "E: Failed to fetch http://m/pool/x/runc_1.1%2b1_amd64.deb  404  Not Found [IP: 192.0.2.1 80]", "apt-missing"),
    ("image", "toomanyrequests: You have reached your unauthenticated pull rate limit.", "image-pull-limit"),
    ("image", "failed to register layer: ApplyLayer exit status 1: write /x: no space left on device", "no-space"),
    (
        "image",
        'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout',
        "image-registry",
    ),
    ("image", "manifest for vllm/vllm-tpu@sha256:00 not found: manifest unknown: manifest unknown", "image-not-found"),
    (
        "image",
        "Error response from daemon: pull access denied for x, repository does not exist or may require login",
        "image-not-found",
    ),
    ("load", "vllm: error: unrecognized arguments: --kv-cash-dtype", "bad-flag"),
    ("load", "api_server.py: error: argument --dtype: invalid choice: 'bf61'", "bad-flag"),
    ("load", "Based on the available memory, the estimated maximum model length is 5632. Try increasing", "kv-cache-too-small"),
    ("compile", "ValueError: No available memory for the cache blocks. Try increasing", "kv-cache-none"),
    ("compile", "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 40.1G of 31.25G hbm.", "out-of-memory"),
    ("load", "open(/dev/vfio/0): Device or resource busy: the TPU is in use", "accelerator-busy"),
    ("load", "The TPU is already in use by process with pid 4711", "accelerator-busy"),
    ("load", "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "accelerator-busy"),
    ("serving", "triton OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536", "shared-memory"),
    ("load", "OSError: [Errno 98] Address already in use", "port-in-use"),
    ("load", "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata", "bad-checkpoint"),
    ("load", "INFO: everything is fine", None),
    ("token", "vllm: error: unrecognized arguments", None),
]


@pytest.mark.parametrize(("phase", "line", "cause"), CAUSES)
def test_cause_of_a_line(phase: str, line: str, cause: str | None) -> None:
    found = causes.find(["before", line, "after"], phase)
    assert (found[0].id if found else None) == cause
    if found:
        assert (
            found[1].startswith(f"{cause}: ") and "{" not in found[1] and ("length" not in found[1] or "(length)" not in found[1])
        )


def test_every_row_says_something_and_is_known_by_one_name() -> None:
    assert len(causes.BY_ID) == len(causes.ROWS)
    for row in causes.ROWS:
        assert set(row.phases) <= set(boot_phases.PHASES) and row.about and row.way_out
        assert "\n" not in causes.say(row.id)
    source = "".join(path.read_text() for path in Path(causes.__file__).parent.glob("*.py"))
    templates = "".join(path.read_text() for path in Path("templates").rglob("*.j2"))
    unused = [row.id for row in causes.ROWS if not row.pattern and source.count(f'"{row.id}"') + templates.count(row.id) < 2]
    assert unused == []


@pytest.mark.parametrize(
    ("patience", "pauses"),
    [(0, []), (1, [1]), (6, [1, 2, 3]), (60, [1, 2, 4, 8, 16, 29])],
)
def test_a_registry_that_throttles_is_asked_for_so_long(
    patience: float, pauses: list[float], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(attempts, "sleep", slept.append)
    command = ["sh", "-c", "echo toomanyrequests: You have reached your pull rate limit. >&2; exit 1"]
    with pytest.raises(causes.Failed, match=rf"^image-pull-limit: .*\(asked for {patience:g} s, image.throttled_wait\)$"):
        attempts.attempt("image", command, patience=patience)
    assert slept == pauses and capfd.readouterr().out.count("toomanyrequests") == len(pauses) + 1


def test_a_mirror_without_what_it_lists_is_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(attempts, "sleep", slept.append)
    command = ["sh", "-c", "echo 'E: Failed to fetch http://m/./docker.io_1_all.deb  404  Not Found [IP: 192.0.2.1 80]'; exit 100"]
    with pytest.raises(causes.Failed, match=r"^apt-missing: .* docker.io_1_all.deb .*\(tried 5 times\)$"):
        attempts.attempt("packages", command, patience=60)
    assert slept == [1, 2, 4, 8]


def test_other_causes_know_no_patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slept: list[float] = []
    monkeypatch.setattr(attempts, "sleep", slept.append)
    count = tmp_path / "count"
    script = f'echo x >>{count}; [ "$(wc -l <{count})" -gt 8 ] || {{ echo "dial tcp: no such host"; exit 1; }}'
    attempts.attempt("image", ["sh", "-c", script], patience=0)
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60]


def test_constants_that_are_written_twice_are_the_same() -> None:
    assert str(places.STATE) == phases.STATUS_DIR == spec.STATE_DIR
    assert (places.NAMESPACE, places.CONTAINER) == (phases.NAMESPACE, spec.CONTAINER)
    assert set(spec.PHASE_LIMITS) == set(boot_phases.PHASES)


def test_hash_changes_with_what_makes_the_container_and_nothing_else() -> None:
    from msgspec.structs import replace

    same = replace(PLAIN, stack="other", deployment_id="x", window_s=1, secret=None, phase_limits={})
    assert container.config_hash(same) == container.config_hash(PLAIN)
    others = [
        replace(PLAIN, image_digest="sha256:" + "f" * 64),
        replace(PLAIN, model_revision="f" * 40),
        replace(PLAIN, vllm_options=()),
        replace(PLAIN, docker_options=()),
        replace(PLAIN, environment={"A": "b"}),
        AWKWARD,
    ]
    assert len({container.config_hash(one) for one in [PLAIN, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (403, '{"error":{"details":[{"reason":"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}}', "secret-scope"),
        (403, '{"error":{"message":"Request had insufficient authentication scopes."}}', "secret-scope"),
        (403, '{"error":{"message":"Permission denied","status":"PERMISSION_DENIED"}}', "secret-permission"),
        (403, '{"error":{"details":[{"reason":"SERVICE_DISABLED"}]}}', "secret-api-disabled"),
        (404, "", "secret-missing"),
        (400, '{"error":{"status":"FAILED_PRECONDITION"}}', "secret-disabled"),
        (0, "", "secret-unreachable"),
        (503, "", "secret-unreachable"),
    ],
)
def test_refusals_of_secret_manager(status: int, body: str, cause: str) -> None:
    assert secret.refusal(status, body) == cause


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"hf_x", ""),
        (b"  hf_x\r\n", ""),
        (b"", "secret-empty"),
        (b" \n", "secret-empty"),
        (b"a b", "secret-malformed"),
        (b"\xff", "secret-malformed"),
    ],
)
def test_value_of_a_secret(value: bytes, cause: str) -> None:
    answer = Answer(200, json.dumps({"payload": {"data": base64.b64encode(value).decode()}}), "")
    facts = {"secret": "hf-token", "project": "p"}
    if cause:
        with pytest.raises(causes.Failed) as failed:
            secret.value_of(answer, facts)
        assert failed.value.text.startswith(f"{cause}: secret hf-token")
    else:
        assert secret.value_of(answer, facts) == "hf_x"


@pytest.mark.parametrize(
    ("status", "code", "token", "cause"),
    [
        (429, "", True, "hub-throttled"),
        (429, "", False, "hub-throttled-anonymous"),
        (401, "", True, "hub-unauthorized"),
        (401, "GatedRepo", True, "hub-licence"),
        (401, "RepoNotFound", True, "hub-not-found"),
        (401, "RepoNotFound", False, "hub-needs-token"),
        (403, "GatedRepo", True, "hub-licence"),
        (403, "", False, "hub-needs-token"),
        (404, "RevisionNotFound", True, "hub-not-found"),
        (500, "", True, "hub-unreachable"),
        (0, "", True, "hub-unreachable"),
    ],
)
def test_refusals_of_the_hub(status: int, code: str, token: bool, cause: str) -> None:
    assert hub.refusal(Answer(status, "", "", f"HTTP/2 {status}\nX-Error-Code: {code}\n"), token) == cause


def test_which_files_are_fetched() -> None:
    names = [
        "config.json",
        "model.safetensors",
        "pytorch_model.bin",
        "original/x.pth",
        "a.gguf",
        "README.md",
        "chat_template.jinja",
    ]
    listed = [{"rfilename": name, "size": 1} for name in names]
    assert [entry.name for entry in hub.wanted(listed)] == ["config.json", "model.safetensors", "chat_template.jinja"]
    only_bin = [one for one in listed if "safetensors" not in one["rfilename"]]
    assert "pytorch_model.bin" in [entry.name for entry in hub.wanted(only_bin)]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a\nb"])
def test_no_file_leaves_the_folder(name: str) -> None:
    with pytest.raises(causes.Failed):
        hub.wanted([{"rfilename": name, "size": 1}])


def test_space_is_looked_at_before_the_transfer(tmp_path: Path) -> None:
    hub.check_space(tmp_path, [hub.Entry("a", 1, None)])
    with pytest.raises(causes.Failed, match="no-space"):
        hub.check_space(tmp_path, [hub.Entry("a", 10**18, None)])


def test_heads_of_redirects_are_no_body() -> None:
    head, body = _split('HTTP/1.1 302 Found\r\nLocation: x\r\n\r\nHTTP/2 200\r\nRetry-After: 7\r\n\r\n{"a": "\\n\\n"}')
    answer = Answer(200, body, "", head)
    assert answer.document() == {"a": "\n\n"} and answer.header("retry-after") == "7"


def test_steps() -> None:
    assert Step.read("load=1200:image+weights") == Step("load", 1200, ("image", "weights"))
    assert Step.read("token=5:") == Step("token", 5, ())


@pytest.mark.parametrize(
    ("line", "loaded", "compiled"),
    [
        ("INFO 08-13 [default_loader.py:267] Loading weights took 50.45 seconds", True, False),
        ("Loading safetensors checkpoint shards: 100% Completed | 1/1", True, False),
        ("Loading safetensors checkpoint shards:  50% Completed | 1/2", False, False),
        ("INFO [kv_cache_utils.py:864] GPU KV cache size: 1,151,744 tokens", True, False),
        ("INFO [core.py:214] init engine (profile, create kv cache, warmup model) took 404.12 seconds", False, True),
        ("INFO:     Application startup complete.", False, True),
        ("INFO [tpu_runner.py:980] Compiling the model with different input shapes.", False, False),
    ],
)
def test_what_the_servers_log_shows(line: str, loaded: bool, compiled: bool) -> None:
    assert (bool(server.LOADED.search(line)), bool(server.COMPILED.search(line))) == (loaded, compiled)


def test_how_long_a_container_may_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "STATE", tmp_path)
    wanted = server.Wanted("c", 8000, True, 3600)

    def since(seconds: float) -> Server:
        at = time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() - seconds))
        return Server("id1", "c", "running", 0, at, 0, False)

    fresh = since(100)
    assert server.still_starting(fresh, wanted) and not server.still_starting(since(4000), wanted)
    server.served(fresh)
    assert not server.still_starting(fresh, wanted)  # it has served: silence is no start
    assert server.still_starting(since(50), wanted)  # started again since


@pytest.mark.parametrize(
    ("status", "noted", "line", "cause"),
    [
        (None, "secret-missing: secret x", "", "secret-missing: secret x (gave up after 6 s)"),
        (1, "secret-empty: secret x", "toomanyrequests", "secret-empty: secret x"),
        (1, "", "toomanyrequests", "image-pull-limit: "),
        (None, "", "nothing known", "time-limit: it took longer than its limit of 6 s"),
        (7, "", "OddError: what", "failed: it ended with status 7"),
    ],
)
def test_cause_of_a_phase(status: int | None, noted: str, line: str, cause: str) -> None:
    assert cause_of(Step("image", 6, ()), process.Ended(status, (line,)), noted).startswith(cause)


def test_numbers_asked_for_are_new() -> None:
    numbers = {chat.number() for _ in range(50)}
    assert len(numbers) > 45 and all(len(one) == 6 and one.isdigit() for one in numbers)


def test_a_process_group_ends_whole(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    script = f"(while true; do touch {mark}; sleep 0.05; done) & sleep 60"
    ended = process.run(["bash", "-c", script], {"PATH": "/usr/bin:/bin"}, 0.5, lambda _: None, stop=threading.Event())
    assert ended.status is None
    mark.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not mark.exists()


def test_lines_of_a_process() -> None:
    lines: list[str] = []
    code = "import sys; sys.stdout.buffer.write(b'a\\n10%\\r20%\\r30%\\n\\xff\\n' + b'x' * 9999); sys.exit(7)"
    ended = process.run([sys.executable, "-c", code], {}, 30, lines.append, stop=threading.Event())
    assert (ended.status, lines[:3], len(lines[3])) == (7, ["a", "30%", "\ufffd"], process.LINE_LENGTH)
    assert ended.tail == tuple(lines)


def test_reports_are_told_in_the_end_and_never_twice_out_of_order(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    gate = threading.Event()

    def tell(key: str, text: str) -> bool:
        gate.wait(10)
        told.append((key, text))
        return True

    report = Report(tmp_path, tell, tmp_path / "no" / "console")
    for number in range(20):
        report.document("state", {"n": number})
        report.document("phase-x", {"n": number})
    gate.set()
    report.flush(10)
    assert json.loads((tmp_path / "state").read_text()) == {"n": 19}
    for key in ("state", "phase-x"):
        numbers = [json.loads(text)["n"] for one, text in told if one == key]
        assert numbers[-1] == 19 and numbers == sorted(numbers) and len(numbers) < 20


def test_documents_of_an_earlier_run_are_not_part_of_this_one() -> None:
    values = {
        "state": json.dumps({"state": "booting", "run": "b", "script": "s"}),
        "phase-docker": json.dumps({"name": "docker", "start_s": 0, "result": "done", "run": "b"}),
        "phase-serving": json.dumps({"name": "serving", "start_s": 9, "result": "done", "run": "a"}),
        "phase-bad": "{",
    }
    status = phases.parse(values)
    assert status is not None and [phase.name for phase in status.phases] == ["docker"]


def test_a_full_disk_is_reported_all_the_same(tmp_path: Path) -> None:
    told: list[str] = []
    report = Report(tmp_path / "not" / "there", lambda key, _: told.append(key) is None, tmp_path / "console")
    report.document("state", {"n": 1})
    report.flush(10)
    assert told == ["state"]


def test_an_error_of_the_boot_itself_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "RUN", tmp_path / "not" / "there")
    script = tmp_path / "script"
    script.write_text("exit 0\n")
    report = Report(tmp_path, lambda *_: True, tmp_path / "console")
    boot = Boot(script, [Step("packages", 5, ()), Step("docker", 5, ("packages",))], report, Redactor([]))
    assert boot.run() == 1
    state = json.loads((tmp_path / "state").read_text())
    assert (state["state"], state["phase"]) == ("failed", "packages") and "FileNotFoundError" in state["cause"]


@pytest.mark.parametrize("keep", ["startup.onboard.aws.keep", "startup.onboard.secret.keep"])
def test_phases_side_by_side_may_keep_the_same_file(keep: str, tmp_path: Path) -> None:
    module, _, name = keep.rpartition(".")
    code = f"from pathlib import Path\nfrom {module} import {name}\nfor _ in range(150): {name}(Path({str(tmp_path / 'f')!r}), 'x')"
    running = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[1] for process in running] == [""] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
