"""Which lake this is: the warehouse, the catalog and the ledger agree, or nothing is opened.

A file in the warehouse holds the lake's id and the catalog that it was made with. The ledger holds
the same id, the place of the warehouse, and the uuid of every table. Namespaces in the catalog hold
it as a property. So a changed
``lake.warehouse``, a copied folder, a lost or foreign catalog, and a second project on one ledger
are seen before anything is read or made.

What belongs here: the lake as a whole. What doesn't: single tables
(`mirrorlake.destinations.iceberg.commits.heads`).
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from shlex import quote

from pyiceberg.exceptions import NoSuchNamespaceError
from sqlalchemy.exc import SQLAlchemyError

from mirrorlake.config.configuration import Config
from mirrorlake.config.fields import hide_url
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.locations import LAKE, lakes_named, metadata_locations
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.storage.folders import warehouse_uri
from mirrorlake.destinations.iceberg.storage.listing import list_folder
from mirrorlake.destinations.iceberg.warehouse.lake_location import (
    FILE,
    LakeLook,
    check_place,
    ledger_file,
    lost_together,
    place_of,
    real_place,
    unfinished_lake,
)
from mirrorlake.destinations.iceberg.warehouse.lost_ledger import (
    refuse_lost_ledger,
    skip_met_numbers,
)
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.ledger.store import Ledger
from mirrorlake.runtime.permissions import held

logger = logging.getLogger(__name__)
_NAMED = "lake in its catalog"
"""The name of what the ledger keeps of the id that a REST server was given."""


@dataclass(frozen=True)
class LakeIdentity:
    """What a warehouse says of itself.

    Attributes:
        lake: its id.
        catalog: the address of the catalog that it was made with, without a password.
        unfinished: what was interrupted before the lake was whole: a restore, or a move; '' of
            nothing.
        restored: of which lake, and of which moment, the backup was that it came from; '' of none.
        ledger: the SQLite ledger's file by which it was written last; '' of a server, or where the
            lake is in a bucket.
    """

    lake: str
    catalog: str
    unfinished: str = ""
    restored: str = ""
    ledger: str = ""


def open_lake(
    contracts: Config, ledger: Ledger, *, looks_only: bool = False, lost_ledger: bool = False
) -> Lake:
    """The lake that a config names, which is the one that the ledger knows.

    Args:
        looks_only: what warehouse or ledger lacks is not written down.
        lost_ledger: whether a ledger may know nothing of tables that are filled: it is made again.

    Raises:
        LakeError: it can't be opened, or is another one; nothing was made.
        LedgerError: the ledger was lost.
    """
    config = contracts.lake
    look = check_place(config, ledger)
    with held(config.permissions):
        lake = Lake(config)
        check = None if lost_ledger else lambda: refuse_lost_ledger(contracts, ledger, lake)
        _agree(config, ledger, lake, look, check, looks_only=looks_only)
    if not (looks_only or lost_ledger):
        skip_met_numbers(contracts, ledger, lake, look)
    return lake


def _agree(
    config: LakeConfig,
    ledger: Ledger,
    lake: Lake,
    look: LakeLook,
    check: Callable[[], None] | None,
    *,
    looks_only: bool,
) -> None:
    """See that warehouse, catalog and ledger say the same lake; what one of them lacks is written
    down.

    Args:
        check: sees that a ledger which knows no lake was not lost.

    Raises:
        LakeError: they say two.
        LedgerError: (what checks) the ledger was lost.
    """
    known, here = ledger.lake(), place_of(config)
    said = read_identity(lake) if writes_itself(config) else None
    catalog = hide_url(lake.catalog_uri())
    _refuse_another(config, ledger, said, catalog)
    named = lakes_named(config)
    if lake_id := said.lake if said else known[0] if known else "":
        _refuse_other_catalog(lake, look, lake_id, named or {})
    if known is None and said is not None and (left := _left_folder(lake)):
        raise lost_together(config, ledger, left)
    if known is None and check is not None:
        check()
    if looks_only:
        return
    if known is None:
        lake_id = ledger.claim_lake(said.lake if said else uuid.uuid4().hex, here)
    else:
        lake_id = said.lake if said else known[0]
        if known != (lake_id, here):
            ledger.record_lake(lake_id, here)
    restored, file = said.restored if said else "", ledger_file(config, ledger)
    now = LakeIdentity(lake_id, catalog, restored=restored, ledger=file)
    if writes_itself(config) and said != now:
        _write(lake, now)
    lake.identity = lake_id
    _name_lake(ledger, lake, look, named)


def check_served_catalog(contracts: Config, ledger: Ledger) -> None:
    """See that a catalog is this lake's which must be asked for each of our namespaces; of a SQL
    database, opening the lake has seen it.

    Raises:
        LakeError: it is another lake's, or it failed.
    """
    known, config = ledger.lake(), contracts.lake
    if known is None or lakes_named(config) is not None:
        return
    look, named = check_place(config, ledger), dict[str, str]()
    lake = open_lake(contracts, ledger, looks_only=True)
    for space in _spaces(look):
        with lake.translated(space), suppress(NoSuchNamespaceError):
            if of := lake.catalog.load_namespace_properties((space,)).get(LAKE):
                named[space] = of
    _refuse_other_catalog(lake, look, known[0], named)


def _refuse_other_catalog(
    lake: Lake, look: LakeLook, lake_id: str, named: Mapping[str, str]
) -> None:
    """See that the catalog is this lake's, by what its namespaces say. Where it names a table as
    our last commit left it, it is: namespaces may be shared.

    Args:
        named: namespace → the lake that it says it is of.

    Raises:
        LakeError: it is another lake's.
    """
    spaces = _spaces(look)
    others = {of for space, of in named.items() if space in spaces or not spaces}
    if others and lake_id not in others and not _names_one_as_left(lake, look):
        raise LakeError(
            f"the catalog {hide_url(lake.catalog_uri())} is that of another lake: it says "
            f"{min(others)}, and the lake in {lake.warehouse} is {lake_id}",
            next_step="Set lake.catalog to this lake's own; if that was lost, to an empty one, and "
            "run `mirrorlake lake find`",
        )


def _names_one_as_left(lake: Lake, look: LakeLook) -> bool:
    """Whether the catalog names a table by the metadata file of our last commit."""
    if look.named is not None:
        return any(look.named.get(h.name) == h.metadata_location for h in look.heads)
    for head in look.heads:
        with suppress(LakeDamaged):
            table = lake.load(Identifier(*head.name))
            if table is not None and table.metadata_location == head.metadata_location:
                return True
    return False


def _name_lake(ledger: Ledger, lake: Lake, look: LakeLook, named: Mapping[str, str] | None) -> None:
    """Have a namespace of ours say which lake this is, where none does: one that an older release
    made, or that was made for another id. A catalog that can't, or may not, stays as it is; a REST
    server is asked once."""
    spaces, catalog = _spaces(look), lake.config.catalog
    if not spaces or lake.identity in {(named or {}).get(space) for space in spaces}:
        return
    if named is None and (catalog.auth is not None or not catalog.is_rest):
        return
    if catalog.is_rest and ledger.definition(_NAMED) == lake.identity:
        return
    try:
        with lake.translated(spaces[0]):
            lake.catalog.update_namespace_properties((spaces[0],), updates={LAKE: lake.identity})
    except (LakeError, NoSuchNamespaceError, SQLAlchemyError) as error:
        logger.info("the catalog does not say which lake this is: %s", error)
    if catalog.is_rest:
        ledger.record_definition(_NAMED, lake.identity)


def _spaces(look: LakeLook) -> list[str]:
    """Our namespaces, as far as the ledger knows tables in them."""
    return sorted({head.namespace for head in look.heads})


def _refuse_another(
    config: LakeConfig, ledger: Ledger, said: LakeIdentity | None, catalog: str
) -> None:
    known, here = ledger.lake(), place_of(config)
    if said is not None and said.unfinished:
        raise unfinished_lake(here, said.unfinished)
    if known is not None and said is not None and known[0] != said.lake and ledger.lake_heads():
        raise LakeError(
            f"the lake in {here} is another one than the ledger's: its {FILE} says {said.lake}, "
            f"the ledger {Ledger.shown_url(ledger.url)} {known[0]}",
            next_step="Another project's lake was put in its place, or this project uses another's "
            "ledger: put back the lake, or name this project's own ledger (ledger.url)",
        )
    if said is not None and said.catalog != catalog and not _knows_any(config, ledger):
        raise LakeError(
            f"the lake in {here} was made with the catalog {said.catalog}, and lake.catalog is "
            f"{catalog}, which has no table of it",
            next_step="Put lake.catalog back; or give this project a warehouse of its own "
            "(lake.warehouse): two catalogs over one folder remove each other's files",
        )
    if known is None and (elsewhere := _elsewhere(config, here)):
        raise LakeError(
            f"the catalog {catalog} names tables in {elsewhere}, and none in "
            f"lake.warehouse, {here}",
            next_step="It is the catalog of another lake, or a copy of one: a copied project would "
            "write into the original's files. If its ledger was copied too, `mirrorlake lake move "
            f"{quote(here)}` makes the copy a lake of its own; else `mirrorlake restore` one "
            "into a place of its own (lake.warehouse, lake.catalog, ledger.url)",
        )


def writes_itself(config: LakeConfig) -> bool:
    """Whether the warehouse is a place that we write ourselves, past the catalog: a REST server may
    lend a login for each table's folder alone."""
    local = warehouse_uri(config.warehouse).startswith("file://")
    return local or not config.catalog.is_rest or config.catalog.auth is not None


