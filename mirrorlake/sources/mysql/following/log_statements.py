"""Statements in the log that bring other rows under a table's name, of which no row is logged.

Source: MySQL 8.0 manual, 13.1.36 "RENAME TABLE Statement", 13.1.9 "ALTER TABLE Statement", 26.3.3
"Exchanging Partitions and Subpartitions with Tables".
"""

from __future__ import annotations

import re
from typing import Final

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.binlog.statements import mentions, verbs_of
from mirrorlake.sources.mysql.ddl.parser import dropped_database
from mirrorlake.sources.mysql.ddl.text import read_words

_MOVING: Final = {
    "ALTER": re.compile(
        r"\bRENAME\b(?!\s+(COLUMN|INDEX|KEY)\b)|\bEXCHANGE\b|\bTABLESPACE\b"
        r"|\b(DROP|TRUNCATE)\s+PARTITION\b|\bREFERENCES\b",
        re.IGNORECASE,
    ),
    "CREATE": re.compile(r"\bREPLACE\s+TABLE\b", re.IGNORECASE),
    "DROP": re.compile(r"\bDROP\s+TABLES?\b", re.IGNORECASE),
    "RENAME": re.compile(""),
    "TRUNCATE": re.compile(""),
}
"""By its first word: what of a statement may do so. What a foreign key does is not logged."""


def moves_rows(text: str, database: str, table: str) -> bool:
    """Whether a statement may bring other rows under a table's name, or take its rows away, without
    a row in the log. One of a table of the same name in another database may be taken for it.

    >>> moves_rows("RENAME TABLE a TO b, c TO a", "d", "a")
    True
    >>> moves_rows("CREATE VIEW v AS TABLE a", "d", "a")
    False
    >>> moves_rows("ALTER TABLE `a` EXCHANGE PARTITION p WITH TABLE b", "d", "b")
    True
    >>> moves_rows("ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES c (b) ON DELETE CASCADE", "d", "a")
    True
    >>> moves_rows("ALTER TABLE a ADD INDEX (b)", "d", "a"), moves_rows("TRUNCATE d.a", "d", "A")
    (False, True)
    >>> moves_rows("ALTER TABLE a DROP /* old */ PARTITION p", "d", "a")
    True
    >>> moves_rows("DROP SCHEMA d", "d", "a"), moves_rows("DROP SCHEMA e", "d", "a")
    (True, False)
    >>> moves_rows("SET STATEMENT lock_wait_timeout = 1 FOR TRUNCATE a", "d", "a")
    True
    """
    if (dropped := dropped_database(text)) is not None:
        return dropped.lower() == database.lower()
    clean = _without_comments(text)
    moving = (_MOVING[verb] for verb in verbs_of(text) if verb in _MOVING)
    return any(one.search(clean) for one in moving) and mentions(text, table)


def _without_comments(text: str) -> str:
    try:
        return read_words(text)[0]
    except DdlRefused:
        return text
