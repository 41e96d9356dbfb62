"""What the stand-in commands do (`client.sh` hands their words over); `faults.json` says what goes wrong."""

import json
import time

import ec2
import making
from ec2 import fallocate, iptables, mkswap, nvidia_smi, swapon  # noqa: F401 (found by name)
from making import cuobjdump, git, nvcc, python, rustup, uname  # noqa: F401 (found by name)
from shared import stamp

SERVER_LOG = (
    "Starting to load model",
    "Loading weights took 0.10 seconds",
    "Compiling the model with different input shapes.",
    "init engine (profile, create kv cache, warmup model) took 0.20 seconds",
    "Application startup complete.",
)
CRASHES = {
    "bad-flag": "vllm: error: unrecognized arguments: --no-such-flag",
    "kv-cache-too-small": "ValueError: To serve at least one request with the model's max seq len (131072), "
    "(16.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.71 GiB). "
    "Based on the available memory, the estimated maximum model length is 5632.",
    "kv-cache-none": "ValueError: No available memory for the cache blocks.",
    "out-of-memory": "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.",
    "accelerator-busy": "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy",
    "no-accelerator": "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: No devices",
    "unsupported-quantization": "ValueError: quantization method compressed-tensors is not supported on tpu",
    "port-in-use": "OSError: [Errno 98] Address already in use",
    "crash-loop": "SomethingOddError: nobody has seen this before",
    "shared-memory": "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536",
}


class Said:
    """What a command prints."""

    def __init__(self):
        self.out, self.errors = [], []

    def say(self, text):
        self.out.append(text)

    def error(self, text):
        self.errors.append(text)


def main(world, said, name, *words):
    """One command; its exit status."""
    world.note("calls.jsonl", {"argv": [name, *words]})
    return globals()[name.replace("-", "_")](world, list(words), said)


def dpkg(world, words, said):
    if words == ["--configure", "-a"] and world.fault("dpkg") == "broken":
        said.error("dpkg: error processing package docker.io (--configure): Exec format error")
        return 1
    return 0


def groupadd(world, words, said):
    return 0


def dpkg_query(world, words, said):
    said.say("installed docker.io\ninstalled containerd\nnot-installed docker-ce\ninstalled runc")
    return 1  # as for a name that is not installed


def sync(world, words, said):
    return 0


def apt_mark(world, words, said):
    return 0


def journalctl(world, words, said):
    if "--output=json" in words:
        return ec2.journal(world, words, said)
    said.say("dockerd[1]: failed to start daemon: no space for a network")
    return 0


def apt_get(world, words, said):
    world.hold("packages")
    fault = world.fault("apt")
    if fault == "lock" or (fault == "lock-3" and world.count("apt") < 3):
        said.error("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4242 (unattended-upgr)")
        return 100
    if fault == "mirror":
        said.error("E: Failed to fetch http://mirror.test/x.deb  Connection failed")
        return 100
    if fault == "missing" and "install" in words:
        said.error("E: Failed to fetch http://mirror.test/pool/docker.io_20.10_amd64.deb  404  Not Found [IP: 192.0.2.1 80]")
        said.error("E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?")
        return 100
    if fault == "no-package" and "install" in words:
        said.error("E: Unable to locate package docker.io")
        return 100
    toolkit = next((word for word in words if word.startswith("cuda-toolkit-")), "")
    if toolkit:
        return making.toolkit(world, toolkit, said)
    if "install" in words:
        for command in ("docker", "dockerd"):
            target = world.folder / "bin" / command
            target.write_text((world.folder / "bin" / "apt-get").read_text())
            target.chmod(0o755)
    return 0


def systemctl(world, words, said):
    if words[-1] == ec2.UNIT:
        return ec2.unit(world, words, said, SERVER_LOG, CRASHES)
    if world.fault("systemctl") == "fails":
        said.error("Failed to start the unit: Transport endpoint is not connected")
        return 1
    if words == ["start", "docker"]:
        world.hold("docker")
        if world.fault("docker") != "down":
            (world.folder / "docker" / "up").touch()
    return 0


