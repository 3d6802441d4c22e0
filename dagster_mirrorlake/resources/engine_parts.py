"""The engine's parts one by one: none of them can start a JVM, so sensors and checks use these.

Each is imported when it is first used: a code location loads without any of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr

from dagster_mirrorlake.resources.contracts import read_config
from mirrorlake.config import Config
from mirrorlake.runtime.permissions import hold

if TYPE_CHECKING:
    from pymysql.connections import Connection

    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.ledger import Ledger


class _Part(dg.ConfigurableResource[Any]):
    config_path: str
    """Where mirrorlake.yaml is."""

    @property
    def contracts(self) -> Config:
        """The contract file."""
        return read_config(self.config_path)

    def _hold_permissions(self) -> None:
        """What this process writes from now on has the contract's permissions."""
        hold(self.contracts.lake.permissions)


class MySQLResource(_Part):
    """Sessions with the sources, opened on demand, closed at the end of the block."""

    @contextmanager
    def session(self, source: str, database: str | None = None) -> "Iterator[Connection[Any]]":
        """One connection in UTC, utf8mb4 and REPEATABLE READ.

        Raises:
            SourceError: unreachable, refused, or a setting did not hold.
        """
        from mirrorlake.sources.mysql.sessions.connect import session

        with session(self.contracts.sources[source], database) as connection:
            yield connection


class LakeResource(_Part):
    """The Iceberg catalog and its tables, through PyIceberg."""

    _lake: "Lake | None" = PrivateAttr(default=None)

    @property
    def lake(self) -> "Lake":
        """The lake; the first call opens it, and sees that it is the one that the ledger knows."""
        if self._lake is None:
            from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
            from mirrorlake.ledger import Ledger

            self._hold_permissions()
            contracts = self.contracts
            ledger = Ledger(contracts.ledger.url, contracts.ledger.wait)
            self._lake = open_lake(contracts, ledger)
        return self._lake


class LedgerResource(_Part):
    """Windows, loads and folds."""

    _ledger: "Ledger | None" = PrivateAttr(default=None)

    @property
    def ledger(self) -> "Ledger":
        """The ledger; the first call opens it."""
        if self._ledger is None:
            from mirrorlake.ledger import Ledger

            self._hold_permissions()
            self._ledger = Ledger(self.contracts.ledger.url, self.contracts.ledger.wait)
        return self._ledger
