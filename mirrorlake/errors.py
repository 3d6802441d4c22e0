"""Every error that Mirrorlake raises, in one tree.

::

    MirrorlakeError
    ├── ConfigError        the contract file, a flag or an environment variable is wrong
    │   └── ModelError     a model can't be read, says what can't be, or its code failed
    ├── MachineError       a piece of the machine is missing or broken (Java, a jar, a port)
    ├── SourceError        MySQL can't be reached, refuses us, or answers what we can't use
    │   ├── SourceHeld     a person asked us to leave the source alone for now
    │   ├── SourceBusy     the source has more to do than its contract lets us add to
    │   ├── TableLocked    another session holds a table's lock for longer than we wait
    │   ├── TooFewRows     MySQL has far fewer rows of a table than the mirror: a person decides
    │   ├── LandingError   what landed is missing, changed, malformed or not to be read
    │   │   └── LandingClosed  the landing may not be read: nothing is said of what is in it
    │   ├── LogUnreadable  bytes of the binary log that can't be what they should be
    │   ├── LogPurged      the server has no longer, or never had, a position of the binary log
    │   └── ReadGivenUp    a read of ours stood in somebody's way, and was ended
    ├── SchemaError        a source table is not what its contract, or the lake, says it is
    │   ├── SchemaMoved    columns came or became wider since the load: loading it again helps
    │   ├── TypeRefused    a column's type can't be kept exactly
    │   └── DdlRefused     a statement that was only to be looked at can't be read
    ├── LakeError          the catalog, a lake table or a file in it
    │   ├── SnapshotRefused a full copy that landed can't become part of its table
    │   ├── CommitConflict another writer moved the table between our plan and our commit
    │   ├── CatalogFailed  the catalog's server failed, or can't be reached
    │   │   └── CommitUnknown  nobody said whether a commit was made
    │   ├── RowsMiscounted a table without a key would have fewer rows than none
    │   ├── ReaderMissing  an engine that was to read a table is not installed here
    │   ├── BigQueryError  BigQuery or its bucket refused, failed, or can't be reached
    │   ├── RecordsError   a destination of records refused or failed, or raw lacks what they say
    │   └── LakeDamaged    a file that a lake table names is not there, or is cut
    ├── LedgerError        the ledger's database
    │   ├── LedgerLost     its connection was lost in a transaction, and nothing of that was applied
    │   └── LeaseHeld      another run holds the table
    ├── ProofError         a proof could not be made (a *difference* is a value, never an exception)
    │   └── NotProved      a load that is to be proved first is not what MySQL said: not published
    └── ExpectationFailed  rows of a model are not as its header expects: not published

Each carries what it is about (``table``, ``column``, ``window``, ``source``) where that is known,
one next step for the person who reads it, and ``retryable``: whether the same call may succeed
later with nothing changed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self


class MirrorlakeError(Exception):
    """The common base: ``str(error)`` is one line that names the thing, the place and the next
    step."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        next_step: str = "",
        table: str | None = None,
        column: str | None = None,
        window: str | None = None,
        source: str | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.table = table
        self.column = column
        self.window = window
        self.source = source
        self.retryable = retryable

    def located(self, place: str | None) -> Self:
        """This error with the place in the contract file before its words: ``file:line:column``."""
        if place is not None and not self.message.startswith(place):
            self.message = f"{place}: {self.message}"
        return self

    def __str__(self) -> str:
        if not self.next_step:
            return self.message
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{stop} {self.next_step}"


class ConfigError(MirrorlakeError):
    """The contract file, a flag or an environment variable is wrong."""

    exit_code = 2


