"""The steps themselves, on a machine made of folders: which Pulumi is taken, what is refused, what is linked."""

import dataclasses
import http.server
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.setup import debian, downloads, golang
from tools.setup.engine import BUILT, HOST, INSTALLER, ON_PATH, built_folder, found, language_folder, links, wanted
from tools.setup.step import Skip, StepFailed
from tools.setup.steps import apt, plugin, pulumi, venv
from tools.setup.versions import locked, locked_lines, parse
from verdict.places import cache_root

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"FLEXSERVE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/flexserve"),
        ({"HOME": "/c"}, "/c/.cache/flexserve"),
        ({"HOME": "/c", "FLEXSERVE_CACHE": "", "XDG_CACHE_HOME": ""}, "/c/.cache/flexserve"),
        ({"HOME": "no/root", "TMPDIR": "/t"}, f"/t/home-{os.getuid()}/.cache/flexserve"),
    ],
)
def test_the_cache_is_where_it_is_asked_to_be(environ, expected):
    assert str(cache_root(environ)) == expected


@pytest.mark.parametrize(
    ("text", "version"), [("v3.274.1", (3, 274, 1)), ("go1.26.8\n", (1, 26, 8)), ("3.280.0-alpha", (3, 280, 0)), ("", ())]
)
def test_versions(text, version):
    assert parse(text) == version


def test_the_lock_lines_of_one_package_hold_its_hashes_and_nothing_else():
    lines = locked_lines(ROOT, "uv").splitlines()
    assert lines[0].startswith("uv==") and len(lines) > 1
    assert all("--hash=sha256:" in line or "# via" in line or line.strip().startswith("#") for line in lines[1:])


@pytest.mark.parametrize(
    ("line", "against"),
    [
        ("Inst mmdebstrap (1.3.5-7 Debian:12 [all])", False),
        ("Inst systemd [252.38] (252.39 Debian:12 [amd64])", False),
        ("Conf docker.io (20.10 Debian:12 [amd64])", False),
        ("Remv docker-ce [5:27.0]", True),
        ("Purg docker-ce [5:27.0]", True),
        ("Inst docker.io (20.10 Debian:12 [amd64])", True),
        ("Inst containerd.io [1.7] (1.8 Docker [amd64])", True),
        ("Inst runc (1.1 Debian:12 [amd64])", True),
    ],
)
def test_an_installation_that_displaces_an_engine_is_refused(line, against):
    assert bool(debian.refusals(f"Reading package lists...\n{line}\n")) is against


def test_no_container_engine_is_asked_for():
    assert not debian.refusals("\n".join(f"Inst {package} (1)" for package in apt.COMMANDS.values()))


def test_without_root_the_missing_packages_are_named_and_the_sandbox_stands_in(host, work):
    with pytest.raises(Skip, match=r"mmdebstrap.*sandbox"):
        apt.run(host, work)


def test_packages_without_root_end_in_the_command_to_type(host, work):
    with pytest.raises(StepFailed) as failed:
        debian.install(host, work, ["python3-venv"], purpose="the virtual environment")
    assert "apt-get install --no-install-recommends python3-venv" in failed.value.way_out


def pulumi_that_says(version):
    return f'[ "$1" = version ] && echo v{version}'


@pytest.mark.parametrize(
    ("version", "taken"), [("3.272.0", True), ("3.300.1", True), ("4.0.0", True), ("3.271.9", False), ("", False)]
)
def test_pulumi_on_path_is_taken_when_it_is_new_enough(host, command, version, taken):
    command("pulumi", pulumi_that_says(version))
    command("pulumi-language-python", "true")
    engine = found(host)
    assert (engine is not None and engine.origin == ON_PATH) is taken
    assert links(host) == {}


def test_pulumi_of_our_own_environment_is_not_on_path(host, command):
    command("pulumi", pulumi_that_says("3.300.0"), host.bin)
    inside = dataclasses.replace(host, environ={**host.environ, "PATH": f"{host.bin}{os.pathsep}{host.environ['PATH']}"})
    assert found(inside) is None


def test_pulumi_on_path_without_its_language_host_gets_ours(host, command):
    command("pulumi", pulumi_that_says("3.300.0"))
    assert set(links(host)) == {"pulumi-language-python", "pulumi-language-python-exec"}
    assert pulumi.language_done(host) is None


