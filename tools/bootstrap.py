"""Create ``.venv`` from ``requirements.lock``: ``python3 tools/bootstrap.py`` (or ``make setup``).

Only the standard library is used, because nothing else is there yet. The order is: uv by pip into
the cache folder, an environment by uv, the locked packages (every hash verified), and the
``mirrorlake`` command. A second run finds its stamp and does nothing; another clone on the same
machine finds everything in the cache folder and needs no network.

The one cache folder is ``$MIRRORLAKE_CACHE``, else ``$XDG_CACHE_HOME/mirrorlake``, else
``~/.cache/mirrorlake``: the same rule as ``mirrorlake/runtime/cache.py``, which can't be imported
before there is an environment.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

OLDEST, TOO_NEW = (3, 11), (3, 14)

# Before any definition: annotations below would be errors in a Python that is too old to say so.
if not OLDEST <= sys.version_info[:2] < TOO_NEW:
    # Run, not only found: a version manager's shim may stand for a Python that isn't there.
    found = [
        name
        for name in ("python3.13", "python3.12", "python3.11")
        if shutil.which(name)
        and subprocess.call([name, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        == 0
    ]
    sys.exit(
        "mirrorlake setup: this is Python {}.{} ({}), and Mirrorlake needs 3.11, 3.12 or 3.13. "
        "Run: make setup PYTHON={}".format(
            sys.version_info[0],
            sys.version_info[1],
            sys.executable,
            found[0] if found else "/path/to/python3.12",
        )
    )

REPO = Path(__file__).resolve().parent.parent
VENV = REPO / ".venv"
LOCK = REPO / "requirements.lock"
UV_PIN = REPO / "tools" / "uv-requirements.txt"
BUILD_PINS = REPO / "tools" / "build-requirements.txt"
STAMP = VENV / "mirrorlake.stamp"

# Measured: 1.9 GB of packages, and 1.4 GB for building the two that come as source (PySpark).
NEEDED_BYTES = 4 * 10**9

COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from mirrorlake.cli.main import main

sys.exit(main())
"""


class SetupError(Exception):
    """One line: what is wrong, why, and what to do."""


def say(step: str) -> None:
    """Print one line per step, at once."""
    print(f"mirrorlake setup: {step}", flush=True)


def cache_dir() -> Path:
    """Return the cache folder's path; see the module's docstring for the rule."""
    explicit = os.environ.get("MIRRORLAKE_CACHE")
    if explicit:
        return Path(explicit).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path in it is invalid and ignored.
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "mirrorlake"


def fingerprint() -> str:
    """Return the hash of all that the environment is made from.

    The repository's own path is part of it: scripts in an environment name their interpreter by
    its full path, so a clone that was moved needs its environment made again.
    """
    digest = hashlib.sha256(f"{sys.version_info[:3]}\0{REPO}\0".encode(errors="surrogateescape"))
    for path in (LOCK, REPO / "pyproject.toml", BUILD_PINS, Path(__file__)):
        content = path.read_bytes() if path.exists() else b""
        digest.update(b"%d\0" % len(content) + content)
    return digest.hexdigest()


def is_current() -> bool:
    """Tell whether ``.venv`` is what the lock file asks for, and its Python still exists."""
    try:
        return STAMP.read_text() == fingerprint() and (VENV / "bin" / "python").exists()
    except OSError:
        return False


