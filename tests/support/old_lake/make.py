"""Make an archive for ``test_old_lake``: run by the code whose lake is wanted.

Copy this folder into a checkout of that release, and there:
``python -m tests.support.old_lake.make 0.1-abcdef0.tar.xz``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.support.old_lake import DATABASE, ENVIRONMENT, PASSWORD, PLACE, USER, contract

TABLES = (
    "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, email VARCHAR(80), "
    "card VARCHAR(20), balance DECIMAL(12,2), born DATE, modified_at DATETIME(6) NOT NULL, "
    "KEY (modified_at)) ENGINE=InnoDB",
    "CREATE TABLE codes (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT, "
    "modified_at TIMESTAMP(6) NOT NULL, KEY (modified_at))",
    "CREATE TABLE events (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, what TEXT, at TIME(3))",
    "CREATE TABLE rates (day DATE, rate DOUBLE)",
)
FIRST = (
    "INSERT INTO customers SELECT seq, CONCAT('Ümit ', seq), CONCAT('c', seq, '@example.com'), "
    "'4111111111111111', seq * 1.25, IF(seq % 7, '1990-02-03', '0000-00-00'), "
    "'2026-03-01 10:00:00.123456' + INTERVAL seq MINUTE FROM seq_1_to_300",
    "INSERT INTO codes SELECT CONCAT('Code-', seq), seq, "
    "'2026-03-02 09:00:00' + INTERVAL seq SECOND FROM seq_1_to_100",
    "INSERT INTO events (what, at) SELECT CONCAT('event ', seq, ' 😀'), SEC_TO_TIME(seq) "
    "FROM seq_1_to_500",
    "INSERT INTO rates SELECT '2026-01-01' + INTERVAL seq DAY, seq / 3 FROM seq_1_to_40",
)
CHANGES = (
    "UPDATE customers SET balance = balance + 1, modified_at = NOW(6) WHERE id % 10 = 0",
    "DELETE FROM customers WHERE id = 17",
    "UPDATE codes SET code = 'CODE-5', v = 55, modified_at = NOW(6) WHERE code = 'code-5'",
    "INSERT INTO events (what) VALUES ('one more')",
    "UPDATE rates SET rate = -1 WHERE day = '2026-01-05'",
)


SNAPSHOTS = {
    20260301000000: [{"id": n, "price": f"{n}.25"} for n in range(1, 40)],
    20260302000000: [{"id": n, "price": f"{n}.50"} for n in range(2, 42)],
}
"""Snapshots of the landing by id, as `docs/snapshots.md` says they lie there."""


def land(landing: Path, number: int, rows: list[dict[str, object]]) -> None:
    """Land one snapshot of table ``prices``."""
    columns = [{"name": "id", "type": "long"}, {"name": "price", "type": "decimal(9,2)"}]
    schema = landing / "schemas" / "files" / "shop" / "prices.json"
    schema.parent.mkdir(parents=True, exist_ok=True)
    schema.write_text(json.dumps({"version": 1, "columns": columns}))
    day = landing / "json" / "files" / "shop" / "prices" / "dq" / str(number)[:8]
    day.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (day / f"{number}_0.json").write_bytes(text)
    files = [{"name": f"{number}_0.json", "bytes": len(text)}]
    (day / f"{number}_manifest.json").write_text(json.dumps({"version": 1, "files": files}))


def main(archive: Path) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o700)
    # The commands are this checkout's, whatever is installed.
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[3])}
    with MariaDB.start(PLACE / "mysql", extra_args=("--innodb-log-file-size=4M",)) as server:
        server.create_user(USER, PASSWORD)
        (PLACE / "mirrorlake.yaml").write_text(contract(server.port))

        def sql(*statements: str) -> None:
            with server.admin(DATABASE) as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
                for statement in statements:
                    cursor.execute(statement)
                connection.commit()

        def run(*arguments: str) -> None:
            script = Path(sys.executable).with_name("mirrorlake")
            command = [sys.executable, str(script), *arguments]
            subprocess.run(command, cwd=PLACE, env=environment, check=True)

        with server.admin() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        sql(*TABLES, *FIRST)
        run("sync")
        sql(*CHANGES)
        run("sync")
        for number, rows in SNAPSHOTS.items():
            land(PLACE / "landing", number, rows)
        run("land")
        run("repair", "customers", "--yes")  # deletes are flagged: no window sees one
        for table in ("codes", "events", "rates"):
            run("check", table)
        run("status")
    shutil.rmtree(PLACE / ".mirrorlake", ignore_errors=True)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(PLACE, arcname=PLACE.name)
    shutil.rmtree(PLACE)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