def _elsewhere(config: LakeConfig, here: str) -> str | None:
    """A table's folder that is not in the warehouse, where the catalog names none that is."""
    named = [real_place(at) for at in (metadata_locations(config) or {}).values()]
    if not named or any(at.startswith(f"{here}/") for at in named):
        return None
    return named[0].rpartition("/metadata/")[0]


def _left_folder(lake: Lake) -> str | None:
    """A table's metadata folder, where the catalog names no table at all; None where none is left.
    Listed once in a project's life: when its ledger does not know yet which lake it is of."""
    with lake.translated("catalog"):
        if _names_any(lake):
            return None
        io = open_storage(lake.catalog.properties, lake.warehouse)
        files = list_folder(io, lake.warehouse, "warehouse").files
        found = (f.path for f in files if f.path.endswith(".metadata.json"))
        return next((path.rpartition("/")[0] for path in found), None)


def _names_any(lake: Lake) -> bool:
    """Whether the catalog names any table."""
    with lake.translated("catalog"):
        catalog = lake.catalog
        return any(catalog.list_tables(space) for space in catalog.list_namespaces())


def _knows_any(config: LakeConfig, ledger: Ledger) -> bool:
    """Whether the catalog has any table."""
    named = metadata_locations(config)
    if named is None:
        return bool(ledger.lake_heads())  # each table is compared when it is leased
    return bool(named)


