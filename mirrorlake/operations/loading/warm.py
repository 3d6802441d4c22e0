"""Spark's part in a load, a fold and a proof, played once so that Java can archive its classes.

The archive (`mirrorlake.runtime.archive`) holds what a JVM had loaded when it ended. So one is
started with the option to write the archive, and does what ours do, on a few rows in a folder of
its own. A statement that is not here costs later JVMs a little time, nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirrorlake.config import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import MachineError
from mirrorlake.runtime.archive import Archive, archive_of
from mirrorlake.runtime.extras import require
from mirrorlake.runtime.jars import ensure_jars
from mirrorlake.runtime.java import Java, find_java, quote_option

if TYPE_CHECKING:
    import pyarrow as pa

# A busy machine with slow disks; the rest is about a minute.
_SECONDS = 600

_RAW, _DEDUPED = "lake.play.raw", "lake.play.deduped"
_TABLE = """
CREATE TABLE {name} (
    id BIGINT, name STRING, price DECIMAL(15,2), day DATE, moment TIMESTAMP_NTZ,
    instant TIMESTAMP, bytes BINARY, gone BOOLEAN, seq BIGINT,
    original ARRAY<STRUCT<column: STRING, text: STRING>>
) USING iceberg PARTITIONED BY (day) TBLPROPERTIES (
    'format-version' = '2', 'write.merge.mode' = 'merge-on-read',
    'write.delete.mode' = 'merge-on-read', 'write.parquet.compression-codec' = 'zstd'
)"""
_ROWS = """
INSERT INTO lake.play.raw
SELECT id, CONCAT('n', id), CAST(id AS DECIMAL(15,2)), DATE'2026-01-01' + CAST(id % 3 AS INT),
    TIMESTAMP_NTZ'2026-01-01 00:00:00', TIMESTAMP'2026-01-01 00:00:00',
    CAST(CONCAT('b', id) AS BINARY), id % 7 = 0, 1,
    IF(id % 5 = 0, ARRAY(NAMED_STRUCT('column', 'day', 'text', '0000-00-00')), NULL)
