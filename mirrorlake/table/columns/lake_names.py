"""Which column of MySQL a name in the lake stands for, and stood for (``name_in_lake``).

Under one name the lake has the values of one column. What a name stood for is kept in the ledger
for as long as the table's past, as a raw table holds rows by the lake's names alone.
"""

from __future__ import annotations

import json

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import SchemaError
from mirrorlake.ledger import Ledger
from mirrorlake.schema.reserved_names import UNREADABLE
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.shape import read_already


def _key(contract: TableContract) -> str:
    return f"lake names {contract.namespaces.raw}.{contract.table}"


def _now(contract: TableContract) -> dict[str, str]:
    return {now.lower(): before.lower() for before, now in contract.lake_names.items()}


def stood_for(ledger: Ledger, contract: TableContract) -> dict[str, str]:
    """Names of the lake that differ from MySQL's, also those of earlier contracts → MySQL's, as far
    as a load kept them; in lower case."""
    text = ledger.definition(_key(contract))
    return json.loads(text) if text else {}


def remember_lake_names(ledger: Ledger, contract: TableContract) -> None:
    """Keep what the lake's names stand for. The caller holds the table's lease."""
    known = stood_for(ledger, contract)
    both = known | _now(contract)
    if both != known:
        ledger.record_definition(_key(contract), json.dumps(both, sort_keys=True))


def refuse_other_names(ledger: Ledger, contract: TableContract, table: SourceTable) -> None:
    """See that no name in the lake stands for another column of MySQL than it did, and that a
    column that changed its name there says what it was called.

    Args:
        table: its columns called as in the lake.

    Raises:
        SchemaError: one does, or doesn't.
    """
    known = stood_for(ledger, contract)
    if not known and not contract.lake_names:
        return
    versions = ledger.schema_versions(contract.name)
    if not versions:
        return
    ever = {name.lower() for one in versions for name, _ in one.columns if name not in UNREADABLE}
    for column in table.columns:
        name, source = column.name.lower(), column.in_mysql.lower()
        held = known.get(name, name if name in ever else source)
        if held != source:
            raise SchemaError(
                f"table {contract.name}: {column.name} has the values of MySQL's {held} in the"
                f" lake, and would have those of {source}",
                table=contract.name,
                column=column.name,
                next_step=f"Choose another name_in_lake for {source}; where MySQL renamed "
                f"{held} to it, write `renamed_from: {name}` beside that",
            )
        called = {now for now, before in known.items() if before == source}
        called |= {source} & ever - known.keys()
        said = {name, *contract.earlier_names.get(name, ())}
        unsaid = sorted(called - said)
        if unsaid and name in {one.lower() for one in contract.excluded}:
            raise read_already(contract, [f"{source} ({unsaid[0]} in the lake)"])
        if unsaid:
            raise SchemaError(
                f"table {contract.name}: MySQL's {source} is {unsaid[0]} in the lake so far, and "
                f"{column.name} by the contract now",
                table=contract.name,
                column=column.name,
                next_step=f"Write `renamed_from: {unsaid[0]}` beside its name_in_lake, or give it "
                "its name back",
            )
