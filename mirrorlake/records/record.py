"""What a record says: one event of a table as JSON, and the id that it keeps for good. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from mirrorlake.config.contract import TableContract
from mirrorlake.ledger import Load

Method: TypeAlias = Literal["BINLOG", "SNAPSHOT"]
"""How a row was read: from the server's log, or by a SELECT (a copy, a repair)."""
Operation: TypeAlias = Literal["INSERT", "UPDATE", "DELETE", "SNAPSHOT", "TRUNCATE", "ALTER"]
_FILE_AND_OFFSET: Final = re.compile(r"(.*\.\d{6,}):(\d+)", re.DOTALL)


@dataclass(frozen=True)
class ChangeRecord:
    """One event.

    Attributes:
        id: the same whenever the event is published.
        load: the number of the load that brought it; event: its number in that load. Together they
            order a table's events.
        key: of the row, as JSON; '' of an event of the whole table.
        line: the record as JSON.
        position: of its transaction, as raw has it; None of a row that was read by a SELECT.
    """

    id: str
    operation: Operation
    load: int
    event: int
    key: str
    line: str
    position: str | None = None


class RecordForm:
    """Makes the records of one load.

    Args:
        version: the hash of the schema version of its rows.
    """

    def __init__(self, contract: TableContract, load: Load, version: str) -> None:
        self._load = load
        self._table = _json(
            {
                "source": contract.source,
                "database_name": contract.database,
                "table_name": contract.table,
                "table_version": version,
            }
        )[1:-1]

    def of_row(
        self,
        data: Mapping[str, Any],
        operation: Operation,
        event: int,
        key: str,
        position: str | None,
        committed_at: datetime | None,
    ) -> ChangeRecord:
        """The record of a row.

        Args:
            position: as raw has it; None of a row that was read by a SELECT, where a copy's key is
                there once.
            committed_at: UTC; None as well.
        """
        load, logged = self._load, position is not None
        own = str(event) if logged else hashlib.sha256(key.encode()).hexdigest()[:32]
        metadata = self._metadata(
            "BINLOG" if logged else "SNAPSHOT", operation, event, position, committed_at
        )
        line = f'{{"data":{_json(data)},"metadata":{{{metadata}}}}}'
        record_id = f"{load.load_id}-{own}"
        return ChangeRecord(record_id, operation, load.seq, event, key, line, position)

    def of_table(
        self, operation: Operation, method: Method, more: Mapping[str, Any] | None = None
    ) -> ChangeRecord:
        """The record of what happened to the table as a whole, before the load's rows.

        Args:
            more: what its metadata say besides.
        """
        metadata = self._metadata(method, operation, 0, None, None)
        added = f",{_json(more)[1:-1]}" if more else ""
        line = f'{{"data":null,"metadata":{{{metadata}{added}}}}}'
        return ChangeRecord(
            f"{self._load.load_id}-{operation}", operation, self._load.seq, 0, "", line
        )

    def _metadata(
        self,
        method: Method,
        operation: Operation,
        event: int,
        position: str | None,
        committed_at: datetime | None,
    ) -> str:
        at = "null" if committed_at is None else f'"{_moment(committed_at)}"'
        place = f'"load":{self._load.seq},"event":{event}{_position(position)}'
        return (
            f'"ingestion_method":"{method}",{self._table},"operation":"{operation}",'
            f'"position":{{{place}}},"committed_at":{at}'
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def key_text(values: list[Any]) -> str:
    """A key as JSON."""
    return _json(values)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


@lru_cache(maxsize=4096)
def _position(text: str | None) -> str:
    """Where a transaction stands, as members of an object: its GTID, or file and offset.

    >>> _position("0-1-27"), _position("mysql-bin.000003:1234"), _position(None)
    (',"gtid":"0-1-27"', ',"file":"mysql-bin.000003","offset":1234', '')
    """
    if text is None:
        return ""
    found = _FILE_AND_OFFSET.fullmatch(text)
    if found is None:
        return f',"gtid":{_json(text)}'
    return f',"file":{_json(found[1])},"offset":{found[2]}'
