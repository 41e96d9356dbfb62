"""Why a phase failed: rows with a name, a sentence and a way out. The boot, its log search and the docs read the same rows.

A row with a `pattern` is found in the output of a phase; the others are named by the code that meets them. `{...}` in the
sentences are filled from the pattern's named groups or by that code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from startup.onboard import causes_ec2
from startup.onboard.cause import Cause

SERVER = ("load", "compile", "serving")
HUB = ("weights",)


ROWS: tuple[Cause, ...] = (
    Cause(
        "no-space",
        "the disk is full",
        "raise target.disk_gb; the log shows what is free",
        r"[Nn]o space left on device|not enough free space|not enough space",
    ),
    # packages, docker
    Cause(
        "apt-lock",
        "another package manager holds dpkg's lock",
        "it ends by itself, or reset the machine",
        r"Could not get lock|Unable to (?:acquire|lock)|dpkg frontend lock|is another process using it|dpkg was interrupted",
        ("packages", "build"),
        retry=True,
    ),
    Cause(
        "apt-missing",
        "the package mirror lists {file} and does not have it",
        "it may be between two states: `flexserve up` runs the boot again; if it stays so, use another host image",
        r"^E: Failed to fetch \S*?(?P<file>[^/\s]+\.deb)\s+404",
        ("packages",),
        retry=True,
        tries=5,
    ),
    Cause(
        "apt-mirror",
        "the package mirror does not answer",
        "give the machine a way out: egress `address` or `nat`",
        r"Failed to fetch|Temporary failure resolving|Could not (?:resolve|connect to)|Unable to fetch some|Connection failed",
        ("packages",),
        retry=True,
    ),
    Cause(
        "apt-no-package",
        "the distribution offers no {package}",
        "use a host image of Debian or Ubuntu, or one with Docker",
        r"Unable to locate package (?P<package>\S+)|Package '?(?P<package2>[^\s']+)'? has no installation candidate",
        ("packages", "build"),
    ),
    Cause(
        "docker-down",
        "Docker's daemon does not start",
        "the log shows its last lines",
        r"Cannot connect to the Docker daemon",
        ("docker", "image", *SERVER),
    ),
    # token
    Cause(
        "secret-missing",
        "secret {secret} does not exist in project {project}, or has no version",
        "flexserve secret put {secret}",
        phases=("token",),
        retry=True,
    ),
    Cause("secret-empty", "secret {secret} is empty", "flexserve secret put {secret}", phases=("token",)),
    Cause(
        "secret-malformed",
        "secret {secret} holds more than one line or signs that no token has",
        "flexserve secret put {secret}",
        phases=("token",),
    ),
    Cause(
        "secret-disabled",
        "the latest version of secret {secret} is disabled or destroyed",
        "flexserve secret put {secret}",
        phases=("token",),
    ),
    Cause(
        "secret-permission",
        "{account} may not read secret {secret}",
        "grant it roles/secretmanager.secretAccessor on the secret (secret.grant `own`)",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "secret-scope",
        "the machine's access scopes leave out Secret Manager",
        "create it with the scope cloud-platform; a running machine cannot gain one",
        phases=("token",),
    ),
    Cause(
        "secret-api-disabled",
        "the Secret Manager API is off in project {project}",
        "gcloud services enable secretmanager.googleapis.com",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "secret-unreachable",
        "Secret Manager does not answer ({detail})",
        "give the subnetwork Private Google Access or the machine a way out",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "no-service-account",
        "the machine has no service account",
        "target.service_account: `own`, or the e-mail of an existing one",
        phases=("token",),
        retry=True,
    ),
    # image
    Cause(
        "image-pull-limit",
        "the registry's pull limit is reached for the machine's address; Docker Hub counts anonymous pulls over hours",
        "put the image into a registry of yours (image.name), or `flexserve down`, then `up`: the next machine has another address",
        r"toomanyrequests|pull rate limit|429 Too Many Requests",
        ("image",),
        retry=True,
        throttled=True,
    ),
    Cause(
        "image-not-found",
        "the registry has no such image",
        "check image.name; a digest may have been deleted",
        r"manifest unknown|manifest for \S+ not found|repository does not exist|: not found|no matching manifest",
        ("image",),
    ),
    Cause(
        "image-denied",
        "the registry refuses the machine",
        "use a public image, or one that the machine's identity may read",
        r"pull access denied|denied:|unauthorized:",
        ("image",),
    ),
    Cause(
        "image-registry",
        "the registry does not answer",
        "give the machine a way out: egress `address` or `nat`",
        r"no such host|dial tcp|i/o timeout|TLS handshake timeout|connection re(?:fused|set)|network is unreachable"
        r"|unexpected EOF|50[0234] |Client\.Timeout|EOF$",
        ("image",),
        retry=True,
    ),
    # weights
    Cause(
        "hub-unauthorized",
        "the Hub refuses the token in secret {secret}",
        "flexserve secret put {secret} with a valid token",
        phases=HUB,
    ),
    Cause(
        "hub-licence",
        "the Hub wants the licence of {model} accepted by the token's owner",
        "accept it at https://huggingface.co/{model}",
        phases=HUB,
    ),
    Cause(
        "hub-needs-token",
        "{model} is not open to anonymous downloads, or does not exist",
        "accept its licence at https://huggingface.co/{model} and set secret.name",
        phases=HUB,
    ),
    Cause("hub-not-found", "the Hub has no {model} at revision {revision}", "check model.name and model.revision", phases=HUB),
    Cause("hub-throttled", "the Hub throttles this token's downloads", "it goes on when the Hub allows", phases=HUB, retry=True),
    Cause(
        "hub-throttled-anonymous",
        "the Hub throttles anonymous downloads from this address",
        "set secret.name: downloads with a token have their own allowance",
        phases=HUB,
        retry=True,
    ),
    Cause(
        "hub-unreachable",
        "the Hub does not answer ({detail})",
        "give the machine a way out: egress `address` or `nat`",
        phases=HUB,
        retry=True,
    ),
    Cause(
        "weights-corrupt",
        "{file} does not match the Hub's checksum or size, three times",
        "try again; if it stays so, pin another model.revision",
        phases=HUB,
    ),
    # load, compile, serving
    Cause(
        "bad-flag",
        "vLLM refuses its arguments: {detail}",
        "change serving.extra_args or the setting behind it; `flexserve up` restarts the container",
        r"vllm(?: serve)?: error: (?P<detail>.+)|api_server\.py: error: (?P<detail2>.+)",
        SERVER,
    ),
    Cause(
        "kv-cache-too-small",
        "a request of serving.max_model_len does not fit the KV cache; vLLM suggests {length}",
        "set serving.max_model_len to {length} or less",
        r"estimated maximum model length is (?P<length>\d+)",
        SERVER,
    ),
    Cause(
        "kv-cache-none",
        "no memory is left for the KV cache beside the weights",
        "raise serving.gpu_memory_utilization, lower max_num_batched_tokens, or take a larger accelerator",
        r"No available memory for the cache blocks|larger than the (?:available KV cache memory|maximum number of tokens)",
        SERVER,
    ),
    Cause(
        "accelerator-busy",
        "another process still holds the accelerator ({detail})",
        "it was retried once; reset the machine",
        r"(?P<detail>/dev/(?:vfio/\d+|accel\d+))\S* ?.{0,40}[Bb]usy|The TPU is already in use by (?P<detail2>.+)"
        r"|(?P<detail3>CUDA-capable device\(s\) is/are busy or unavailable)",
        SERVER,
    ),
    Cause(
        "out-of-memory",
        "the accelerator's memory is too small for these settings",
        "lower serving.max_model_len, max_num_seqs or max_num_batched_tokens",
        r"RESOURCE_EXHAUSTED|Ran out of memory in memory space|CUDA out of memory|OutOfMemoryError",
        SERVER,
    ),
    Cause(
        "shared-memory",
        "an attention kernel asks for more shared memory than this card has",
        "use an image with smaller kernel tiles for this card",
        r"out of resource: shared memory",
        SERVER,
    ),
    Cause(
        "host-out-of-memory",
        "the host's memory is too small: the kernel ended the server",
        "take a machine type with more memory",
        r"^Killed$|oom-kill",
        SERVER,
    ),
    Cause(
        "unsupported-quantization",
        "vLLM has no kernels for this checkpoint's quantization on this accelerator",
        "use the unquantized checkpoint",
        r"[Qq]uantization.{0,80}not (?:currently )?supported|compressed-tensors.{0,60}not (?:implemented|supported)",
        SERVER,
    ),
    Cause(
        "no-accelerator",
        "the server sees no accelerator",
        "reset the machine; if it stays so, its host image does not fit",
        r"No TPU devices|Unable to initialize backend 'tpu'|TPU initialization failed|Failed to infer device type",
        SERVER,
    ),
    Cause(
        "port-in-use",
        "another process holds the server's port",
        "end it, or reset the machine",
        r"[Aa]ddress already in use",
        SERVER,
    ),
    Cause(
        "bad-checkpoint",
        "vLLM cannot read the checkpoint: {detail}",
        "pin another model.revision or image",
        r"(?P<detail>Error while deserializing header.*|does not appear to have a file named \S+)",
        SERVER,
    ),
    Cause(
        "container-refused",
        "Docker does not start the container: {detail}",
        "see the log",
        r"docker: (?:Error response from daemon: )?(?P<detail>.+)",
        SERVER,
    ),
    Cause(
        "crash-loop", "the server ended {times} times before it served ({detail})", "the log shows its last lines", phases=SERVER
    ),
    Cause(
        "chat-crash",
        "the server is healthy, but ends when it is asked ({detail})",
        "the log shows its last lines",
        phases=("serving",),
    ),
    Cause("chat-refused", "the server refuses a plain request ({detail})", "the log shows its last lines", phases=("serving",)),
    Cause(
        "chat-wrong",
        "the server answers, but not what it was asked: {detail}",
        "the weights or the settings are broken: check dtype, kv_cache_dtype and the checkpoint",
        phases=("serving",),
    ),
    *causes_ec2.ROWS,
    # any
    Cause(
        "time-limit",
        "it took longer than its limit of {limit} s",
        "see the log; `flexserve up` runs the boot again",
    ),
    Cause("failed", "it ended with status {status}", "see the log"),
)

BY_ID = {row.id: row for row in ROWS}


class Failed(Exception):
    """A phase cannot go on. `text` is the cause as it is reported."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"({key})"


