"""What a spot machine's boot meets: EC2's metadata service, S3, Secrets Manager, a card, systemd's one unit."""

import json
import re
import time
from pathlib import Path

from shared import stamp

UNIT = "flexserve-vllm.service"
SESSION = "imds-session=="
KEYS = {"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "role-secret-key", "Token": "role-session-token=="}
ROLE = "fs-k3j9x2"


def imds(h, url, world):
    """Version 2 only: a session first."""
    path = url.path.removeprefix("/latest/")
    if path == "api/token":
        return h.send(200, SESSION.encode()) if h.command == "PUT" else h.send(405)
    if h.headers.get("X-aws-ec2-metadata-token") != SESSION:
        return h.send(401)
    fault = world.fault("identity")
    if path.startswith("meta-data/iam/security-credentials/"):
        if fault == "none" or (fault == "late" and world.count("identity") < 2):
            return h.send(404)
        if path.endswith("/"):
            return h.send(200, ROLE.encode())
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        return h.send(200, {"Code": "Success", "Type": "AWS-HMAC", **KEYS, "Expiration": ends})
    if path == "meta-data/spot/instance-action" and world.fault("spot") == "notice":
        return h.send(200, {"action": "terminate", "time": "2026-11-30T03:04:05Z"})
    if path == "meta-data/events/recommendations/rebalance" and world.fault("spot") in ("advice", "notice"):
        return h.send(200, {"noticeTime": "2026-11-30T03:00:00Z"})
    return h.send(404)


def signed(h, service):
    """Whether the request names the role's key and its session. The signature itself is checked by the local cloud."""
    authorization = h.headers.get("Authorization") or ""
    scope = re.match(rf"AWS4-HMAC-SHA256 Credential={KEYS['AccessKeyId']}/\d{{8}}/us-east-1/{service}/aws4_request,", authorization)
    return bool(scope) and h.headers.get("x-amz-security-token") == KEYS["Token"]


def denied(h, status, code):
    return h.send(status, f"<Error><Code>{code}</Code></Error>".encode(), Content_Type="application/xml")


def bucket(h, url, world):
    """Path style. Keys of the world's folder `bucket`; the script is what the metadata of other clouds would hold."""
    if not signed(h, "s3"):
        return denied(h, 403, "SignatureDoesNotMatch")
    fault = world.fault("bucket")
    if fault == "unavailable":
        return denied(h, 503, "SlowDown")
    key = url.path.removeprefix("/fs-k3j9x2/")
    script = key.endswith("/script")
    file = world.folder / ("metadata/flexserve-script" if script else f"bucket/{key}")
    if h.command == "PUT":
        return put(h, file, fault)
    if h.command == "DELETE":
        file.unlink(missing_ok=True)
        return h.send(204)
    if not file.is_file():
        return denied(h, 403, "AccessDenied")  # who may not list is not told that there is none
    data = file.read_bytes()
    if script and fault == "cut-script":
        data = data[: len(data) // 2]
    if fault == "damaged" and not script and not key.endswith(".json"):
        data = bytes(len(data))
    begin = int((h.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
    if begin >= len(data):
        return denied(h, 416, "InvalidRange")
    world.hold("build") if not script and not key.endswith(".json") else None
    h.send_response(206 if begin else 200)
    if begin:
        h.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
    h.send_header("Content-Length", str(len(data) - begin))
    h.end_headers()
    if fault == "cut" and not script and len(data) > 2000 and world.count("bucket") < 2:
        h.wfile.write(data[begin : (begin + len(data)) // 2])
        return h.drop()
    return h.wfile.write(data[begin:])


def put(h, file, fault):
    """One object in one request."""
    if fault == "read-only":
        return denied(h, 403, "AccessDenied")
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(file.name + ".new")
    fresh.write_bytes(h.body)
    fresh.replace(file)
    return h.send(200)


def secrets(h, url, world):
    if not signed(h, "secretsmanager"):
        return h.send(400, {"__type": "UnrecognizedClientException"})
    fault = world.fault("secret")
    if fault == "permission" or (fault == "permission-late" and world.count("grant") < 4):
        return h.send(400, {"__type": "AccessDeniedException", "Message": "not authorized"})
    if fault == "missing":
        return h.send(400, {"__type": "ResourceNotFoundException"})
    if fault == "disabled":
        return h.send(400, {"__type": "InvalidRequestException", "Message": "marked for deletion"})
    if fault == "unavailable":
        return h.send(503)
    value = (world.folder / "secret").read_text()
    value = {"empty": " \n", "two-lines": "a\nb", "console": json.dumps({"token": value})}.get(fault, value + "\n")
    return h.send(200, {"Name": json.loads(h.body)["SecretId"], "SecretString": value})


def nvidia_smi(world, words, said):
    fault = world.fault("driver")
    if fault == "down" or (fault == "late" and world.count("driver") < 2):
        said.say("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        return 9
    said.say("Tesla T4, 7.5, 580.1, 15360" if fault == "other-card" else "NVIDIA T4G, 7.5, 595.91.07, 15360")
    return 0


def fallocate(world, words, said):
    Path(words[-1]).touch()
    return 0


def mkswap(world, words, said):
    return 0


def swapon(world, words, said):
    on = world.folder / "swap-is-on"
    if words[0].startswith("--show"):
        said.say(on.read_text() if on.exists() else "")
        return 0
    if world.fault("swap") == "refused":
        said.error(f"swapon: {words[-1]}: swapon failed: Operation not permitted")
        return 255
    on.write_text(words[-1])
    return 0


def iptables(world, words, said):
    return 0


def unit(world, words, said, log, crashes):
    """`systemctl` about the one unit."""
    container = world.container()
    if words[0] == "start":
        text = (world.folder / "units" / UNIT).read_text()
        config = re.search(r"^# flexserve\.config=(\S+)$", text, re.MULTILINE)[1]
        crash = world.fault("server")
        (world.folder / "docker" / "log").unlink(missing_ok=True)
        argv = (world.folder / "state" / "serve").read_text()
        world.keep(
            {"id": f"u{time.time_ns()}", "label": config, "argv": argv, "status": "running", "restarts": 0, "started": stamp()}
            | {"crash": crash}
        )
        if crash in crashes:
            world.log("Starting to load model", "Traceback (most recent call last):", crashes[crash])
        else:
            world.log(*log)
        return 0
    if words[0] == "stop" and container:
        world.keep({**container, "status": "exited"})
    if words[0] == "show":
        if container and container["crash"] in crashes and container["status"] == "running":
            container["restarts"] += 1
            world.keep(container)
        on = bool(container) and container["status"] == "running"
        at = int(time.mktime(time.strptime(container["started"][:19], "%Y-%m-%dT%H:%M:%S"))) - time.timezone if container else 0
        said.say(f"ActiveState={'active' if on else 'failed'}\nSubState={'running' if on else 'failed'}")
        said.say(f"NRestarts={container['restarts'] if container else 0}\nExecMainStartTimestamp=@{at}\nExecMainStatus=0")
        said.say("Result=" + ("oom-kill" if container and container["crash"] == "oom" else "success"))
    return 0


def journal(world, words, said):
    """The unit's lines as journalctl prints them in JSON, after a cursor."""
    file = world.folder / "docker" / "log"
    after = next((int(word.partition("=")[2]) for word in words if word.startswith("--after-cursor=")), -1)
    for number, line in enumerate(file.read_text().splitlines() if file.exists() else ()):
        at, _, text = line.partition(" ")
        seconds = int(time.mktime(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))) - time.timezone
        micros = seconds * 1_000_000 + int(at[20:26])
        if number > after:
            said.say(json.dumps({"__CURSOR": str(number), "__REALTIME_TIMESTAMP": str(micros), "MESSAGE": text}))
    return 0
