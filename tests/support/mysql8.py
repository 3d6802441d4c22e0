"""An embedded MySQL 8 on loopback, for the tests: no root, no system service, nothing to install.

The oldest 8.0 that people run, and the only one that a jar carries: what holds here is held against
a real MySQL, whose optimiser, charsets, JSON, GIS and authentication are not MariaDB's.
``MIRRORLAKE_TEST_MYSQL`` brings another one in its place, of 5.7 or later (`brought_servers.py`).
"""

from __future__ import annotations

from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.support.mysql8_files import TITLE, template_data, unpack_server


class MySQL8(EmbeddedServer):
    """A running MySQL 8; users log in by ``caching_sha2_password``, its default.

    An option that not every version has is ``loose``.
    """

    title = TITLE
    tuning = (
        "--innodb-buffer-pool-size=256M",
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-flush-method=nosync",  # as `tests/support/unflushed.py` has it
        "--sync-binlog=0",
        "--skip-name-resolve",
        # Whatever the machine's zone is.
        "--default-time-zone=+00:00",
        "--loose-ssl=0",
        "--loose-auto-generate-certs=OFF",  # without any, newer ones have no TLS either
        "--secure-file-priv=",  # LOAD DATA INFILE from the tests' folders
        "--loose-mysqlx=0",
        "--character-set-server=utf8mb4",
        "--log-bin=bin",
        "--binlog-format=row",
        "--loose-binlog-row-metadata=FULL",
        "--server-id=1",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
    )
    find_files = staticmethod(unpack_server)
    make_data = staticmethod(template_data)
