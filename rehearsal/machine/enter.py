"""Run a command in a machine's namespaces: `python -ISE enter.py PID ARGV...`, PID being the machine's init on this host.

nsenter would do but for one thing: when the machine goes down, its init stops every process, nsenter stops with its child,
and the teardown then waits for ever. This one only waits, so it ends when the machine does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

NAMESPACES = ("user", "ipc", "uts", "net", "cgroup", "pid", "mnt")  # the mount namespace last: after it, /proc is the machine's
PR_SET_PDEATHSIG = 1
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def main(pid: str, argv: list[str]) -> int:
    """The command's exit code; 128 + signal when it was killed; 127 when it is not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    folders = ENVIRONMENT["PATH"]
    ENVIRONMENT["PATH"] = ":".join(filter(None, (os.environ.get("M_PATH"), folders)))
    other = [name for name in NAMESPACES if os.readlink(f"/proc/self/ns/{name}") != os.readlink(f"/proc/{pid}/ns/{name}")]  # noqa: PTH115
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in other]
    for descriptor in descriptors:
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(descriptor)
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir("/")
        run(argv)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(argv: list[str]) -> NoReturn:
    """Become the command; without imports, since python's own library is out of sight in here."""
    folders = [""] if "/" in argv[0] else [f"{folder}/" for folder in ENVIRONMENT["PATH"].split(":")]
    for folder in folders:
        try:
            os.execve(folder + argv[0], argv, ENVIRONMENT)
        except OSError as error:
            reason = error.strerror
    os.write(2, f"{argv[0]}: {reason}\n".encode())
    os._exit(127)


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2:])
    sys.exit(code if code >= 0 else 128 - code)
