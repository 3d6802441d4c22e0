"""Java's class archive is made, used by the next JVM, and made only once."""

import json
import subprocess
import sys

import pytest

from mirrorlake.operations.loading.warm import make_archive
from mirrorlake.runtime.archive import archive_options
from mirrorlake.runtime.java import find_java

SESSION = """
import json, sys
from pathlib import Path
from mirrorlake.config import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
spark = LazySpark(SparkConfig(), Lake(LakeConfig(warehouse=sys.argv[1])))
session = spark.get()
session.sql("CREATE NAMESPACE lake.a")
session.sql("CREATE TABLE lake.a.t USING iceberg AS SELECT 1 AS id")
print(json.dumps([row.id for row in session.sql("SELECT * FROM lake.a.t").collect()]))
spark.stop()
"""


@pytest.mark.full
@pytest.mark.timeout(900)
def test_an_archive_is_made_once_and_used(monkeypatch, tmp_path):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "prefix", str(tmp_path / "env"))
        (tmp_path / "env").mkdir()
        made = make_archive()
        assert made is not None
        assert make_archive() is None
        options = archive_options(find_java().home)
    log = tmp_path / "classes.log"
    told = [*options, f"-Xlog:class+load:file={log}"]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", " ".join(told))
    ran = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path / "lake")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == [1]
    loaded = [line for line in log.read_text().splitlines() if "source:" in line]
    shared = [line for line in loaded if "shared objects file" in line]
    assert len(shared) > 0.5 * len(loaded)  # without: less than a tenth, Java's own
    assert any("org.apache.iceberg" in line for line in shared)
