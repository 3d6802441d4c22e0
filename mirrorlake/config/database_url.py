"""Which driver a database URL of the contract file means: people write the server's kind alone."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from mirrorlake.runtime.extras import require

_DRIVERS: Final = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}


def with_driver(url: str) -> sa.URL:
    """The URL with the driver that Mirrorlake installs; one that names a driver keeps it.

    SQLAlchemy's own defaults are drivers that must be compiled (psycopg2, mysqlclient).

    Raises:
        MachineError: it means the driver of Postgres, an extra, which is not installed.
    """
    read = sa.make_url(url)
    meant = read.set(drivername=_DRIVERS.get(read.drivername, read.drivername))
    if meant.drivername == "postgresql+psycopg":
        require("psycopg", "postgres", "a database in Postgres")
    return meant
