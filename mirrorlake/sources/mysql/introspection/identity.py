"""Which table a name means: whether it is the one that was read before, made again, or truncated.

A table that is dropped and made again from a dump, or truncated and filled again, or of which a
partition was exchanged, has its old name and other rows. Nothing in its rows says so; what the
server keeps of the table does. What each statement changes of that was measured on both servers:
docs/contract-changes.md has the table, and tests/integration/sources/test_identity.py measures it.

Source: MySQL 8.0 manual, 28.3.38 "The INFORMATION_SCHEMA TABLES Table", 28.4.23 "The
INFORMATION_SCHEMA INNODB_TABLES Table", 13.1.37 "TRUNCATE TABLE Statement".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.introspection.innodb_ids import InnodbNumbers, read_numbers
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import SourceTable, quote

_TABLES = (
    "SELECT CREATE_TIME, AUTO_INCREMENT FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
_MADE = "SELECT TABLE_NAME, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")


@dataclass(frozen=True)
class Identity:
    """What distinguishes a table from another one of its name.

    Attributes:
        made: when the server made or altered it (``CREATE_TIME``, by the server's clock, whole
            seconds). TRUNCATE leaves it as it is.
        definition: a digest of its whole definition, without the counter.
        next_key: what its AUTO_INCREMENT gives out next; None without such a column.
        innodb_id: InnoDB's own number of it, which changes with its rows' place: TRUNCATE and any
            ALTER that writes the table again. None where the account may not see it (it needs
            PROCESS), where the table has partitions, or a name beyond ASCII.
        partitions: the same of each of its partitions, by InnoDB's name for it; None where they
            can't be seen, where it has none, and in receipts of an earlier release.
    """

    made: str | None
    definition: str
    next_key: int | None
    innodb_id: int | None
    partitions: InnodbNumbers | None = None

    @property
    def numbers(self) -> InnodbNumbers:
        """InnoDB's numbers of the table, or of its partitions; empty where they are not known."""
        if self.partitions:
            return self.partitions
        return {} if self.innodb_id is None else {"": self.innodb_id}

    @property
    def words(self) -> str:
        """What was seen of it, and what was not.

        >>> Identity("2026-01-01 00:00:00", "d", None, 7).words
        "made or altered at 2026-01-01 00:00:00 (the server's clock), InnoDB's number 7"
        """
        seen = [f"made or altered at {self.made} (the server's clock)"] if self.made else []
        if self.partitions:
            seen.append(f"InnoDB's numbers of {len(self.partitions)} partitions")
        elif self.innodb_id is not None:
            seen.append(f"InnoDB's number {self.innodb_id}")
        else:
            seen.append("InnoDB's number not looked at: see `mirrorlake doctor`")
        return ", ".join(seen)

    def renumbered(self) -> Identity:
        """The identity that it has after TRUNCATE, or made again, as far as InnoDB's numbers go."""
        return replace(
            self,
            innodb_id=None if self.innodb_id is None else -1,
            partitions=self.partitions and dict.fromkeys(self.partitions, -1),
        )

    def to_fields(self) -> dict[str, Any]:
        """What `from_fields` takes."""
        return asdict(self)

    @staticmethod
    def from_fields(recorded: dict[str, Any]) -> Identity:
        """What `to_fields` gave; what a newer release added is left out."""
        names = [field.name for field in fields(Identity)]
        return Identity(**{name: recorded.get(name) for name in names})  # type: ignore[arg-type]


def read_identity(connection: Connection[Any], table: SourceTable) -> Identity:
    """The identity of a table as the server has it now.

    Raises:
        SourceError: the server could not be queried.
    """
    name = (table.database, table.name)
    [(made, counter)] = rows_of(connection, _TABLES, name) or [(None, None)]
    counts = any("auto_increment" in column.extra.lower() for column in table.columns)
    numbers: InnodbNumbers = {}
    if table.engine.lower() == "innodb":
        numbers = read_numbers(connection, table.database, [table.name]).get(table.name, {})
    return Identity(
        made=None if made is None else str(made),
        definition=hashlib.sha256(_definition(connection, table).encode()).hexdigest()[:16],
        # MySQL 8 says NULL of a table that has not given out any number yet.
        next_key=(1 if counter is None else int(counter)) if counts else None,
        innodb_id=numbers.get(""),
        partitions={part: n for part, n in numbers.items() if part} or None,
    )


def _definition(connection: Connection[Any], table: SourceTable) -> str:
    try:
        whole = f"{quote(table.database)}.{quote(table.name)}"
        text = str(rows_of(connection, f"SHOW CREATE TABLE {whole}")[0][1])
    except SourceError as error:
        if "denied" not in error.message:
            raise
        # Who may read single columns alone is not shown it: then what is seen of the table.
        return repr((table.engine, table.columns, table.indexes, table.foreign_keys))
    return _COUNTER.sub("", text)


