"""One column of a table, as its server describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column, in the server's own words."""

    name: str
    ordinal: int
    data_type: str
    column_type: str
    nullable: bool
    charset: str | None
    collation: str | None
    precision: int | None
    scale: int | None
    length: int | None
    fraction: int | None
    extra: str
    comment: str
    generated: str = ""
    """The expression of a generated column."""

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.column_type.lower()

    @property
    def padded(self) -> bool:
        """Whether the server prints it with leading zeros (ZEROFILL)."""
        return "zerofill" in self.column_type.lower()
