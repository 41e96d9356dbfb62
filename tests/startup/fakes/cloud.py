"""Stand-ins for the metadata server, Secret Manager, the Hub, its CDN, and the server in the container; in one process."""

import base64
import contextlib
import hashlib
import json
import os
import socketserver
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import command
import ec2
import making
from shared import Shared

W = Shared(sys.argv[1])
FILES = {
    "config.json": b'{"architectures": ["X"]}',
    "model-00001-of-00002.safetensors": os.urandom(200_000),
    "model-00002-of-00002.safetensors": os.urandom(100_000),
    "sub/tokenizer.json": b"{}" * 100,
    "README.md": b"for people",
    "pytorch_model.bin": b"the same again",
    "empty.txt": b"",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        self.close_connection = True
        self.connection.close()

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        host = (self.headers.get("Host") or "").partition(":")[0]
        row = {
            "host": host,
            "method": self.command,
            "path": self.path,
            "range": self.headers.get("Range"),
            "target": self.headers.get("X-Amz-Target"),
        }
        W.note(
            "requests.jsonl",
            {**row, "authorization": self.headers.get("Authorization"), "body": self.body.decode(errors="replace")},
        )
        try:
            PARTS.get(host, server)(self, urlsplit(self.path))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = handle_any


def metadata(h, url):
    if h.headers.get("Metadata-Flavor") != "Google":
        return h.send(403, b"Missing header")
    path = url.path.removeprefix("/computeMetadata/v1/")
    if path.startswith("instance/guest-attributes/flexserve/") and h.command == "PUT":
        if W.fault("guest-attributes") == "off":
            return h.send(403, b"disabled")
        folder = W.folder / "guest"
        folder.mkdir(exist_ok=True)
        fresh = W.folder / f"guest.{threading.get_ident()}"
        fresh.write_bytes(h.body)
        fresh.replace(folder / path.rpartition("/")[2])
        return h.send(200)
    if path == "instance/attributes/flexserve-script":
        return script(h, {key: values[0] for key, values in parse_qs(url.query).items()})
    if path == "instance/service-accounts/default/token":
        if W.fault("identity") == "none":
            return h.send(404, b"no account")
        return h.send(200, {"access_token": "ya29.identity", "expires_in": 3599})
    if path == "instance/service-accounts/default/email":
        return h.send(200, b"vm@your-project.iam.gserviceaccount.com")
    return h.send(404)


def script(h, query):
    if W.fault("metadata") == "hiccup" and W.count("metadata") < 2:
        return h.drop()

    def now():
        try:
            data = (W.folder / "metadata" / "flexserve-script").read_bytes()
        except OSError:
            return None, ""
        return data, hashlib.sha1(data).hexdigest()[:16]

    data, etag = now()
    if query.get("wait_for_change") == "true":
        # A long wait is kept as it is; a short one (until it is quiet) is shortened, or the tests would only wait.
        asked = float(query.get("timeout_sec", 60))
        until = time.monotonic() + (asked if asked > 10 else asked / 10)
        while etag == query.get("last_etag") and time.monotonic() < until:
            time.sleep(0.02)
            data, etag = now()
    if data is None:
        return h.send(404)
    if W.fault("metadata") == "cut":
        data = data[: len(data) // 2]
    return h.send(200, data, ETag=etag, Metadata_Flavor="Google")


def secret(h, url):
    W.hold("token")
    fault = W.fault("secret")
    if h.headers.get("Authorization") != "Bearer ya29.identity":
        return h.send(401, {})
    denied = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Permission 'secretmanager.versions.access' denied"}}
    if fault == "permission":
        return h.send(403, denied)
    if fault == "scope":
        details = [{"reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]
        return h.send(
            403, {"error": {"code": 403, "message": "Request had insufficient authentication scopes.", "details": details}}
        )
    if fault == "api-off":
        return h.send(403, {"error": {"code": 403, "details": [{"reason": "SERVICE_DISABLED"}]}})
    if fault == "missing":
        return h.send(404, {"error": {"code": 404, "status": "NOT_FOUND"}})
    if fault == "disabled":
        return h.send(400, {"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "is in DESTROYED state"}})
    if fault == "unavailable":
        return h.send(503, {})
    value = {"empty": " \n", "two-lines": "a\nb"}.get(fault, (W.folder / "secret").read_text() + "\n")
    return h.send(200, {"name": url.path, "payload": {"data": base64.b64encode(value.encode()).decode()}})


def hub(h, url):
    fault = W.fault("hub")
    bearer = (h.headers.get("Authorization") or "").removeprefix("Bearer ")
    if fault == "429" or (fault == "429-once" and W.count("hub") < 1) or (fault == "429-anonymous" and not bearer):
        return h.send(429, b"slow down", Retry_After="1")
    if fault == "403":
        return h.send(403, b"{}", X_Error_Code="GatedRepo")
    if fault == "gated" and not bearer:
        return h.send(401, b"{}", X_Error_Code="GatedRepo")
    if fault == "401":
        return h.send(401, b"{}")
    if fault == "404":
        return h.send(404, b"{}", X_Error_Code="RevisionNotFound")
    if url.path.startswith("/api/models/"):
        siblings = [{"rfilename": name, "size": len(data), "blobId": "0", **lfs(name, data)} for name, data in FILES.items()]
        if fault == "escape":
            siblings.append({"rfilename": "../../etc/passwd", "size": 1})
        return h.send(200, {"siblings": siblings})
    name = unquote(url.path.split("/", 5)[5])
    if name.startswith("model"):
        return h.send(302, b"", Location=f"https://cdn.huggingface.test/{name}")
    return h.send(200, FILES[name])


def lfs(name, data):
    return {"lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}} if name.startswith("model") else {}


def cdn(h, url):
    name = url.path[1:]
    W.hold("weights-start")
    data = FILES[name]
    if W.fault("hub") == "corrupt" or (W.fault("hub") == "corrupt-once" and W.count("cdn") < 1):
        data = bytes(len(data))
    begin = int((h.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
    if begin >= len(data):
        return h.send(416, b"", Content_Range=f"bytes */{len(data)}")
    half = (len(data) + begin) // 2
    h.send_response(206 if begin else 200)
    if begin:
        h.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
    h.send_header("Content-Length", str(len(data) - begin))
    h.end_headers()
    h.wfile.write(data[begin:half])
    h.wfile.flush()
    if W.fault("hub") == "cut" and W.count("cut") < 3:
        return h.drop()
    W.hold("weights")
    h.wfile.write(data[half:])


def server(h, url):
    """vLLM in the container, as long as there is one."""
    container = W.container()
    if container is None or container["status"] != "running" or (W.folder / "held" / "compile").exists():
        return h.drop()
    crash = container["crash"]
    if url.path == "/health":
        return h.send(503 if crash == "never-healthy" else 200)
    if crash == "never-healthy":
        return h.drop()
    if url.path == "/v1/models":
        return h.send(200, {"data": [{"id": "google/gemma-4-E2B-it"}]})
    W.hold("serving")
    container = W.container()
    if crash == "chat-crash" or W.fault("chat") == "crash":
        W.log("EngineCore encountered a fatal error.", "SomethingOddError: the first question was too much")
        W.keep({**container, "status": "restarting", "restarts": container["restarts"] + 1})
        return h.drop()
    if W.fault("chat") == "refused":
        return h.send(500, {"error": "nope"})
    if W.fault("chat") == "hung":
        return h.drop()
    body = json.loads(h.body)
    text = body["messages"][-1]["content"] if "chat" in url.path else body["prompt"]
    said = "the the of of" if W.fault("chat") == "wrong" else text.rpartition("\n")[2]
    return h.send(200, {"choices": [{"message": {"content": said}} if "chat" in url.path else {"text": said}]})


PARTS = {
    "169.254.169.254": lambda h, url: ec2.imds(h, url, W),
    "s3.us-east-1.amazonaws.com": lambda h, url: ec2.bucket(h, url, W),
    "secretsmanager.us-east-1.amazonaws.com": lambda h, url: ec2.secrets(h, url, W),
    "developer.download.nvidia.com": lambda h, url: making.repository(h, url, W),
    "sh.rustup.rs": lambda h, url: making.installer(h, W),
    "metadata.google.internal": metadata,
    "secretmanager.googleapis.com": secret,
    "huggingface.co": hub,
    "cdn.huggingface.test": cdn,
}


def listen(address, port, tls=None):
    here = ThreadingHTTPServer((address, port), Handler)
    here.daemon_threads = True
    if tls:
        here.socket = tls.wrap_socket(here.socket, server_side=True)
    threading.Thread(target=here.serve_forever, daemon=True).start()


class Commands(socketserver.StreamRequestHandler):
    """One stand-in command: the number of words, the words; back come status, output, errors."""

    def word(self):
        found = bytearray()
        while (one := self.rfile.read(1)) not in (b"", b"\0"):
            found += one
        return found.decode()

    def handle(self):
        words = [self.word() for _ in range(int(self.word()))]
        said = command.Said()
        status = command.main(W, said, *words)
        texts = ["".join(f"{line}\n" for line in lines).encode() for lines in (said.out, said.errors)]
        with contextlib.suppress(OSError):  # the command was killed meanwhile
            self.wfile.write(b"%d\n%s\0%s\0" % (status, *texts))


commands = socketserver.ThreadingTCPServer(("127.0.0.5", 7), Commands)
commands.daemon_threads = True
threading.Thread(target=commands.serve_forever, daemon=True).start()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(W.folder / "tls" / "server.crt", W.folder / "tls" / "server.key")
listen("169.254.169.254", 80)
listen("127.0.0.1", 8000)
for where in ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"):
    listen(where, 443, context)
(W.folder / "ready").touch()
threading.Event().wait()
