"""gcloud's tunnel and ours in one run on one local relay: medians, ratios, and what they must be.

    python benchmarks/tunnel.py [--json] [--rounds 5] [--numpy-python PYTHON] [--runs FILE]

Every figure is against a local relay; Google's own was not tried. Where this user may, all that is started and the load are
scheduled before everything else, both tools alike, so that others on the same cores cost neither; still, read the ratios, not the
absolutes. What a chat's tokens need beyond the relay's own times is measured through each tool and, in the same round and on the
same relay, without a tunnel (`tunnel_chat.py`): "added" is the difference.

Without gcloud it fails and says so. gcloud now and then resets a connection; such a turn is taken again and counted
(`gcloud_failed`). With `--runs` each round's values are added to those in FILE, so that five rounds can be taken when it is quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tunnel_chat
import tunnel_load as load
import tunnel_stage as stage

MB = 1_000_000


@dataclass(frozen=True)
class Row:
    """One line of the table. `better`: the ratio is gcloud/ours for `lower`, ours/gcloud for `higher`."""

    key: str
    label: str
    target: float
    better: str = "lower"
    against: str = "gcloud"


ROWS = (
    Row("start_s", "command start to listening, s (access known)", 2),
    Row("start_stack_s", "command start to listening, s, from a stack name", 2),
    Row("open_ms", "opening inside a running Python process, ms (gcloud: its start)", 30),
    Row("first_byte_ms", "first byte of a new connection, ms", 6),
    Row("connections_per_s", "connections per second, one after another", 10, "higher"),
    Row("down_mb_s", "download, MB/s", 2, "higher"),
    Row("down_cpu_s_per_gb", "download, client CPU seconds per GB", 3),
    Row("up_mb_s", "upload, MB/s", 40, "higher"),
    Row("up_mb_s", "upload, MB/s, against gcloud with numpy", 2.5, "higher", "gcloud+numpy"),
    Row("all_done_s", "64 at once, all done, s", 8),
    Row("at_once_first_byte_s", "64 at once, first byte, s", 20),
    Row("ping_us", "ping median, us", 1.25),
    Row("chat_first_token_p99_ms_added", "64 chats: p99 first token, added, ms", 3),
    Row("chat_gap_p99_ms_added", "64 chats: p99 gap between tokens, added, ms", 3),
)
UNDER_MS = {"chat_first_token_p99_ms_added": 5.0, "chat_gap_p99_ms_added": 5.0}
_TURNS = 3
_RESOLUTION_MS = 0.05  # of what a tunnel adds: a smaller difference cannot be told from none


def calibration() -> dict[str, float]:
    """How fast this machine is right now."""
    began = time.perf_counter()
    hashlib.sha256(b"\0" * (64 * MB)).digest()
    hashed = time.perf_counter() - began
    began = time.perf_counter()
    sum(number * number for number in range(1_000_000))
    looped = time.perf_counter() - began
    return {"sha256_mb_s": 64 / hashed, "python_loop_ms": looped * 1e3}


def opening_ms(relay: stage.RelayProcess, count: int = 5) -> list[float]:
    """Our tunnel opened in this process, check included, after one to warm up."""
    from flexserve.tunnel.dial import open_tunnel
    from infra.access import Iap

    async def measure() -> list[float]:
        context = ssl.create_default_context(cafile=relay.ca_file)
        times = []
        for _ in range(count + 1):
            began = time.perf_counter()
            async with open_tunnel(Iap("p", "z", "vm"), token="t", url=relay.url, ssl=context):
                times.append((time.perf_counter() - began) * 1e3)
        return times[1:]

    return asyncio.run(measure())


def one_round(tool: Callable, relay: stage.RelayProcess, *, up_mb: int, connections: int) -> dict[str, float]:
    with tool(relay, "vm") as tunnel:
        found = {"start_s": tunnel.start_s}
        load.first_byte_ms(tunnel.port)  # takes the check's session, where a tool keeps it
        found["first_byte_ms"] = median(load.first_byte_ms(tunnel.port) for _ in range(5))
        pings = load.ping_us(tunnel.port, 1000)
        found["ping_us"] = median(pings)
        found["connections_per_s"] = load.connections_per_s(tunnel.port, connections)
        downloads = [load.download(tunnel, 128 * MB) for _ in range(3)]
        found["down_mb_s"], found["down_cpu_s_per_gb"] = (median(values) for values in zip(*downloads, strict=True))
        found["up_mb_s"], found["up_cpu_s_per_gb"] = load.upload(tunnel, up_mb * MB)
        found["rss_mb"] = tunnel.rss_mb()
    with tool(relay, "vm") as tunnel:
        together = load.at_once(tunnel.port, 64, 2 * MB)
        found["all_done_s"], found["at_once_first_byte_s"] = together["all_done_s"], together["first_byte_s"]
        found["incomplete"] = together["of"] - together["complete"]
    return found


def one_chat(tool: Callable, machine_port: int, folder: Path) -> dict[str, float]:
    """The streams through the tool, then without it on the same relay; `_added` is the difference."""
    log, shape = folder / "messages.json", tunnel_chat.Chat()
    with stage.relay(machine_port, log) as relay:
        with tool(relay, tunnel_chat.INSTANCE) as tunnel:
            through = tunnel_chat.through(tunnel.port, shape)
        direct = tunnel_chat.direct(relay, shape, len(through.asked))
    found = {f"chat_{name}": value for name, value in tunnel_chat.beyond_the_relay(log, through).items()}
    own = {f"chat_{name}": value for name, value in tunnel_chat.beyond_the_relay(log, direct).items()}
    return {
        **found,
        **{f"{name}_direct": value for name, value in own.items()},
        **{f"{name}_added": value - own[name] for name, value in found.items()},
    }


def measure(rounds: int, numpy_python: str | None, only: str, say: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """All runs of all tools, interleaved."""
    tools: dict[str, tuple[Callable, dict[str, int]]] = {
        "ours": (stage.ours, {"up_mb": 128, "connections": 300}),
        "gcloud": (stage.gcloud, {"up_mb": 8, "connections": 40}),
    }
    if numpy_python:
        numpy = contextlib.contextmanager(lambda relay, instance: _with_numpy(relay, instance, numpy_python))
        tools["gcloud+numpy"] = (numpy, {"up_mb": 64, "connections": 40})
    found: dict[str, dict[str, list[float]]] = {name: {} for name in tools}
    with stage.machine() as port, stage.stack() as prepared, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, (tool, sizes) in tools.items():
                say(f"round {number + 1} of {rounds}: {name} (load {os.getloadavg()[0]:.1f})")
                values: dict[str, float] = {}
                if only != "chat":
                    with stage.relay(port) as relay:
                        values = _patiently(tool, relay, sizes, found[name] if name != "ours" else None, say)
                        values["open_ms"] = median(opening_ms(relay)) if name == "ours" else values["start_s"] * 1e3
                        values["start_stack_s"] = stage.from_stack_s(relay, prepared) if name == "ours" else values["start_s"]
                if only != "bytes":
                    values |= one_chat(tool, port, Path(folder))
                for key, value in values.items():
                    found[name].setdefault(key, []).append(value)
    return found


def _patiently(
    tool: Callable, relay: stage.RelayProcess, sizes: dict[str, int], counts: dict | None, say: Callable
) -> dict[str, float]:
    """A round of gcloud's again when a connection of its broke; ours may not break."""
    for _ in range(_TURNS - 1):
        try:
            return one_round(tool, relay, **sizes)
        except OSError as error:
            if counts is None:
                raise
            counts.setdefault("gcloud_failed", []).append(1)
            say(f"gcloud failed: {error}; again")
    return one_round(tool, relay, **sizes)


