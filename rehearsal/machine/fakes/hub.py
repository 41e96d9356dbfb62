"""The Hugging Face Hub: models as small generated files, under the real paths, headers, redirects and errors.

Any model name exists, with weights that are a valid safetensors file of a few MiB. Same name, same bytes, same revision.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache

from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.web import Reply, Request, Reset, ranged

HOST = "huggingface.co"
CDN = "cas-bridge.xethub.hf.co"
WEIGHTS_BYTES = 6 * 1024 * 1024
LARGE = ("model.safetensors",)
FILES = ("README.md", "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors",
         "processor_config.json", "tokenizer.json", "tokenizer_config.json")  # fmt: skip


def revision(model: str) -> str:
    """The commit that `main` of a model points to: 40 hex digits."""
    return hashlib.sha1(f"stand-in {model}".encode()).hexdigest()


@lru_cache(maxsize=64)
def content(model: str, file: str) -> bytes:
    """The bytes of one file. Raises KeyError for one that the model lacks."""
    if file not in FILES:
        raise KeyError(file)
    if file == "model.safetensors":
        header = json.dumps(
            {"stand_in.weight": {"dtype": "U8", "shape": [WEIGHTS_BYTES], "data_offsets": [0, WEIGHTS_BYTES]}}
        ).encode()
        return len(header).to_bytes(8, "little") + header + hashlib.shake_256(model.encode()).digest(WEIGHTS_BYTES)
    documents: dict[str, object] = {
        "config.json": {"architectures": ["StandInForConditionalGeneration"], "model_type": "stand-in", "_name": model},
        "generation_config.json": {"do_sample": True, "temperature": 1.0, "top_k": 64, "top_p": 0.95},
        "processor_config.json": {"processor_class": "StandInProcessor"},
        "tokenizer.json": {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"},
    }
    if file in documents:
        return json.dumps(documents[file], indent=2).encode()
    return f"A small generated file that stands for {file} of {model}.\n".encode()


class Hub:
    """Answers for the Hub's name and for its download network's. `bridge.behaviour()["hub"]` says who may have what.

    `hub` holds `gated` (model names that need a token) and `tokens` (SHA-256 of the tokens accepted; empty: any `hf_…`).
    Faults of `hub`: throttled, throttled-anonymous, unauthorized, forbidden, slow, cut, down.
    """

    def __init__(self, bridge: Bridge, holds: Holds) -> None:
        self._bridge = bridge
        self._holds = holds
        self._cut: set[str] = set()

    def answer(self, request: Request) -> Reply:
        """One request to either name."""
        behaviour = self._bridge.behaviour()
        fault = str(behaviour["faults"].get("hub", ""))
        if fault == "down":
            raise Reset
        if request.host == CDN:
            return self._download(request, fault)
        if refused := self._refusal(request, fault, behaviour["hub"]):
            return refused
        if request.path == "/api/whoami-v2":
            return _document({"type": "user", "name": "stand-in"}) if _bearer(request) else _error(401, "", "Unauthorized")
        model = re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/(revision|tree)/([^/]+))?/?", request.path)
        if model:
            return self._about(model[1], model[2] or "revision", model[3] or "main", behaviour["hub"])
        file = re.fullmatch(r"/([\w.-]+/[\w.-]+)/(?:resolve|raw)/([^/]+)/(.+)", request.path)
        return self._file(request, file[1], file[2], file[3]) if file else _error(404, "", "Not Found")

    def _refusal(self, request: Request, fault: str, hub: Mapping[str, list[str]]) -> Reply | None:
        bearer = _bearer(request)
        if fault == "throttled" or (fault == "throttled-anonymous" and not bearer):
            text = (
                "We had to rate limit your IP. To continue using our service, create a HF account or login."
                if not bearer
                else "Too Many Requests"
            )
            return Reply(429, text.encode(), {"Retry-After": "1", "RateLimit": '"resolvers";r=0;t=1', "Content-Type": "text/plain"})
        if fault == "unauthorized":
            return _error(401, "", "Invalid credentials in Authorization header")
        known = hub.get("tokens", [])
        if bearer and (hashlib.sha256(bearer.encode()).hexdigest() not in known if known else not bearer.startswith("hf_")):
            return _error(401, "", "Invalid credentials in Authorization header")
        model = re.search(r"/([\w.-]+/[\w.-]+)/resolve/", request.path)
        if model and model[1] in hub.get("gated", []) and not bearer:
            return _error(
                401, "GatedRepo", f"Access to model {model[1]} is restricted. You must have access to it and be authenticated."
            )
        if fault == "forbidden" and model:
            return _error(403, "GatedRepo", f"Access to model {model[1]} is restricted and you are not in the authorized list.")
        return None

    def _about(self, model: str, what: str, branch: str, hub: Mapping[str, list[str]]) -> Reply:
        commit = revision(model)
        if model in hub.get("missing", []):
            return _error(401, "RepoNotFound", "Repository not found")
        if branch not in ("main", commit):
            return _error(404, "RevisionNotFound", f"Invalid rev id: {branch}")
        files = [(name, content(model, name)) for name in FILES]
        if what == "tree":
            return _document(
                [{"type": "file", "path": name, "size": len(data), "oid": _etag(data), **_lfs(name, data)} for name, data in files]
            )
        siblings = [{"rfilename": name, "size": len(data), **_lfs(name, data)} for name, data in files]
        gated = "manual" if model in hub.get("gated", []) else False
        return _document({"id": model, "modelId": model, "sha": commit, "private": False, "gated": gated, "siblings": siblings})

    def _file(self, request: Request, model: str, branch: str, file: str) -> Reply:
        commit = revision(model)
        if branch not in ("main", commit):
            return _error(404, "RevisionNotFound", f"Invalid rev id: {branch}")
        try:
            data = content(model, file)
        except KeyError:
            return _error(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_etag(data)}"'}
        if file not in LARGE:
            return ranged(data, request, {**headers, "Content-Type": "text/plain; charset=utf-8"})
        linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        location = f"https://{CDN}/{model}/{commit}/{file}?X-Amz-Expires=3600&X-Amz-Signature=stand-in"
        return Reply(302, b"", {**headers, **linked, "Location": location})

    def _download(self, request: Request, fault: str) -> Reply:
        match = re.fullmatch(r"/([\w.-]+/[\w.-]+)/[0-9a-f]{40}/(.+)", request.path)
        if not match or request.query.get("X-Amz-Signature") != "stand-in":
            return Reply(403, b"AccessDenied")
        if request.method == "GET":
            self._holds.hold("weights")
        data = content(match[1], match[2])
        reply = ranged(data, request, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "Content-Type": "application/octet-stream"})
        if fault == "slow" or (fault == "cut" and request.path not in self._cut):
            self._cut.add(request.path)  # a cut transfer is cut once: what resumes gets the rest
            reply.fault = fault
        return reply


def _bearer(request: Request) -> str:
    value = request.headers.get("authorization", "")
    return value.removeprefix("Bearer ").strip() if value.startswith("Bearer ") else ""


def _etag(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _lfs(name: str, data: bytes) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    return {"lfs": {"sha256": digest, "oid": digest, "size": len(data), "pointerSize": 134}} if name in LARGE else {}


def _document(value: object) -> Reply:
    return Reply(200, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8"})


def _error(status: int, code: str, text: str) -> Reply:
    headers = {"Content-Type": "application/json; charset=utf-8", "X-Error-Message": text}
    return Reply(status, json.dumps({"error": text}).encode(), {**headers, **({"X-Error-Code": code} if code else {})})
