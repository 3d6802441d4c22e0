"""A contract of mode ``snapshot`` against what landed for it."""

from __future__ import annotations

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.landing.files.columns import LandedSchema
from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.table.lake_tables import deduped_of


def snapshot_table(contract: TableContract, schema: LandedSchema) -> SnapshotTable:
    """A contract of mode ``snapshot`` as the fold needs it, columns spelled as the schema does.

    Raises:
        ConfigError: its key or its day can't be what they are meant for.
    """
    settings = contract.snapshot
    if settings is None:
        raise ValueError(f"table {contract.name} is not kept by snapshots")
    spelled = {column.name.casefold(): column.name for column in schema.columns}
    missing = [name for name in contract.key if name.casefold() not in spelled]
    if missing:
        raise ConfigError(
            f"table {contract.name}: its key names {missing[0]!r}, which is never read",
            table=contract.name,
            next_step="Name another key, or take pci: never away",
        )
    return SnapshotTable(
        name=contract.name,
        identifier=deduped_of(contract),
        columns=schema.types(),
        key=tuple(spelled[name.casefold()] for name in contract.key),
        day=spelled[settings.day.casefold()] if settings.day else None,
        retention_days=settings.retention_days,
        missing=settings.missing,
        strategy=settings.strategy,
        duplicates=settings.duplicates,
        shrink_limit=contract.shrink_limit,
        uncompared=(spelled[settings.id_column.casefold()],) if settings.id_column else (),
        write_mode=contract.write_mode,
    )
