"""A row's form and digest, as SQL of both sides, and what a group of rows amounts to.

The digest of a row is the first 64 bits of the SHA-256 of its form; that of a group is the sum of
its rows' digests, a whole number that no order changes. Beside it stands the number of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import ProofError
from mirrorlake.proof.forms.canonical import ORIGINALS, SHORT, Form, form_of
from mirrorlake.proof.forms.hashing import lake_hash, source_hash
from mirrorlake.sources.mysql.tables import Column

Key = tuple[str, ...]
"""The forms of a key's cells; without a key, the row's digest alone."""
RowDigest = tuple[Key, int]
"""A row's key and digest; without a key, the digest alone in both."""
# Commas, lengths, and forms other than texts, each at its longest.
_PER_CELL = 90


@dataclass(frozen=True)
class Row:
    """One row, as either side has it: its key, its cells' forms, and its values for people.

    ``settled``: in MySQL, whether it is old enough to be compared. ``strays``: in the lake, '!'
    where it keeps originals that no column accounts for.
    """

    key: Key
    cells: tuple[str, ...]
    shown: tuple[str | None, ...]
    settled: bool = True
    strays: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        return (*self.cells, self.strays)


@dataclass(frozen=True)
class RowForm:
    """The forms of a table's compared columns, in the server's order.

    ``originals``: the lake's table keeps original texts.
    """

    cells: tuple[Form, ...]
    originals: bool

    @cached_property
    def source(self) -> str:
        """MySQL's SQL of a row's form."""
        return f"CONCAT({_joined([cell.source for cell in self.cells])})"

    @cached_property
    def lake(self) -> str:
        """Spark's SQL of a row's form; originals that no column accounts for change it."""
        parts = _joined([cell.lake for cell in self.cells])
        return f"concat({parts},{self.strays})"

    @property
    def strays(self) -> str:
        """Spark's SQL of '', or of ``!`` where a row keeps originals of other columns, or two of
        one."""
        if not self.originals:
            return "''"
        kept = as_sql_identifier(ORIGINALS)
        names = ",".join(_literal_of(cell) for cell in self.cells if cell.original)
        known = (
            f"size(array_distinct(filter(transform({kept}, x -> x.column),"
            f" x -> array_contains(array({names}), x))))"
            if names
            else "0"
        )
        return (
            f"CASE WHEN coalesce(array_size({kept}),0) = 0 THEN ''"
            f" WHEN array_size({kept}) = {known} THEN '' ELSE '!' END"
        )

    @property
    def source_digest(self) -> str:
        return source_number(self.source, 16)

    @cached_property
    def fingerprint(self) -> str:
        """A short name of MySQL's SQL of a row's digest: another one gives other digests."""
        return hashlib.sha256(self.source_digest.encode()).hexdigest()[:32]

    @property
    def lake_digest(self) -> str:
        """Spark's SQL of the digest as a BIGINT, which is below zero from 2^63 on: a decimal of 20
        digits costs as much as all that comes before it."""
        return lake_number(self.lake, 16)

    @property
    def lake_digest_text(self) -> str:
        """Spark's SQL of the digest as MySQL prints it."""
        return f"conv({_hashed(self.lake, 16)},16,10)"


def _literal_of(cell: Form) -> str:
    from mirrorlake.proof.forms.canonical import lake_literal

    return lake_literal(cell.name)


def source_number(form: str, digits: int) -> str:
    """MySQL's SQL of the first hexadecimal digits of a form's hash, as a number."""
    return f"CAST(CONV(LEFT({source_hash(form)},{digits}),16,10) AS UNSIGNED)"


def lake_number(form: str, digits: int) -> str:
    """Spark's SQL of the same number as a BIGINT; of 16 digits, less 2^64 where it is too large."""
    return f"CAST(conv({_hashed(form, digits)},16,-10) AS BIGINT)"


def _hashed(form: str, digits: int) -> str:
    return f"substr({lake_hash(f'CAST({form} AS BINARY)')},1,{digits})"


def lake_sum(digest: str) -> str:
    """Spark's SQL of the sum of `lake_number`, of 16 digits, without a sign: halves of a digest are
    added up apart, of fewer than 2^31 rows."""
    high, low = f"sum(shiftrightunsigned({digest},32))", f"sum({digest} & 4294967295L)"
    high, low = f"CAST({high} AS DECIMAL(20,0))", f"CAST({low} AS DECIMAL(20,0))"
    return f"{high} * CAST(4294967296 AS DECIMAL(10,0)) + {low}"


def _joined(forms: Sequence[str]) -> str:
    return ",',',".join(forms)


def row_form(columns: Sequence[Column], originals: bool, packet: int) -> RowForm:
    """The form of a table's rows.

    Args:
        packet: the server's ``max_allowed_packet``: what a text may be as long as in its functions.

    Raises:
        TypeRefused: a column has no form.
        ProofError: the server's packets are too small to write a row's form at all.
    """
    for short in (SHORT, 0):
        if _longest(columns, short) <= packet:
            return RowForm(tuple(form_of(c, originals, short) for c in columns), originals)
    raise ProofError(
        f"the server's max_allowed_packet ({packet}) is too small for {len(columns)} columns",
        next_step="Raise max_allowed_packet in the server",
    )


def _longest(columns: Sequence[Column], short: int) -> int:
    lengths = (column.length or 0 for column in columns)
    return sum(_PER_CELL + (8 * length if length <= short else 0) for length in lengths)
