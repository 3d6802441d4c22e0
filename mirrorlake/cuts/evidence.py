"""What a cut's proof left: of each version that was compared, its rows and their digest, and how
these were made, so that the version can be digested again without MySQL.

What belongs here: the evidence in the ledger. What doesn't: digesting (`mirrorlake.cuts.digests`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA

CUT_EVIDENCE = sa.Table(
    "cut_evidence",
    METADATA,
    sa.Column("cut", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("layer", sa.String(16), primary_key=True),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("form", sa.String(64), nullable=False),
)
CUT_FORMS = sa.Table(
    "cut_forms",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("form", sa.Text, nullable=False),
)


@dataclass(frozen=True)
class CutEvidence:
    """Of one version of a lake table.

    Attributes:
        rows: that were digested.
        digest: the sum of their digests.
        form: how a row was written, as `mirrorlake.cuts.digests` reads it.
    """

    rows: int
    digest: int
    form: str


@waits_for_server
class EvidenceOfCuts:
    """The evidence of the cuts in one ledger; it goes with them."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def keep(self, cut: str, table: str, layer: str, found: CutEvidence) -> None:
        """Write down the evidence of a version; what was kept of it before is replaced."""
        name = hashlib.sha256(found.form.encode()).hexdigest()
        row = {"cut": cut, "table_name": table, "layer": layer, "row_count": found.rows}
        mine = sa.and_(CUT_EVIDENCE.c.cut == cut, CUT_EVIDENCE.c.table_name == table)
        with self._database.begin() as connection:
            connection.execute(CUT_EVIDENCE.delete().where(mine, CUT_EVIDENCE.c.layer == layer))
            of_table = CUT_FORMS.c.table_name == table
            known = sa.select(CUT_FORMS.c.name).where(of_table, CUT_FORMS.c.name == name)
            if connection.scalar(known) is None:
                form = {"table_name": table, "name": name, "form": found.form}
                connection.execute(CUT_FORMS.insert().values(form))
            values = row | {"digest": str(found.digest), "form": name}
            connection.execute(CUT_EVIDENCE.insert().values(values))

    def of(self, cut: str) -> Mapping[tuple[str, str], CutEvidence]:
        """What is kept of a cut, by table and layer."""
        query = (
            sa.select(CUT_EVIDENCE, CUT_FORMS.c.form.label("text"))
            .join(
                CUT_FORMS,
                sa.and_(
                    CUT_FORMS.c.table_name == CUT_EVIDENCE.c.table_name,
                    CUT_FORMS.c.name == CUT_EVIDENCE.c.form,
                ),
            )
            .where(CUT_EVIDENCE.c.cut == cut)
        )
        with self._database.read() as connection:
            return {
                (row.table_name, row.layer): CutEvidence(row.row_count, int(row.digest), row.text)
                for row in connection.execute(query)
            }


def forget_evidence(connection: sa.Connection, cut: str, table: str | None = None) -> None:
    """Forget what was kept of a cut, or of a table of it, and forms that nothing has any more."""
    mine = CUT_EVIDENCE.c.cut == cut
    if table is not None:
        mine = sa.and_(mine, CUT_EVIDENCE.c.table_name == table)
    connection.execute(CUT_EVIDENCE.delete().where(mine))
    used = sa.exists().where(
        CUT_EVIDENCE.c.table_name == CUT_FORMS.c.table_name,
        CUT_EVIDENCE.c.form == CUT_FORMS.c.name,
    )
    connection.execute(CUT_FORMS.delete().where(~used))
