"""What the engine sends to a server, held against what MySQL 9 no longer takes, and 5.7 not yet.

Neither runs where nobody brings one (`tests/support/brought_servers.py`). What every test has the
engine send to MySQL 8 is looked through instead, by the server's own general log.

Source: MySQL 9.6 manual, 1.4 "What Is New in MySQL 9.6", 7.5.8 "Legacy Hashing Component"; MySQL 8.4
manual, 1.4 "What Is New in MySQL 8.4" (removed statements, functions and variables); MySQL 8.0
manual, 1.3 "What Is New in MySQL 8.0".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

REMOVED = re.compile(
    r"\b(?:MD5|SHA|SHA1|PASSWORD|OLD_PASSWORD|ENCRYPT|DES_ENCRYPT|DES_DECRYPT|ENCODE|DECODE"
    r"|WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS)\s*\("
    r"|\bSHOW\s+MASTER\b"
    r"|@@(?:\w+\.)?(?:tx_isolation|tx_read_only|query_cache_\w+|expire_logs_days|log_bin_use_v1\w*)"
    r"|\bFROM\s+information_schema\.(?:INNODB_LOCKS|INNODB_LOCK_WAITS|GLOBAL_STATUS|SESSION_STATUS"
    r"|GLOBAL_VARIABLES|SESSION_VARIABLES)\b",
    re.IGNORECASE,
)
"""``SHOW SLAVE STATUS`` is sent too, but only to a server that does not know ``SHOW REPLICA
STATUS``."""
LACKING = re.compile(
    r"\bOVER\s*\(|\bWITH\s+(?:RECURSIVE\b|\w+\s*(?:\([^)]*\)\s*)?AS\s*\()|\b(?:EXCEPT|INTERSECT|LATERAL)\b"
    r"|\b(?:REGEXP_\w+|JSON_TABLE|UUID_TO_BIN|BIN_TO_UUID|ST_SwapXY|GROUPING)\s*\(|\bFOR\s+SHARE\b"
    r"|\bSKIP\s+LOCKED\b|\binformation_schema_stats_expiry\b|\bAS\s+(?:FLOAT|DOUBLE)\s*\)"
    r"|\bCHECK_CONSTRAINTS\b",
    re.IGNORECASE,
)
"""``INNODB_TABLES`` and ``SHOW REPLICA STATUS`` are sent too: to a server that does not know them,
what it has for them follows."""
_NEWER = re.compile(r"/\*[! ](?:8|9)\d{4}.*?\*/", re.DOTALL)
"""What MySQL 5.7 passes over; its own log has such a comment without the exclamation mark."""
_QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"", re.DOTALL)
_MARIADB = re.compile(r"/\*M!.*?\*/", re.DOTALL)
"""What MySQL passes over."""
_LINE = re.compile(r"^\S+Z\s+(\d+) (\w+(?: \w+)?)\t(.*)$")


def sent_by_engine(log: Path) -> Iterator[str]:
    """The statements of all sessions but root's, which are the tests' own."""
    users: dict[str, str] = {}
    session, kept = "", list[str]()
    for line in log.read_text("utf-8", errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            kept.append(line)
            continue
        if kept and users.get(session, "root") != "root":
            yield "\n".join(kept)
        session, kind, text = found.groups()
        kept = [text] if kind in ("Query", "Prepare", "Execute") else []
        if kind == "Connect":
            users[session] = text.partition("@")[0]
    if kept and users.get(session, "root") != "root":
        yield "\n".join(kept)


def refused_by_9(log: Path) -> list[str]:
    """The statements among them that MySQL 9 would refuse, each once."""
    sent = (_MARIADB.sub("", sql) for sql in sent_by_engine(log))
    return sorted({sql[:300] for sql in sent if REMOVED.search(sql)})


def refused_by_5_7(log: Path) -> list[str]:
    """The statements among them that MySQL 5.7 would refuse, each once."""
    sent = (_NEWER.sub("", _MARIADB.sub("", sql)) for sql in sent_by_engine(log))
    return sorted({sql[:300] for sql in sent if LACKING.search(_QUOTED.sub("q", sql))})