def say(cause: str, **facts: object) -> str:
    """The cause as one line: its name, the sentence, the way out."""
    row = BY_ID[cause]
    known = _Blank({name: str(value) for name, value in facts.items() if value is not None})
    return f"{row.id}: {row.about}; {row.way_out}".format_map(known)


def find(lines: Iterable[str], phase: str) -> tuple[Cause, str] | None:
    """The first row (in the table's order) whose pattern one of the lines holds, and its text. None when none does."""
    text = list(lines)
    for row in ROWS:
        if not row.pattern or (row.phases and phase not in row.phases):
            continue
        for line in reversed(text):
            found = re.search(row.pattern, line)
            if found:
                facts = {name.rstrip("23"): value.strip() for name, value in found.groupdict().items() if value}
                return row, say(row.id, **facts)
    return None


def note(text: str) -> None:
    """Keep why the phase waits, for the report: what it says if its limit passes."""
    place = os.environ.get("FLEXSERVE_CAUSE")
    if place:
        path = Path(place)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)


def warn(text: str) -> None:
    """Say what went wrong although the phase goes well: it is reported with its end."""
    print(text, flush=True)
    place = os.environ.get("FLEXSERVE_CAUSE")
    if place:
        Path(f"{place}.warning").write_text(text, encoding="utf-8")


def last_words(lines: Sequence[str]) -> str:
    """The line that most likely says why: the last one that speaks of an error, else the last."""
    wordy = [line.strip() for line in lines if line.strip()]
    errors = [line for line in wordy if re.search(r"\b\w*(?:Error|Exception|error|fatal)\b", line)]
    return (errors or wordy or ["no output"])[-1][-200:]
