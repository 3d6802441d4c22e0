"""Tables that dlt, rivet and Spark really make of MySQL's, each in its own environment: one column
a table, so that what a tool can't copy keeps no other from being compared."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.dlt_environment import environment
from mirrorlake.config.settings import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.jars import ensure_jars
from tests.integration.other_copies.peer_table import COLUMNS, statements

HERE = Path(__file__).parent
PINS = HERE.parents[2] / "benchmarks"
USER, PASSWORD, DATABASE = "mirror", "plain", "peers"


def table_of(column: str) -> str:
    return f"t_{column}"


def make_tables(server: EmbeddedServer, columns: Mapping[str, str] = COLUMNS) -> None:
    """A table for each column, and one with all, on a server that is not in UTC."""
    server.create_user(USER, PASSWORD)
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for name, kind in columns.items():
            for statement in statements({name: kind}, table_of(name)):
                cursor.execute(statement)
        admin.commit()


def url_of(server: EmbeddedServer, scheme: str = "mysql") -> str:
    return f"{scheme}://{USER}:{PASSWORD}@127.0.0.1:{server.port}/{DATABASE}"


def copy_by_dlt(
    server: EmbeddedServer, folder: Path, backend: str, columns: Iterable[str] = COLUMNS
) -> dict[str, str]:
    """Column → why dlt failed, '' where it did not; the tables are in ``out/<backend>``."""
    [python] = environment("dlt", PINS / "dlt-requirements.txt")
    job = [python, str(HERE / "dlt_job.py"), url_of(server, "mysql+pymysql"), str(folder), backend]
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*job, *map(table_of, columns)], env=without, capture_output=True, text=True, check=True
    )
    failed = json.loads(done.stdout.strip().splitlines()[-1])
    return {name: failed[table_of(name)] for name in columns}


def copy_by_rivet(
    server: EmbeddedServer, folder: Path, columns: Iterable[str] = COLUMNS
) -> dict[str, str]:
    """Column → why rivet failed, '' where it did not; each table is a folder of its own."""
    [python] = environment("rivet", PINS / "rivet-requirements.txt")
    failed: dict[str, str] = {}
    for name in columns:
        table = table_of(name)
        export = {"name": table, "table": table, "mode": "full", "format": "parquet"}
        export |= {"destination": {"type": "local", "path": str(folder / table)}}
        settings = {"source": {"type": "mysql", "url_env": "RIVET_URL"}, "exports": [export]}
        config = folder / f"{table}.yaml"
        config.write_text(json.dumps(settings))
        done = subprocess.run(
            [str(Path(python).with_name("rivet")), "run", "--config", str(config)],
            env={**os.environ, "RIVET_URL": url_of(server)},
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
        failed[name] = (done.stdout + done.stderr)[-300:] if done.returncode else ""
    return failed


def copy_by_spark(
    server: EmbeddedServer, folder: Path, columns: Iterable[str] = COLUMNS
) -> dict[str, str]:
    """Column → why Spark's JDBC reader failed, '' where it did not; each table is a folder."""
    jars = ":".join(str(jar) for jar in ensure_jars(["bench"]))
    config = SparkConfig(conf={"spark.driver.extraClassPath": jars})
    lazy = LazySpark(config, Lake(LakeConfig(warehouse=str(folder / "lake"))))
    options = {
        "url": f"jdbc:mysql://127.0.0.1:{server.port}/{DATABASE}?permitMysqlScheme",
        "driver": "org.mariadb.jdbc.Driver",
        "user": USER,
        "password": PASSWORD,
    }
    failed: dict[str, str] = {}
    try:
        spark = lazy.get()
        for name in columns:
            table = table_of(name)
            reader = spark.read.format("jdbc").options(**options).option("dbtable", table)
            try:
                reader.load().write.parquet(str(folder / table))
                failed[name] = ""
            except Exception as error:  # noqa: BLE001 – whatever it is, it is what we look at
                failed[name] = str(error)[:300]
    finally:
        lazy.stop()
    return failed