def _with_numpy(relay: stage.RelayProcess, instance: str, python: str):
    with stage.gcloud(relay, instance, python) as running:
        yield running


def _added(file: Path, found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    """What the file had and what was found, kept there."""
    whole = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for tool, values in found.items():
        for key, more in values.items():
            whole.setdefault(tool, {}).setdefault(key, []).extend(more)
    file.write_text(json.dumps(whole), encoding="utf-8")
    return whole


def table(found: dict[str, dict[str, list[float]]]) -> list[dict[str, object]]:
    """The rows with their medians, ratios and verdicts."""
    rows: list[dict[str, object]] = []
    for row in ROWS:
        if row.key not in found.get(row.against, {}):
            rows.append({"measure": row.label, "target": row.target, "met": None, "why": f"{row.against} was not run"})
            continue
        mine, theirs = median(found["ours"][row.key]), median(found[row.against][row.key])
        least = _RESOLUTION_MS if row.key.endswith("_added") else 1e-9
        ratio = max(theirs, least) / max(mine, least) if row.better == "lower" else mine / theirs
        met = ratio >= row.target and mine <= UNDER_MS.get(row.key, float("inf"))
        line = {"measure": row.label, "ours": round(mine, 3), "gcloud": round(theirs, 3), "ratio": round(ratio, 2)}
        rows.append({**line, "target": row.target, "under_ms": UNDER_MS.get(row.key), "met": met})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--numpy-python", help="an interpreter with numpy for a third column")
    parser.add_argument("--only", choices=["all", "chat", "bytes"], default="all")
    parser.add_argument("--runs", type=Path, help="a JSON file that collects the values of several calls")
    parser.add_argument("--nice", type=int, default=0, help="priority of everything that is started, both tools alike")
    parser.add_argument(
        "--real-time", action=argparse.BooleanOptionalAction, default=True, help="schedule all of it first, where that is allowed"
    )
    chosen = parser.parse_args()
    real_time = chosen.real_time and stage.real_time()
    if chosen.nice:
        os.environ["TUNNEL_NICE"] = str(chosen.nice)
        os.nice(chosen.nice)
        stage.prioritise()
    if shutil.which("gcloud") is None:
        print("gcloud is not on PATH: there is nothing to compare with", file=sys.stderr)
        return 1
    before = {"load": os.getloadavg(), **calibration()}
    found = measure(chosen.rounds, chosen.numpy_python, chosen.only, lambda text: print(text, file=sys.stderr, flush=True))
    if chosen.runs:
        found = _added(chosen.runs, found)
    rows = table(found)
    document = {
        "note": "against a local relay; Google's own was not tried",
        "cores": os.cpu_count(),
        "scheduled_first": real_time,
        "before": before,
        "after": {"load": os.getloadavg(), **calibration()},
        "rounds": max((len(values) for values in found["ours"].values()), default=0),
        "gcloud_failed": sum(len(values.pop("gcloud_failed", [])) for values in found.values()),
        "rows": rows,
        "runs": found,
    }
    if chosen.json:
        print(json.dumps(document, indent=1))
    else:
        print(document["note"])
        for row in rows:
            print("  ".join(f"{name}={value}" for name, value in row.items() if value is not None))
    unmeasured = [row["measure"] for row in rows if row["met"] is None]
    if unmeasured and chosen.only == "all":
        print(f"not measured, so not met: {'; '.join(unmeasured)}", file=sys.stderr)
    return 0 if all(row["met"] or (row["met"] is None and chosen.only != "all") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
