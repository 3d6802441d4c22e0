"""Which full copies could follow the server's binary log instead, and what the server lacks for it.

Pure but for `read_log`: the rest is words for the screen and for the written contract.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.init.suggest_tables import SuggestedTable
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.mysql.binlog.requirements import LogRequirement, find_missing, steps_to

logger = logging.getLogger(__name__)

_RETENTION: Final = timedelta(days=2)
"""How long a log should be kept: a mirror may stand still over a weekend's night."""
_WEIGHED: Final = ("binlog_expire_logs_seconds", "expire_logs_days")
_REASON: Final = "binlog: the server's log has every change; see docs/binlog.md"


@dataclass(frozen=True)
class LogProposal:
    """What `init` says of following the server's binary log.

    Attributes:
        tables: how many full copies could follow it, or do where ``written``.
        missing: what the server lacks for it, each with the statement to run.
        written: whether their contracts say so.
    """

    tables: int
    missing: tuple[LogRequirement, ...]
    written: bool = False


def read_log(connection: Connection[Any]) -> tuple[LogRequirement, ...] | None:
    """What a server lacks for its log to be followed; None where it does not say."""
    try:
        found = find_missing(connection, _RETENTION)
    except SourceError as error:
        logger.info("whether the log can be followed is not known: %s", error)
        return None
    return tuple(one for one in found if one.needed or one.name in _WEIGHED)


def propose(
    tables: Sequence[SuggestedTable],
    missing: tuple[LogRequirement, ...] | None,
    *,
    wanted: bool,
) -> tuple[list[SuggestedTable], LogProposal]:
    """The tables as they are to be written, and what is said of the log.

    Args:
        wanted: whether a person asked for mode binlog.

    Raises:
        ConfigError: one did, and the server's log can't be followed.
    """
    could = [table for table in tables if table.mode == "full" and table.logged]
    if not wanted:
        return list(tables), LogProposal(len(could), missing or ())
    refuse_unfollowed(missing)
    written = [
        replace(table, mode="binlog", notes=(_REASON,), almost=None) if table in could else table
        for table in tables
    ]
    return written, LogProposal(len(could), missing or (), written=True)


def refuse_unfollowed(missing: tuple[LogRequirement, ...] | None) -> None:
    """See that a server's log can be followed.

    Raises:
        ConfigError: it can't; with what the server lacks.
    """
    needed = [one for one in missing or () if one.needed]
    if needed or missing is None:
        words = "; ".join(f"{one.name}: {one.problem}" for one in needed)
        raise ConfigError(
            f"the server's binary log can't be followed: {words or 'it does not say why'}",
            next_step=steps_to(needed) or "Leave --mode out",
        )


def proposal_lines(found: LogProposal) -> Iterator[str]:
    """What is said of it: sentences, and statements to copy, which begin with two spaces."""
    if not found.tables and not found.written:
        return
    which = plural(found.tables, "full copy", "full copies")
    if found.written:
        which = plural(found.tables, "table")
        yield f"{which} will follow the server's binary log (mode: binlog, docs/binlog.md)."
    elif not found.missing:
        yield (
            f"{which} could follow the server's binary log instead: changes and deletes at once, "
            "and no copy but the first. `mirrorlake init --mode binlog` writes it so."
        )
        return
    else:
        yield (
            f"{which} could follow the server's binary log instead (changes and deletes at once, "
            "and no copy but the first), once the server has what it takes. Then `mirrorlake init "
            "--mode binlog` writes it so. Missing:"
        )
    for one in found.missing:
        yield f"- {one.name}: {one.problem}"
        yield f"  {one.fix}{';' if one.is_statement else ''}"
