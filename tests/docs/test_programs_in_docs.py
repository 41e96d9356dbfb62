"""Every Python program on an operator's page runs as it stands: against a local relay, with a small server behind it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infra.access import Iap, to_output
from infra.state import STACK_TYPE
from rehearsal.relay.server import Relay
from tests.cli.openai_server import OpenAiServer, serving

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = [
    (str(page.relative_to(ROOT)), number, text)
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/operator/*.md")])
    for number, text in enumerate(PROGRAM.findall(page.read_text(encoding="utf-8")))
]
SAYS = {("docs/operator/tunnel.md", 0): "porcupine", ("docs/operator/tunnel.md", 1): "m"}


def test_every_program_is_known():
    assert {(page, number) for page, number, _ in PROGRAMS} == set(SAYS)


@pytest.mark.parametrize(("page", "number", "text"), PROGRAMS, ids=[f"{page}-{number}" for page, number, _ in PROGRAMS])
def test_a_shown_program_runs(page, number, text, tmp_path):
    """The state is a stand-in for `pulumi stack export`; relay, tunnel and HTTP are real."""
    file, state, command = tmp_path / "program.py", tmp_path / "export.json", tmp_path / "pulumi"
    file.write_text(text, encoding="utf-8")
    outputs = {"access": to_output(Iap("acme-1", "europe-west4-a", "fs-1"))}
    export = {"deployment": {"resources": [{"type": STACK_TYPE, "outputs": outputs}]}}
    state.write_text(json.dumps(export), encoding="utf-8")
    command.write_text(f'#!/bin/sh\n[ "$1 $2 $4" = "stack export tpu-v6e" ] && exec cat {state}\nexit 1\n', encoding="utf-8")
    command.chmod(0o755)
    with serving(OpenAiServer()) as server:

        def connect(_instance: str, _zone: str, port: int) -> socket.socket:
            assert port == 8000
            return socket.create_connection(("127.0.0.1", server.port), timeout=5)

        with Relay(connect, folder=tmp_path) as relay:
            environment = {
                **{k: v for k, v in os.environ.items() if not k.upper().endswith("_PROXY")},
                "PYTHONPATH": str(ROOT),
                "FLEXSERVE_IAP_URL": relay.url,
                "SSL_CERT_FILE": str(relay.ca_file),
                "GOOGLE_OAUTH_ACCESS_TOKEN": "a-token",
            }
            # The environment's own folder is first on PATH, whatever stands before it: the stand-in goes where it is looked for.
            start = (
                "import runpy, sys, flexserve.project; *_, file, command = sys.argv; "
                "flexserve.project.pulumi = lambda: command; runpy.run_path(file)"
            )
            argv = [sys.executable, "-c", start, "tpu-v6e", str(file), str(command)]
            done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
            # A stack that is not there: the stand-in knows one only.
            command.write_text("#!/bin/sh\necho error: no stack named that >&2\nexit 1\n", encoding="utf-8")
            absent = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, SAYS[page, number]), done.stderr
    assert (absent.returncode, absent.stderr) == (1, "tpu-v6e is not up: flexserve up -s tpu-v6e\n")