@contextlib.contextmanager
def only_one_at_a_time(cache: Path) -> Generator[None, None, None]:
    """Hold the cache folder's lock: two ``make`` at once don't build one environment twice."""
    import fcntl  # absent on Windows, where nothing else here would work either

    with (cache / "setup.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make_cache(cache: Path) -> None:
    """Create the cache folder and prove that it can be written and has room."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as probe:
            probe.write(b"x")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError(no_room(cache)) from error
        raise SetupError(
            f"the cache folder {cache} can't be written ({error.strerror}). "
            "Make it writable, or set MIRRORLAKE_CACHE to a folder that is"
        ) from error


def no_room(folder: Path) -> str:
    """Return the line for a full disk."""
    free = shutil.disk_usage(folder).free / 1e9 if folder.exists() else 0
    return (
        f"the disk is full: {folder} has {free:.1f} GB free and a first setup needs about "
        f"{NEEDED_BYTES / 1e9:.0f} GB. Free some space, or set MIRRORLAKE_CACHE to a folder on "
        "another disk"
    )


def explain(what: str, output: str, log: Path) -> SetupError:
    """Turn a tool's output into one line: the known causes by name, else its own last word."""
    text = output.lower()
    causes = [
        (("no space left", "disk quota exceeded", "os error 28"), no_room(log.parent)),
        (
            ("hash mismatch", "do not match the hashes"),
            f"{what}: a package's checksum is not the one in the lock file, so it was not "
            f"installed. Check the package index that pip is set to use; details in {log}",
        ),
        (
            (
                "dns error", "temporary failure in name resolution", "failed to resolve",
                "name or service not known", "connection refused", "network is unreachable",
                "newconnectionerror", "timed out", "tcp connect error", "network connectivity",
                "error sending request", "network was disabled", "proxy",
            ),
            f"{what}: no network, and the cache folder does not hold everything yet. Connect once "
            f"(PIP_INDEX_URL and SSL_CERT_FILE are honoured) and run it again; details in {log}",
        ),
        (
            ("permission denied", "read-only file system"),
            f"{what}: a folder can't be written. Check the rights of {VENV} and {log.parent}; "
            f"details in {log}",
        ),
    ]  # fmt: skip
    for signs, line in causes:
        if any(sign in text for sign in signs):
            return SetupError(line)
    lines = [line.strip(" ×├─▶╰") for line in output.splitlines() if line.strip()]
    return SetupError(
        f"{what} failed: {lines[-1] if lines else 'no output'}. All of it is in {log}"
    )


def run(what: str, command: list[str], env: dict[str, str], cache: Path) -> None:
    """Run one tool quietly; its output is kept in the cache folder's setup.log.

    Raises:
        SetupError: it failed; the message says why in one line.
    """
    log = cache / "setup.log"
    ran = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, text=True, errors="replace", check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=REPO,
    )  # fmt: skip
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8", errors="replace") as handle:
        handle.write(f"$ {' '.join(command)}\n{ran.stdout}\n")
    if ran.returncode != 0:
        raise explain(what, ran.stdout, log)


def installer(tools: Path) -> list[str]:
    """Return the command that runs pip: this Python's own, else one made by ensurepip.

    Raises:
        SetupError: this Python has neither (Debian's python3 without python3-venv).
    """

    def can(code: str) -> bool:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if can("import pip"):
        return [sys.executable, "-m", "pip"]
    if not can("import venv, ensurepip; ensurepip.version()"):
        raise SetupError(
            f"{sys.executable} has neither pip nor the venv module, so nothing can be installed. "
            "Install one of them (Debian and Ubuntu: apt install python3-venv) and run it again"
        )
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(tools / "pip")], capture_output=True, check=False
    )
    if made.returncode != 0:
        raise SetupError(
            f"{sys.executable} can't make an environment: its venv module is incomplete. "
            "Install it (Debian and Ubuntu: apt install python3-venv) and run it again"
        )
    return [str(tools / "pip" / "bin" / "python"), "-m", "pip"]


def find_uv(cache: Path) -> Path:
    """Return the pinned uv in the cache folder, brought by pip with its hash verified."""
    home = cache / "tools" / f"uv-{hashlib.sha256(UV_PIN.read_bytes()).hexdigest()[:16]}"
    uv = home / "bin" / "uv"
    if uv.exists():
        return uv
    say("bringing the installer (uv, pinned)")
    (cache / "tools").mkdir(exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=cache / "tools", prefix="uv-"))
    try:
        command = [
            *installer(building), "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--no-cache-dir", "--only-binary=:all:", "--no-deps", "--retries=1",
            "--require-hashes", "--target", str(building / "uv"), "-r", str(UV_PIN),
        ]  # fmt: skip
        run("bringing uv", command, dict(os.environ), cache)
        # Whole or not at all: a name in the cache folder always means a finished piece.
        (building / "uv").rename(home)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return uv


def pip_setting(name: str) -> str:
    """Return one of pip's settings (its variable, else its configuration files), or ''."""
    explicit = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
    if explicit is not None:
        return explicit
    for section in ("install", "global"):
        answer = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", f"{section}.{name}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode == 0:
            return answer.stdout.strip()
    return ""