def read_identity(lake: Lake) -> LakeIdentity | None:
    """What the warehouse says of itself; None where it says nothing.

    Raises:
        LakeError: the storage failed, or the file is cut.
    """
    at = f"{lake.warehouse}/{FILE}"
    with lake.translated("warehouse"):
        try:
            io = open_storage(lake.catalog.properties, at)
            with io.new_input(at).open(seekable=False) as stream:
                return _parsed(stream.read(), at)
        except FileNotFoundError:
            return None


def identity_in(store: FileStore) -> LakeIdentity | None:
    """What a folder says of itself, whether it is the lake's now or not; None where nothing.

    Raises:
        LakeError: the file is cut.
        OSError: the storage failed.
    """
    try:
        return _parsed(store.read(FILE), f"{store.root}/{FILE}")
    except FileNotFoundError:
        return None


def write_identity(store: FileStore, identity: LakeIdentity) -> None:
    """Let a folder say which lake it is."""
    store.write(FILE, _text(identity))


def _parsed(content: bytes, at: str) -> LakeIdentity:
    try:
        said = json.loads(content)
        rest = {name: str(said.get(name, "")) for name in ("unfinished", "restored", "ledger")}
        return LakeIdentity(str(said["lake"]), str(said["catalog"]), **rest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeError(
            f"{at} does not say which lake this is",
            next_step="Remove it: the next run writes it again, as the ledger knows the lake",
        ) from error


def _text(identity: LakeIdentity) -> bytes:
    always = ("lake", "catalog")
    told = {name: said for name, said in asdict(identity).items() if said or name in always}
    return json.dumps(told).encode()


def _write(lake: Lake, identity: LakeIdentity) -> None:
    at = f"{lake.warehouse}/{FILE}"
    with lake.translated("warehouse"):
        io = open_storage(lake.catalog.properties, at)
        with io.new_output(at).create(overwrite=True) as stream:
            stream.write(_text(identity))
