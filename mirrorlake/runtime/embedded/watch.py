"""Run a server, and end it with whoever started this: ``watch.py FOLDER COMMAND…``.

Standard library only, and small: it is started with ``python -I -S``. It ends the server with
SIGTERM (SIGKILL after GRACE seconds) and removes FOLDER, which holds the server's socket, as soon
as its standard input closes or it has another parent, which is what the kernel does for us when the
starting process dies, however it dies.

Why a process of its own: asking the kernel directly (PR_SET_PDEATHSIG) fires when the *thread* that
started the server ends, and needs code between fork and exec, which is not safe in a process with
threads. Here there is one thread, so between this process and the server it is safe and exact.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

GRACE = 15.0
LOOK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to end this process with its parent (Linux; elsewhere it does nothing)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> int:
    """Start the server, print its process id, and return its exit code."""
    parent = os.getppid()
    server = subprocess.Popen(
        sys.argv[2:],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=die_with_parent,  # safe: one thread, see above
    )
    with contextlib.suppress(BrokenPipeError):
        print(server.pid, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while server.poll() is None and os.getppid() == parent:
            ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
            if ready and not os.read(0, 1024):
                break
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(GRACE)
        except subprocess.TimeoutExpired:
            server.kill()
    code = server.wait()
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