def uv_environment(cache: Path) -> dict[str, str]:
    """Return the environment in which uv runs: our cache folder, pip's index and certificates."""
    env = dict(os.environ)
    # An active environment, or a setting meant for another project, must not redirect ours.
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT"):
        env.pop(name, None)
    env["UV_CACHE_DIR"] = str(cache / "uv")
    env["UV_PYTHON_DOWNLOADS"] = "never"
    env["UV_NO_PROGRESS"] = "1"
    # As pip does: the system's certificates, unless a file is named.
    env.setdefault("UV_SYSTEM_CERTS", "1")
    same = {"cert": "SSL_CERT_FILE", "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
    for setting, variable in same.items():
        value = "" if variable in env else pip_setting(setting)
        if value:
            env[variable] = value
    return env


def make_environment(uv: Path, env: dict[str, str], cache: Path) -> None:
    """Make ``.venv`` for this Python, or keep the one that already is."""
    STAMP.unlink(missing_ok=True)
    # A running .venv/bin/python would be removed under its own feet: take the Python it came from.
    python = getattr(sys, "_base_executable", None) or sys.executable
    version = ".".join(map(str, sys.version_info[:3]))
    with contextlib.suppress(OSError):
        settings = (VENV / "pyvenv.cfg").read_text()
        same_place = (VENV / "mirrorlake.home").read_bytes() == os.fsencode(VENV)
        if f"= {version}\n" in settings and same_place and (VENV / "bin" / "python").exists():
            return
    say(f"making {VENV} for Python {version}")
    command = [str(uv), "venv", "--quiet", "--clear", "--python", python, str(VENV)]
    run(f"making {VENV}", command, env, cache)
    (VENV / "mirrorlake.home").write_bytes(os.fsencode(VENV))


def install_packages(uv: Path, env: dict[str, str], cache: Path) -> None:
    """Make the environment hold exactly the locked packages: from the cache folder if it can."""
    lock = hashlib.sha256(LOCK.read_bytes() + BUILD_PINS.read_bytes() + env["UV_CACHE_DIR"].encode(
        errors="surrogateescape")).hexdigest()[:16]  # fmt: skip
    filled = cache / "tools" / f"filled-{lock}-{sys.version_info[0]}.{sys.version_info[1]}"
    # Where Python may not write beside its modules, each process would compile what it imports
    # again, for three seconds and more.
    compiled = ["--compile-bytecode"] if os.environ.get("PYTHONDONTWRITEBYTECODE") else []
    sync = [
        str(uv), "pip", "sync", *compiled, "--require-hashes",
        "--build-constraints", str(BUILD_PINS), "--python", str(VENV / "bin" / "python"), str(LOCK),
    ]  # fmt: skip
    if filled.exists():
        say("installing the locked packages from the cache folder")
        try:
            run("installing the locked packages", [*sync, "--offline"], env, cache)
        except SetupError:
            say("the cache folder is incomplete; asking the package index")
        else:
            return
    else:
        free = shutil.disk_usage(cache).free
        if free < NEEDED_BYTES:
            raise SetupError(no_room(cache))
        say("downloading and installing the locked packages (once; about a minute)")
    run("installing the locked packages", sync, env, cache)
    filled.touch()
    # What was built from source is kept unpacked; uv doesn't ask for the rest again (1.4 GB).
    for version in (cache / "uv").glob("sdists-*/pypi/*/*/*"):
        shutil.rmtree(version / "src", ignore_errors=True)
        for wheel in version.glob("*.whl"):
            wheel.unlink(missing_ok=True)


def install_project() -> None:
    """Put the repository on the environment's path, and the ``mirrorlake`` command beside Python.

    Not ``pip install -e .``: that would run a build backend, one more thing to download and to
    go wrong, in order to write these same two files.
    """
    site = next((VENV / "lib").glob("python3.*/site-packages"))
    # Bytes in ASCII: Python reads this file in the locale's encoding, and a path may be anything.
    # Python runs the line twice in an environment, hence the condition.
    repo = f"os.fsdecode({os.fsencode(REPO)!r})"
    line = f"import os, sys; {repo} in sys.path or sys.path.append({repo})\n"
    (site / "mirrorlake.pth").write_text(line, encoding="ascii")
    command = VENV / "bin" / "mirrorlake"
    text = COMMAND.format(python=VENV / "bin" / "python")
    command.write_bytes(os.fsencode(text))
    command.chmod(0o755)


def set_up() -> None:
    """Do all of it, or nothing if it was done."""
    if not LOCK.exists():
        raise SetupError(f"{LOCK} is missing. Restore it: git checkout requirements.lock")
    if is_current():
        return
    started = time.monotonic()
    cache = cache_dir()
    make_cache(cache)
    with only_one_at_a_time(cache):
        if is_current():
            return
        uv = find_uv(cache)
        env = uv_environment(cache)
        make_environment(uv, env, cache)
        install_packages(uv, env, cache)
        install_project()
        STAMP.write_text(fingerprint())
    say(f"ready in {time.monotonic() - started:.1f} s (everything downloaded is in {cache})")


def main() -> None:
    """Run the setup; every failure is one line and exit code 3 (a piece of the machine)."""
    for stream in (sys.stdout, sys.stderr):
        # A path may hold letters that the terminal's encoding doesn't have.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        set_up()
    except SetupError as error:
        print(f"mirrorlake setup: {error}.", file=sys.stderr)
        sys.exit(3)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        line = no_room(REPO) if full else f"{error.filename or REPO}: {error.strerror or error}"
        print(f"mirrorlake setup: {line}.", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit("mirrorlake setup: interrupted; run it again to continue.")


if __name__ == "__main__":
    main()