def test_what_was_built_is_linked_and_links_that_no_longer_hold_go(host, work, command):
    command("pulumi", pulumi_that_says(wanted(host)), built_folder(host))
    for name in ("pulumi-language-python", "pulumi-language-python-exec"):
        command(name, "true", language_folder(host))
    host.bin.mkdir(parents=True)
    (host.bin / "pulumi-old").symlink_to("/nonexistent")
    assert found(host).origin == BUILT and pulumi.links_done(host) is None
    pulumi.links_run(host, work)
    assert pulumi.links_done(host) is not None
    assert sorted(p.name for p in host.bin.iterdir()) == ["pulumi", "pulumi-language-python", "pulumi-language-python-exec"]
    # Pulumi warns unless the language host on PATH, links followed, lies beside its own program, links followed.
    assert {(host.bin / name).resolve().parent for name in ("pulumi", HOST)} == {built_folder(host)}
    newer = language_folder(host) / "pulumi-language-python"
    newer.unlink()
    newer.write_text("another one")
    assert pulumi.links_done(host) is None
    pulumi.links_run(host, work)
    assert pulumi.links_done(host) is not None and (host.bin / "pulumi-language-python").read_text() == "another one"
    said = subprocess.run([host.bin / "pulumi", "version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"v{wanted(host)}"


@pytest.fixture
def site():
    """A download site on loopback: serves `content`, or closes the door when it is None."""

    class Site(http.server.BaseHTTPRequestHandler):
        content: bytes | None = None
        asked = 0

        def do_GET(self):
            type(self).asked += 1
            if self.content is None:
                self.send_error(403)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.content)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Site.url = f"http://127.0.0.1:{server.server_port}/"
    yield Site
    server.shutdown()
    server.server_close()


def online(host, site):
    environ = {**host.environ, "PATH": f"{host.environ['PATH']}:/usr/bin:/bin", "FLEXSERVE_PULUMI_INSTALLER": site.url}
    return dataclasses.replace(host, environ=environ, downloads=True)


INSTALL_SCRIPT = b"""
while [ $# -gt 0 ]; do case "$1" in --version) v=$2;; --install-root) d=$2;; esac; shift; done
mkdir -p "$d/bin"
printf '#!/bin/sh\\necho v%s\\n' "$v" > "$d/bin/pulumi"
printf '#!/bin/sh\\n' > "$d/bin/pulumi-language-python"
chmod +x "$d"/bin/*
"""


def test_pulumis_installer_is_used_where_it_can_be_reached(host, work, site):
    site.content = INSTALL_SCRIPT
    there = online(host, site)
    words = pulumi.engine_run(there, work)
    assert found(there).origin == INSTALLER and wanted(host) in words
    assert pulumi.language_done(there) == "comes with Pulumi"
    assert set(links(there)) == {"pulumi", "pulumi-language-python"}


@pytest.mark.parametrize("content", [b"exit 3\n", b"exit 0\n", None], ids=["it fails", "it leaves nothing", "it is refused"])
def test_where_the_installer_does_not_work_pulumi_is_built_and_nothing_half_is_left(host, work, site, command, content):
    site.content = content
    command("go", 'case "$1" in env) echo go1.10;; esac')
    with pytest.raises(StepFailed, match=r"Go 1\.10 is too old"):
        pulumi.engine_run(online(host, site), work)
    assert not [p for p in host.cache.glob("*pulumi*") if p.is_dir()]


def test_the_download_site_is_asked_once_a_day(host, site):
    there = online(host, site)
    assert not downloads.reachable(there) and not downloads.reachable(there)
    assert site.asked == 1


def test_forbidden_downloads_are_not_tried(host, site):
    site.content = INSTALL_SCRIPT
    assert not downloads.reachable(dataclasses.replace(online(host, site), downloads=False))
    assert site.asked == 0
    assert "stand-in" in pulumi.providers_done(host)


def test_no_go_says_which_is_needed(host):
    needed = re.search(r"^go (\S+)", (ROOT / "tools/pulumi/go.mod").read_text(), re.MULTILINE)[1]
    with pytest.raises(StepFailed) as failed:
        golang.require(host, "pulumi")
    assert needed in failed.value.what and f"Go {needed}" in failed.value.way_out


def test_a_go_that_fetches_its_own_toolchain_will_do(host, command):
    command("go", "echo go1.22.4")
    assert golang.require(host, "pulumi")


def test_a_build_is_held_to_go_sum_and_retried_only_when_the_network_failed(host, work, command, tmp_path):
    calls = tmp_path / "calls"
    body = 'case "$1" in env) echo go1.26.0;; build) echo "$GOFLAGS" >> %s; echo "%s"; exit 1;; esac'
    command("go", body % (calls, "checksum mismatch"))
    with pytest.raises(StepFailed):
        pulumi.engine_run(host, work)
    assert len(calls.read_text().splitlines()) == 1 and "-mod=readonly" in calls.read_text()
    command("go", body % (calls, "read: connection reset by peer"))
    with pytest.raises(StepFailed):
        pulumi.engine_run(host, work)
    assert len(calls.read_text().splitlines()) == 3
    assert not [p for p in host.cache.glob("*pulumi*") if p.is_dir()]


def test_the_old_environment_comes_back_when_the_new_one_cannot_be_made(host, work):
    host.venv.mkdir()
    (host.venv / "mine").write_text("kept")
    with pytest.raises(StepFailed):
        venv.venv_run(host, work)  # the host's Python does not exist
    assert (host.venv / "mine").read_text() == "kept" and not (host.root / ".venv.old").exists()


def test_an_environment_that_was_not_finished_is_not_ready(host, command):
    command("python", "true", host.bin)
    assert venv.venv_done(host) is None
    (host.venv / "flexserve-setup-venv").write_text(venv.venv_key(host))
    assert venv.venv_done(host)
    with (host.root / "requirements.lock").open("a") as lock:
        lock.write("other==1\n")
    assert venv.venv_done(host) is None


def test_the_sdk_in_the_lock_decides_how_old_pulumi_may_be(host):
    assert parse(locked(ROOT, "pulumi")) <= parse(wanted(host))


def find_python(tmp_path, *, environ, **shims):
    """Run `tools/python` with shims in front of an otherwise bare PATH."""
    folder = tmp_path / "shims"
    folder.mkdir()
    for name, body in shims.items():
        (folder / name.replace("_", ".")).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name.replace("_", ".")).chmod(0o755)
    return subprocess.run(
        [ROOT / "tools" / "python"], env={"PATH": f"{folder}:/usr/bin:/bin", **environ}, capture_output=True, text=True, timeout=60
    )