@dataclass(frozen=True)
class Sign:
    """That a table's rows may not be those that were read.

    Attributes:
        words: what was seen.
        may_be_equal: whether a mere rebuild looks the same: then a comparison of its rows decides.
        altered: whether its definition, too, is another one, or an ALTER in place is all that there
            was: to the mirror it is the same table, changed.
        partitions: those that have another number, where the others have theirs: only rows that
            are in one of them may be others.
    """

    words: str
    may_be_equal: bool = False
    altered: bool = False
    partitions: tuple[str, ...] = ()


def why_another(before: Identity, now: Identity) -> Sign | None:
    """What shows that a table's rows may not be those that were read before; None where nothing
    does.

    InnoDB's numbers say most: while they are the same, no row was brought under the name from
    elsewhere. Where they are not known, the time at which the table was made speaks, if its
    definition is the same: an ALTER changes that time, too.

    >>> read = Identity("2026-01-01 00:00:00", "d", 100, 7)
    >>> why_another(read, Identity("2026-01-02 00:00:00", "other", 120, 7))
    >>> why_another(read, Identity("2026-01-01 00:00:00", "d", 120, 8)).words
    'it was truncated, or another took its place'
    >>> why_another(read, Identity("2026-01-02 00:00:00", "d", 120, 8)).words
    'it was made again or rebuilt at 2026-01-02 00:00:00'
    >>> why_another(read, Identity("2026-01-02 00:00:00", "other", 90, 7)).words
    'its AUTO_INCREMENT fell'
    """
    return _by_numbers(before, now) or _by_counter(before, now)


def _by_counter(before: Identity, now: Identity) -> Sign | None:
    keys = (before.next_key, now.next_key)
    fell = keys[0] is not None and keys[1] is not None and keys[1] < keys[0]
    return Sign("its AUTO_INCREMENT fell") if fell else None


def _by_numbers(before: Identity, now: Identity) -> Sign | None:
    """What the table's number, its definition and the time at which it was made show together."""
    known = bool(before.numbers and now.numbers)
    moved = _moved(before.numbers, now.numbers) if known else ()
    some = moved if len(moved) < len(before.numbers.keys() & now.numbers.keys()) else ()
    at = f"at {now.made}"
    if before.definition != now.definition:
        if some:
            words = f"{_words(some)} written again, exchanged or truncated {at}"
            return Sign(words, may_be_equal=True, altered=True, partitions=some)
        words = f"it was made again with another definition, or an ALTER rebuilt it, {at}"
        return Sign(words, may_be_equal=True, altered=True) if moved else None
    if before.made != now.made:
        if known and not moved:
            # A column may have been dropped and added again: MariaDB does both in place.
            words = f"it was altered {at} to what it was defined as before"
            return Sign(words, may_be_equal=True, altered=True)
        return Sign(f"it was made again or rebuilt {at}", may_be_equal=True)
    if some:
        return Sign(f"{_words(some)} truncated or exchanged", may_be_equal=True, partitions=some)
    return Sign("it was truncated, or another took its place") if moved else None


def _moved(before: InnodbNumbers, now: InnodbNumbers) -> tuple[str, ...]:
    """The parts that have another number now; all of them, where none is there any more. One that
    is gone alone took its rows along, as a DELETE does, and one that is new had none."""
    common = before.keys() & now.keys()
    if not common:
        return tuple(now)
    return tuple(sorted(part for part in common if before[part] != now[part]))


def _words(partitions: Sequence[str]) -> str:
    names = ", ".join(_partition_name(part) for part in partitions)
    return f"partition {names} was" if len(partitions) == 1 else f"partitions {names} were"


def _partition_name(part: str) -> str:
    """What SQL calls a partition, or a subpartition, by InnoDB's name for it.

    >>> _partition_name("p#p0"), _partition_name("p#p0#sp#p0sp1")
    ('p0', 'p0sp1')
    """
    return part.rpartition("#")[2]


def filled_partitions(
    connection: Connection[Any], table: SourceTable, partitions: Sequence[str]
) -> tuple[str, ...]:
    """Those of a table's partitions that hold a row.

    Raises:
        SourceError: the server could not be queried.
    """
    whole = f"{quote(table.database)}.{quote(table.name)}"
    return tuple(
        part
        for part in partitions
        if rows_of(
            connection,
            f"SELECT 1 FROM {whole} PARTITION ({quote(_partition_name(part))}) LIMIT 1",  # noqa: S608
        )
    )


def read_fingerprints(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> Mapping[str, str]:
    """One text for each of these tables, which is another after every ALTER, TRUNCATE, exchange and
    rename that the server shows; without a look at any definition."""
    found = rows_of(connection, _MADE, (database,))
    made = {str(name): str(when) for name, when in found}
    numbers = read_numbers(connection, database, names)
    return {
        name: repr((made[name], sorted(numbers.get(name, {}).items())))
        for name in names
        if name in made
    }
