"""Every asset key, group and tag of a table: the one place where they are made."""

import re

import dagster as dg

from mirrorlake.config import TableContract

LAYERS = ("raw", "deduped", "clean")
SOURCE_TAG = "mirrorlake/source"
MODE_TAG = "mirrorlake/mode"
LOAD_TAG = "mirrorlake/load"
"""Of a run: ``live`` loads what is new, whatever day was requested; ``daily`` loads the requested
day again and then what is new. Without it, past days are loaded again and the open day is live."""
ACCEPT_TAG = "mirrorlake/accept-smaller"
"""Of a run, ``true``: full copies are taken that are far smaller than the last ones."""


def asset_key(layer: str, contract: TableContract) -> dg.AssetKey:
    """``<layer>/<source>/<database>/<table>``, every part as MySQL spells it."""
    return dg.AssetKey([layer, contract.source, contract.database, contract.table])


def source_key(contract: TableContract) -> dg.AssetKey:
    """The source table itself."""
    return asset_key("mysql", contract)


GROUP = "mirrorlake"
"""The group of the assets that are no table's."""


def cleanup_key(source: str) -> dg.AssetKey:
    """``cleanup/<source>``."""
    return dg.AssetKey(["cleanup", source])


def group_of(contract: TableContract) -> str:
    """One group per database; Dagster takes letters, digits and ``_`` only."""
    return _plain(f"{contract.source}_{contract.database}")


def pool_of(source: str) -> str:
    """The pool whose slots limit how many steps read from a source at once."""
    return f"mysql_{_plain(source)}"


def tags_of(contract: TableContract) -> dict[str, str]:
    """What runs and assets of a table can be found by."""
    return {SOURCE_TAG: _plain(contract.source), MODE_TAG: contract.mode}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