def test_a_python_is_found_behind_shims_that_fail_or_are_too_old(tmp_path):
    real = os.path.realpath(sys._base_executable)
    shim = f'[ -n "$TOOL_ROOT" ] || {{ echo "no version is set" >&2; exit 127; }}; exec {real} "$@"'
    seen = find_python(tmp_path, environ={"TOOL_ROOT": "/x"}, python3_11=shim, python3="exit 1")
    assert seen.stdout.strip() == real


def test_a_shim_that_lost_its_home_is_passed_over(tmp_path):
    real = os.path.realpath(sys._base_executable)
    seen = find_python(tmp_path, environ={"HOME": "/nonexistent", "PYTHON": real}, python3_11="exit 127", python3="exit 127")
    assert seen.returncode == 0 and seen.stdout.strip() == real


def compiled(place, how):
    """A shim of a Python that is in another place, and was compiled with these arguments: the probe runs, and sees that."""
    change = f"import sys, sysconfig; sysconfig.get_config_var = lambda _: {how!r}; sys._base_executable = {place!r}"
    return f'exec {sys.executable} -I -c "{change}; exec(sys.argv.pop(1))" "$3" "$4"'


def test_a_python_that_was_compiled_without_optimization_is_taken_where_there_is_no_other(tmp_path):
    slow, fast = compiled("/opt/slow", ""), compiled("/opt/fast", "--enable-shared --enable-optimizations")
    seen = find_python(tmp_path, environ={}, python3_11=slow, python3=fast)
    assert seen.returncode == 0 and seen.stdout.strip() != "/opt/slow"  # /opt/fast, or this machine's own


def test_a_python_that_is_named_is_taken_as_it_is(tmp_path):
    seen = find_python(tmp_path, environ={"PYTHON": "slow"}, slow=compiled("/opt/slow", ""))
    assert seen.stdout.strip() == "/opt/slow"


def test_bytecode_that_takes_too_long_stops_nobody(host, work, command):
    command("python", 'case "$*" in *compileall*) sleep 300;; *) echo /packages;; esac', host.bin)
    inside = dataclasses.replace(host, environ={**host.environ, "PATH": "/usr/bin:/bin"})
    work.deadline = time.monotonic() + 0.3
    with pytest.raises(Skip, match="start slower"):
        venv.bytecode_run(inside, work)
    assert venv.bytecode_done(inside) is None


def test_the_plugin_that_was_built_is_linked_and_the_operators_own_comes_first(host, work, command):
    assert plugin.done(host) is None and plugin.own_done(host) is None
    with pytest.raises(Skip, match="install AWS's own"):
        plugin.own_run(host, work)
    command(plugin.NAME, "exit 0", plugin.built(host).parent)
    assert plugin.run(host, work).endswith("built from Go modules")
    assert (host.bin / plugin.NAME).resolve() == plugin.built(host).resolve()
    assert plugin.done(host) and plugin.own_done(host)
    command(plugin.NAME, "exit 0")
    assert plugin.done(host) == plugin.own_done(host) == f"on PATH: {host.which(plugin.NAME)}"
