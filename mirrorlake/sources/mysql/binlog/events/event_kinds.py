"""The kinds of events, by the numbers that the log has for them.

Source: MySQL source, ``binary_log::Log_event_type``; MariaDB knowledge base, "2-Binlog Event
Header", "Event Type".
"""

from __future__ import annotations

from typing import Final

QUERY: Final = 2
STOP: Final = 3
ROTATE: Final = 4
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
EXECUTE_LOAD_QUERY: Final = 18
TABLE_MAP: Final = 19
WRITE_ROWS_V1: Final = 23
UPDATE_ROWS_V1: Final = 24
DELETE_ROWS_V1: Final = 25
INCIDENT: Final = 26
HEARTBEAT: Final = 27
WRITE_ROWS: Final = 30
UPDATE_ROWS: Final = 31
DELETE_ROWS: Final = 32
GTID: Final = 33
ANONYMOUS_GTID: Final = 34
PREVIOUS_GTIDS: Final = 35
XA_PREPARE: Final = 38
PARTIAL_UPDATE_ROWS: Final = 39
TRANSACTION_PAYLOAD: Final = 40
GTID_TAGGED: Final = 42
MARIADB_GTID: Final = 162
QUERY_COMPRESSED: Final = 165
WRITE_ROWS_COMPRESSED_V1: Final = 166
UPDATE_ROWS_COMPRESSED_V1: Final = 167
DELETE_ROWS_COMPRESSED_V1: Final = 168
WRITE_ROWS_COMPRESSED: Final = 169
UPDATE_ROWS_COMPRESSED: Final = 170
DELETE_ROWS_COMPRESSED: Final = 171

SILENT: Final[dict[int, str]] = {
    STOP: "STOP",
    5: "INTVAR",
    9: "APPEND_BLOCK",
    11: "DELETE_FILE",
    13: "RAND",
    14: "USER_VAR",
    17: "BEGIN_LOAD_QUERY",
    28: "IGNORABLE",
    29: "ROWS_QUERY",
    PREVIOUS_GTIDS: "PREVIOUS_GTIDS",
    36: "TRANSACTION_CONTEXT",
    37: "VIEW_CHANGE",
    160: "ANNOTATE_ROWS",
    161: "BINLOG_CHECKPOINT",
    163: "GTID_LIST",
    164: "START_ENCRYPTION",
}
"""Events that change no row by themselves, and no position."""

_NAMES: Final[dict[int, str]] = SILENT | {
    number: name
    for name, number in list(globals().items())
    if isinstance(number, int) and name.isupper()
}


def name_of(kind: int) -> str:
    """What a kind of event is called.

    >>> name_of(19), name_of(250)
    ('TABLE_MAP', 'kind 250')
    """
    return _NAMES.get(kind, f"kind {kind}")
