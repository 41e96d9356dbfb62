"""What the SageMaker proxy adds to a request and to a first token, against calling boto3 directly.

    python benchmarks/tunnel_sagemaker.py [--json] [--rounds 5]

Both ask one fake runtime endpoint on loopback, which answers at once; SageMaker itself was not tried. The proxy is a process,
as with `flexserve tunnel`; its client is httpx with a connection that is kept open. Medians of all calls, in turn: one direct,
one through the proxy. Where this user may, all of it is scheduled before everything else, so that others on the same cores cost
neither. Exit 1 when the proxy adds more than 5 ms to either.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import tunnel_stage as stage

sys.path.insert(0, str(stage.ROOT))
LIMIT_MS = 5.0
CALLS = 100  # of each kind, a round
BODY = {"model": "m", "messages": [{"role": "user", "content": "say the nonce"}]}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret-key", "AWS_EC2_METADATA_DISABLED": "true"}


def serve_fake() -> None:
    """The fake runtime as a process: its URL on stdout."""
    from tests.tunnel.fake_runtime import FakeRuntime

    with FakeRuntime() as fake:
        print(fake.url, flush=True)
        while True:
            time.sleep(3600)


def serve_proxy(url: str) -> None:
    """The proxy as `flexserve tunnel` runs it."""
    from flexserve.tunnel.command import Command, run
    from flexserve.tunnel.options import Options
    from infra.access import SageMaker

    sys.exit(run(SageMaker("us-east-1", "ok", "m"), Command(Options(url=url))))


class Direct:
    """boto3's own call, streamed and plain."""

    def __init__(self, url: str) -> None:
        import boto3

        self._client = boto3.client("sagemaker-runtime", region_name="us-east-1", endpoint_url=url)

    def plain(self) -> float:
        """Seconds until the whole answer is there: the plain call streams too in the proxy, so the direct one does here."""
        return self._stream({**BODY, "stream": True, "stream_options": {"include_usage": True}})[1]

    def streamed(self) -> tuple[float, float]:
        """Seconds until the first and until the last bytes."""
        return self._stream({**BODY, "stream": True})

    def _stream(self, body: dict) -> tuple[float, float]:
        began = time.perf_counter()
        answer = self._client.invoke_endpoint_with_response_stream(
            EndpointName="ok", ContentType="application/json", Body=json.dumps(body).encode()
        )
        first = 0.0
        for part in answer["Body"]:
            if "PayloadPart" in part and not first:
                first = time.perf_counter() - began
        return first, time.perf_counter() - began


class Proxied:
    """The same through the proxy."""

    def __init__(self, port: int) -> None:
        import httpx

        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=30)

    def plain(self) -> float:
        """Seconds until the whole answer is there."""
        began = time.perf_counter()
        self._client.post("/chat/completions", json=BODY).raise_for_status()
        return time.perf_counter() - began

    def streamed(self) -> tuple[float, float]:
        """Seconds until the first and until the last bytes."""
        began = time.perf_counter()
        first = 0.0
        with self._client.stream("POST", "/chat/completions", json={**BODY, "stream": True}) as answer:
            for _ in answer.iter_raw():
                first = first or time.perf_counter() - began
        return first, time.perf_counter() - began


def measure(rounds: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {who: {"request_ms": [], "first_token_ms": []} for who in ("direct", "proxy")}
    os.environ.update(CREDENTIALS)
    here = str(Path(__file__).resolve())
    for _ in range(rounds):
        with ExitStack() as stack:
            fake = stack.enter_context(stage.process([sys.executable, here, "--serve", "fake"]))
            url = fake.stdout.readline().decode().strip()
            proxy = stack.enter_context(stage.process([sys.executable, here, "--serve", url]))
            line = proxy.stdout.readline().decode()
            port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
            callers = {"direct": Direct(url), "proxy": Proxied(port)}
            for number in range(CALLS + 10):
                for who, caller in callers.items():
                    request, (first, _) = caller.plain(), caller.streamed()
                    if number >= 10:  # the first ones make connections
                        found[who]["request_ms"].append(request * 1e3)
                        found[who]["first_token_ms"].append(first * 1e3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real-time", action=argparse.BooleanOptionalAction, default=True, help="schedule all of it first")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve_fake() if chosen.serve == "fake" else serve_proxy(chosen.serve)
    real_time = chosen.real_time and stage.real_time()
    load = os.getloadavg()
    found = measure(chosen.rounds)
    rows = []
    for key in ("request_ms", "first_token_ms"):
        direct, proxied = median(found["direct"][key]), median(found["proxy"][key])
        added = proxied - direct
        rows.append(
            {"measure": key, "direct": round(direct, 2), "proxy": round(proxied, 2), "added": round(added, 2), "limit": LIMIT_MS,
             "met": added <= LIMIT_MS}
        )  # fmt: skip
    document = {
        "note": "against a fake of the runtime; SageMaker itself was not tried",
        "load": load,
        "scheduled_first": real_time,
        "rows": rows,
    }
    if chosen.json:
        print(json.dumps(document, indent=1))
    else:
        print(document["note"])
        for row in rows:
            print("  ".join(f"{name}={value}" for name, value in row.items()))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