class ModelError(ConfigError):
    """A model can't be read, says what can't be, or its code failed.

    Attributes:
        line, col: where in its file, from 1; None where that is not known.
        in_header: whether that is a line of the file; else it is one of the query in it.
    """

    def __init__(
        self,
        message: str,
        *,
        place: tuple[int, int] | None = None,
        next_step: str = "",
        in_header: bool = False,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.line, self.col = place or (None, None)
        self.in_header = in_header

    @classmethod
    def joined(cls, problems: Sequence[ModelError]) -> ModelError:
        """Several as one, each on a line of its own, with its next step."""
        if len(problems) == 1:
            return cls(problems[0].message, next_step=problems[0].next_step)
        return cls("\n".join(map(str, problems)))


class MachineError(MirrorlakeError):
    """A piece of the machine is missing or broken: Java, a jar, a server, a port."""

    exit_code = 3


class SourceError(MirrorlakeError):
    """MySQL can't be reached, refuses us, or answered something we can't use."""

    exit_code = 4


class SourceHeld(SourceError):
    """A person asked us to leave the source alone for now; what it changes meanwhile is read
    afterwards."""


class SourceBusy(SourceError):
    """The source did not come to rest while we waited; it was left alone."""


class TableLocked(SourceError):
    """Another session holds a table's lock for longer than we wait; other tables can be read."""


class TooFewRows(SourceError):
    """MySQL has so few rows of a table that a person has to say whether it should; the mirror stays
    as it was."""


class ReadGivenUp(SourceError):
    """A read was ended because a change of its table waited for it, or old row versions piled
    up."""


class LogUnreadable(SourceError):
    """Bytes of the binary log that are cut, changed or of an unknown format. Nothing of the event
    was taken."""


class LogPurged(SourceError):
    """The server does not have a position of its binary log: it was purged, or is of another
    server. What changed since can't be known from the log."""


class LandingError(SourceError):
    """What landed in a folder or bucket is missing, was changed, is malformed or may not be
    read."""


class LandingClosed(LandingError):
    """Whoever runs Mirrorlake may not read the landing, or a file in it. That says nothing of the
    snapshot."""


class SchemaError(MirrorlakeError):
    """A source table is not what its contract, or the lake, says it is."""

    exit_code = 5


class SchemaMoved(SchemaError):
    """Columns came to a source table, or became wider, since it was loaded. Nothing was folded; the
    next load takes them up."""


class TypeRefused(SchemaError):
    """A column's type can't be kept exactly; nothing of its table was read."""


class DdlRefused(SchemaError):
    """A DDL statement that can't be read, or that no server would run; nothing was touched.

    Attributes:
        file: the migration's; None: it is not from a file.
        line, col: where in the migration, from 1; None where that is not known.
    """

    file: str | None = None
    line: int | None = None
    col: int | None = None

    def at(self, line: int, col: int | None = None) -> Self:
        """This error with its place in the migration before its words."""
        self.line, self.col = line, col
        place = f"line {line}" + ("" if col is None else f", column {col}")
        self.message = f"{place}: {self.message}"
        return self

    def in_file(self, file: str | None) -> Self:
        """This error with the migration's file before its words."""
        if file is None or self.line is None:
            return self
        self.file = file
        _, _, words = self.message.partition(": ")
        col = "" if self.col is None else f":{self.col}"
        self.message = f"{file}:{self.line}{col}: {words}"
        return self


class LakeError(MirrorlakeError):
    """The catalog, a lake table or a file in it."""

    exit_code = 6


class SnapshotRefused(LakeError):
    """A full copy that landed can't become part of its table: a key twice, far too few rows,
    another content under its number. The published table is as it was, and newer copies may be
    taken."""


class CommitConflict(LakeError):
    """Another writer moved the table between our plan and our commit; nothing of ours is
    visible."""


class CatalogFailed(LakeError):
    """The catalog's server failed, or can't be reached: what was requested may have been done."""


class CommitUnknown(CatalogFailed):
    """The catalog did not say whether a commit was made, and it is not to be seen (yet): files
    that it names must stay, and the next run looks again."""


class ReaderMissing(LakeError):
    """An engine is not installed here, or a part of it, or not configured: it was not queried."""


class BigQueryError(LakeError):
    """BigQuery or its bucket refused, failed or can't be reached. What was there before is as it
    was, and so is the lake."""


class RecordsError(LakeError):
    """Records of a table could not be published. What a destination has is as it was, or is
    published again under the same ids; nothing was left out."""


class RowsMiscounted(LakeError):
    """Rows of a table without a key can't be counted by its log: it is read again as a whole.
    Nothing of it was shown."""


class LakeDamaged(LakeError):
    """A file that a lake table names is not there, is cut, or is no longer what it was; ``reason``
    is what is wrong with it."""

    def __init__(
        self, message: str, *, reason: str = "", next_step: str = "", table: str | None = None
    ) -> None:
        super().__init__(message, next_step=next_step, table=table)
        self.reason = reason


class LedgerError(MirrorlakeError):
    """The ledger's database can't be read or written, or says something impossible."""

    exit_code = 7


class LedgerLost(LedgerError):
    """The connection was lost in a transaction, of which nothing was committed."""


class LeaseHeld(LedgerError):
    """Another run holds the table's lease."""


class ProofError(MirrorlakeError):
    """A proof could not be made. A difference is a verdict, not an exception."""

    exit_code = 8


class NotProved(ProofError):
    """A load that is to be proved before it is visible has other rows than MySQL said.

    ``branch`` holds it; ``differences`` are the first of its rows that differ from MySQL as it was
    a moment later, one a line. They hold values: not for logs.
    """

    def __init__(
        self,
        message: str,
        *,
        next_step: str = "",
        table: str | None = None,
        branch: str = "",
        differences: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, next_step=next_step, table=table)
        self.branch = branch
        self.differences = differences


class ExpectationFailed(MirrorlakeError):
    """Partitions of a model whose rows are not as its header expects: they were not published, and
    readers see the rows of before.

    Attributes:
        keys: the names of these partitions.
        run: what the run computed all the same (`mirrorlake.models.compute.model_run.ModelRun`).
    """

    exit_code = 9
    run: Any = None

    def __init__(
        self,
        message: str,
        *,
        keys: tuple[str, ...] = (),
        next_step: str = "",
        table: str | None = None,
    ) -> None:
        super().__init__(message, next_step=next_step, table=table)
        self.keys = keys