FROM RANGE(100)"""
_CHANGES = """
CREATE OR REPLACE TEMP VIEW changes AS SELECT * EXCEPT (place) FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY seq DESC) AS place
    FROM lake.play.raw WHERE seq IN (1, 2)
) WHERE place = 1"""
_MERGE = """
MERGE INTO {name} t USING changes s ON t.id <=> s.id AND t.id BETWEEN 0 AND 100
WHEN MATCHED AND s.gone THEN DELETE
WHEN MATCHED AND NOT (t.name <=> s.name AND t.price <=> s.price) THEN UPDATE SET *
WHEN NOT MATCHED AND NOT s.gone THEN INSERT *"""
_STATEMENTS = (
    """SELECT day, COUNT(*), SUM(CAST(CONV(SUBSTR(SHA2(CONCAT(OCTET_LENGTH(name), ':', name),
        256), 1, 15), 16, 10) AS DECIMAL(20,0)))
        FROM {name} WHERE id >= 1 GROUP BY day ORDER BY day""",
    """SELECT HEX(bytes), SHA2(name, 256), DATE_FORMAT(moment, 'yyyy-MM-dd HH:mm:ss.SSSSSS'),
        UNIX_MICROS(instant), FILTER(original, e -> e.column = 'day') FROM {name} LIMIT 5""",
    """SELECT t.id FROM {name} t FULL OUTER JOIN lake.play.raw s ON t.id = s.id
        WHERE t.id IS NULL OR NOT t.name <=> s.name""",
    "SELECT id FROM {name} t LEFT ANTI JOIN lake.play.raw s ON t.id = s.id AND t.name <=> s.name",
    "SELECT file_path FROM {name}.files",
    "SELECT snapshot_id FROM {name}.snapshots",
)
_KEPT = (
    "ALTER TABLE {name} CREATE BRANCH staged",
    "DELETE FROM {name}.branch_staged WHERE id = 3",
    "CALL lake.system.fast_forward('{name}', 'main', 'staged')",
    "CALL lake.system.rewrite_data_files(table => '{name}', strategy => 'binpack', "
    "options => map('min-input-files', '2'))",
    "CREATE OR REPLACE VIEW lake.play.shown AS SELECT id, name FROM {name}",
    "SELECT * FROM lake.play.shown",
)


def make_archive() -> Path | None:
    """Make the archive of this Java and environment; None where it was there already.

    Takes about a minute, and 200 MB in the environment's folder.

    Raises:
        MachineError: PySpark, Java, a jar or room is missing, or this Java can't make one.
    """
    require("pyspark", "spark", "Java's class archive")
    java = find_java()
    archive = archive_of(java.home)
    if archive.there:
        return None
    ensure_jars(["spark"])
    folder = archive.path.parent
    try:
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.jsa"):
            old.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            if archive.base is not None:
                # First, and in its place: what stands on it remembers where it was.
                _make_base(java, archive.base, Path(name))
            _make_top(archive, Path(name))
    except OSError as error:
        raise MachineError(
            f"Java's class archive can't be written to {folder}: {error.strerror or error}",
            next_step="Nothing else needs it: starts of Spark only take longer",
        ) from error
    return archive.path


def _make_base(java: Java, base: Path, folder: Path) -> None:
    made = folder / "base.jsa"
    _run([str(java.command), "-Xshare:dump", f"-XX:SharedArchiveFile={made}"], {}, made)
    made.replace(base)


def _make_top(archive: Archive, folder: Path) -> None:
    """Rehearse in a process of its own, whose JVM leaves the archive at its end."""
    made = folder / "top.jsa"
    # The optimising compiler would cost more than all the rest, and leaves nothing behind.
    options = [f"-XX:ArchiveClassesAtExit={made}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if archive.base is not None:
        options.append(f"-XX:SharedArchiveFile={archive.base}")
    joined = " ".join(quote_option(option) for option in options)
    command = [sys.executable, "-m", "mirrorlake.operations.loading.warm", str(folder / "lake")]
    _run(command, {"SPARK_SUBMIT_OPTS": joined}, made)
    made.replace(archive.path)  # whole or not at all


def _run(command: list[str], settings: dict[str, str], made: Path) -> None:
    try:
        # Its JVM ends with it, however it ends.
        ran = subprocess.run(
            command,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MachineError(
            f"this Java made no class archive within {_SECONDS} s",
            next_step="Nothing else needs it: starts of Spark only take longer",
        ) from None
    if ran.returncode != 0 or not made.exists():
        words = (ran.stderr.strip() or ran.stdout.strip() or "it said nothing").splitlines()[-1]
        raise MachineError(
            f"this Java made no class archive: {words[:300]}",
            next_step="Nothing else needs it: starts of Spark only take longer",
        )


def _rehearse(folder: Path) -> None:
    """Do on a few rows what loads, folds and proofs do in Spark, in a lake in that folder."""
    # Nobody's rows: the archive that the JVM writes is for all who use this environment.
    lake = LakeConfig(warehouse=str(folder), permissions="open")
    spark = LazySpark(SparkConfig(), Lake(lake))
    session: Any = spark.get()
    session.sql("CREATE NAMESPACE lake.play")
    for name in (_RAW, _DEDUPED):
        session.sql(_TABLE.format(name=name))
    for compiled in ("true", "false"):  # plans: users' are, the tests' are not
        session.conf.set("spark.sql.codegen.wholeStage", compiled)
        session.sql(_ROWS)
        session.sql(_CHANGES)
        session.sql(_MERGE.format(name=_DEDUPED))
    for statement in _STATEMENTS:
        session.sql(statement.format(name=_DEDUPED)).collect()
    session.sql(f"SELECT * FROM {_DEDUPED}").toArrow()  # noqa: S608
    for statement in _KEPT:
        session.sql(statement.format(name=_DEDUPED)).collect()
    session.range(0, 1, 1, 1).mapInArrow(cast(Any, _same), "id long").collect()
    spark.stop(_SECONDS)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    _rehearse(Path(sys.argv[1]))