def docker(world, words, said):
    up = (world.folder / "docker" / "up").exists()
    if not up:
        said.error("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
        return 1
    return globals()["docker_" + words[0]](world, words[1:], said)


def docker_info(world, words, said):
    return 0


def docker_image(world, words, said):
    return 0 if (world.folder / "docker" / "image").exists() else 1


def docker_pull(world, words, said):
    world.hold("image")
    fault = world.fault("pull")
    if fault == "429-twice":
        fault = "429" if world.count("pull") < 2 else None
    texts = {
        "429": "Error response from daemon: toomanyrequests: You have reached your pull rate limit.",
        "no-space": "failed to register layer: write /usr/lib/x.so: no space left on device",
        "not-found": "Error response from daemon: manifest for vllm/vllm-tpu@sha256:00 not found: manifest unknown",
        "denied": "Error response from daemon: pull access denied for vllm/vllm-tpu",
        "network": 'Error response from daemon: Get "https://registry-1.docker.io/v2/": dial tcp: no such host',
    }
    if fault:
        said.error(texts[fault])
        return 1
    (world.folder / "docker" / "image").write_text(words[-1])
    said.say(f"Status: Downloaded newer image for {words[-1]}")
    return 0


def docker_run(world, words, said):
    if world.container() is not None:
        said.error('docker: Error response from daemon: Conflict. The container name "/flexserve-vllm" is already in use.')
        return 125
    if world.fault("run") == "refused":
        said.error("docker: Error response from daemon: invalid mount config")
        return 125
    label = words[words.index("--label") + 1]
    crash = world.fault("server")
    if isinstance(crash, list):  # one a run
        turn = world.count("run")
        crash = crash[turn] if turn < len(crash) else None
    (world.folder / "docker" / "log").unlink(missing_ok=True)
    container = {"name": "flexserve-vllm", "id": f"c{time.time_ns()}", "label": label.partition("=")[2], "argv": words}
    world.keep({**container, "status": "running", "restarts": 0, "started": stamp(), "crash": crash})
    said.say(container["id"])
    if crash in CRASHES:
        world.log("Starting to load model", "Traceback (most recent call last):", CRASHES[crash])
    else:
        world.log(SERVER_LOG[0])
        world.hold("load")
        world.log(SERVER_LOG[1])
        if not (world.folder / "held" / "compile").exists():
            world.log(*SERVER_LOG[2:])
    return 0


def docker_inspect(world, words, said):
    container = world.container()
    if container is None:
        said.error("Error: No such container: flexserve-vllm")
        return 1
    if container["crash"] in CRASHES and container["status"] != "exited":
        container.update(status="restarting", restarts=container["restarts"] + 1)
        world.keep(container)
    state = {
        "Status": container["status"],
        "StartedAt": container["started"],
        "ExitCode": 1,
        "OOMKilled": container["crash"] == "oom",
    }
    labels = {"flexserve.config": container["label"]}
    about = {"Id": container["id"], "RestartCount": container["restarts"], "State": state, "Config": {"Labels": labels}}
    said.say(json.dumps([about]))
    return 0


def docker_logs(world, words, said):
    since = words[words.index("--since") + 1] if "--since" in words else ""
    if world.fault("token-in-log"):
        world.log("a line with " + (world.folder / "secret").read_text().strip())
    compile_gate = world.folder / "held" / "compile"
    lines = (world.folder / "docker" / "log").read_text().splitlines()
    container = world.container()
    if compile_gate.exists():
        compile_gate.with_name("compile.reached").touch()
    elif not any("init engine" in line for line in lines) and container and container["crash"] not in CRASHES:
        world.log(*SERVER_LOG[2:])
        lines = (world.folder / "docker" / "log").read_text().splitlines()
    said.say("\n".join(line for line in lines if line.split(" ")[0] >= since))
    return 0


def docker_stop(world, words, said):
    container = world.container()
    if container:
        world.keep({**container, "status": "exited"})
    return 0


def docker_rm(world, words, said):
    (world.folder / "docker" / "flexserve-vllm.container").unlink(missing_ok=True)
    return 0
