"""The lake has another place: its files are copied there and written for it, then the ledger and
the catalog name it. A folder that was moved or copied by hand already is written where it is.

The old place is untouched. Until the ledger names the new one, the lake is where it was; from then
on the new one alone is opened, once it is whole. Every step is done again by the next call.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from mirrorlake.backups.project_parts import (
    OnStep,
    refuse_lent,
    refuse_nested,
    spellings,
    table_names,
)
from mirrorlake.config import Config
from mirrorlake.config.fields import hide_url
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.entries import (
    CatalogEntry,
    is_server,
    name_elsewhere,
    read_entries,
    refuse_unreadable,
    write_entries,
)
from mirrorlake.destinations.iceberg.commits.removed_files import is_set_aside
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.warehouse.identity import (
    LakeIdentity,
    identity_in,
    write_identity,
)
from mirrorlake.destinations.iceberg.warehouse.lake_location import FILE as IDENTITY
from mirrorlake.destinations.iceberg.warehouse.lake_location import (
    original_ledger,
    place_of,
    real_place,
    refuse_unfinished,
    unfinished_lake,
)
from mirrorlake.destinations.iceberg.warehouse.lake_paths import LakePaths, Places
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.operations.repairing.find_tables import lake_namespaces

_CATALOG = "catalog.db"


@dataclass(frozen=True)
class LakeMove:
    """A move that was planned.

    Attributes:
        done: ``true`` with ``--yes``; ``false`` of a plan.
        old, new: the places; copied: whether files are copied, or are there already.
        lake: the lake's id at the new place; another one where the old lake goes on by itself.
        tables: lake tables and views; files, bytes: that are copied; linked: how many of them
            are links, both places being on one disk.
    """

    old: str
    new: str
    copied: bool
    lake: str
    tables: int
    files: int
    bytes: int
    linked: int = 0
    done: bool = False


@dataclass(frozen=True)
class _Plan:
    """What a move works with.

    Attributes:
        here: the lake as it is opened to read its catalog; there: as it is afterwards.
        old: the old place's spellings.
        catalog: what the new place says of its catalog until it is whole: '' where it is copied.
    """

    move: LakeMove
    catalog: str
    here: LakeConfig
    there: LakeConfig
    old: tuple[str, ...]
    entries: tuple[CatalogEntry, ...]
    reached: tuple[str, ...]
    beside: tuple[str, ...]


def plan_move(config: Config, new: str) -> LakeMove:
    """What a move to ``new`` would do. Nothing is written.

    Raises:
        ConfigError: one place is in the other.
        LakeError: there is no lake of this ledger to move, or the new place has something else.
        LedgerError: the ledger knows no lake.
        LeaseHeld: a run writes to it.
    """
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    ledger.refuse_leases()
    return _plan(config, ledger, new).move


def move_lake(config: Config, new: str, on_progress: OnStep | None = None) -> LakeMove:
    """Move the lake; see `plan_move`. The contract file's ``lake.warehouse`` is the user's to set.

    Raises:
        LakeDamaged: a file of the lake is not there, or cut. The lake is where it was.
    """
    tell = on_progress or (lambda *_: None)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    with ledger.lease_all(table_names(config), uuid.uuid4().hex[:12]):
        plan = _plan(config, ledger, new)
        old_files, new_files = FileStore(plan.here), FileStore(plan.there)
        words = _words(plan.there)
        said = identity_in(new_files) or identity_in(old_files)
        restored = said.restored if said is not None else ""
        write_identity(new_files, LakeIdentity(plan.move.lake, plan.catalog, words, restored))
        failpoint("move.begun")
        linked = _copy(plan, old_files, new_files, tell) if plan.move.copied else 0
        failpoint("move.copied")
        places = Places.of(plan.old, new_files.root)
        paths = LakePaths(new_files, places)
        for number, entry in enumerate(plan.entries):
            paths.rewrite(entry)
            tell("paths", number + 1, len(plan.entries))
        failpoint("move.rewritten")
        # First the ledger: from now on nothing opens the old place, or the new one before it is
        # whole. A catalog that both places share would else name one lake, and the ledger another.
        renewed = plan.move.lake != (ledger.lake() or ("",))[0]
        ledger.move_lake(plan.move.lake, place_of(plan.there), places.moved)
        if renewed:
            ledger.renew_identity()
        failpoint("move.ledger")
        lake = Lake(plan.there)
        write_entries(lake, name_elsewhere(plan.entries, places.moved))
        failpoint("move.catalog")
        catalog = hide_url(lake.catalog_uri())
        write_identity(new_files, LakeIdentity(plan.move.lake, catalog, restored=restored))
    return replace(plan.move, linked=linked, done=True)


def _plan(config: Config, ledger: Ledger, new: str) -> _Plan:
    refuse_lent(config.lake, "a move")
    known = ledger.lake()
    if known is None:
        raise LedgerError(
            f"the ledger {Ledger.shown_url(ledger.url)} knows no lake that could be moved",
            next_step="Name the lake's own ledger (ledger.url); a lost one comes from a backup",
        )
    here = config.lake
    there = config.lake.model_copy(update={"warehouse": _absolute(new)})
    said = identity_in(FileStore(there))
    resumed = said is not None and said.unfinished == _words(there)
    if place_of(there) == known[1] and not resumed:
        raise LakeError(
            f"the lake is in {known[1]} already",
            next_step=f"Set lake.warehouse to {new}"
            if place_of(here) != known[1]
            else "Name another place",
        )
    by_hand = said is not None and said.lake == known[0] and not said.unfinished
    if said is not None and (by_hand or (resumed and said.catalog)):
        return _plan_by_hand(config, ledger, known, there, said)
    return _plan_copy(config, ledger, known, there, said if resumed else None)


def _plan_copy(
    config: Config,
    ledger: Ledger,
    known: tuple[str, str],
    there: LakeConfig,
    resumed: LakeIdentity | None,
) -> _Plan:
    """The lake is where the contract file says, and is copied."""
    here = config.lake
    old_files, new_files = FileStore(here), FileStore(there)
    _refuse_unmovable(here, there, known[1], old_files, new_files, resumed=resumed is not None)
    lake = Lake(here)
    refuse_unreadable(lake, "a move")
    named = read_entries(lake, lake_namespaces(config, ledger))
    own = [one for one in spellings(known[1], named) if real_place(one) == place_of(here)]
    roots = tuple(dict.fromkeys((known[1], place_of(here), lake.warehouse, *own)))
    places = Places.of(roots, new_files.root)
    entries = _ours(named, places)
    reached = _reached(old_files, places, entries)
    listed = old_files.list()
    needed = set(reached)
    beside = [name for name in listed if name not in needed and _goes_along(name)]
    size = sum(listed[name].bytes for name in (*reached, *beside) if name in listed)
    # Where the ledger is a copy, the original project keeps using the lake unchanged.
    lake_id = uuid.uuid4().hex if original_ledger(here, ledger) else known[0]
    move = LakeMove(
        *(place_of(here), place_of(there), True, resumed.lake if resumed else lake_id),
        *(len(entries), len(reached) + len(beside), size),
        linked=len(reached) if new_files.is_on_disk_of(old_files) else 0,
    )
    return _Plan(move, "", here, there, roots, tuple(entries), tuple(reached), tuple(beside))


def _refuse_unmovable(
    here: LakeConfig,
    there: LakeConfig,
    known: str,
    old_files: FileStore,
    new_files: FileStore,
    *,
    resumed: bool,
) -> None:
    """See that a whole lake is where the contract file says, and that its copy has a place.

    Raises:
        LakeError: it is not, or there is none.
    """
    if resumed and place_of(here) == place_of(there):
        raise LakeError(
            f"the move to {place_of(there)} was interrupted, and lake.warehouse says that place "
            "already",
            next_step="Set lake.warehouse back to where the lake was, run it again, then set the "
            "new place",
        )
    refuse_nested(old_files, new_files, "a move")
    if place_of(here) != known and not resumed:
        refuse_unfinished(here.model_copy(update={"warehouse": known}))
        raise LakeError(
            f"the lake of this ledger is in {known}, and lake.warehouse is {place_of(here)}",
            next_step="Put the setting back; or, if the folder was moved, name where it is: "
            "`mirrorlake lake move FOLDER`",
        )
    whole = identity_in(old_files)
    if whole is not None and whole.unfinished:
        raise unfinished_lake(place_of(here), whole.unfinished)
    if whole is None:
        raise LakeError(
            f"there is no lake in {old_files.root}",
            next_step="If its folder was moved, name where it is: `mirrorlake lake move FOLDER`; "
            "else put it back from a backup: `mirrorlake restore`",
        )
    if not resumed and (some := next(iter(new_files.list()), None)):
        raise LakeError(
            f"{new_files.root} is not empty: it has {some}",
            next_step="Name an empty place; nothing was changed",
        )


def _plan_by_hand(
    config: Config,
    ledger: Ledger,
    known: tuple[str, str],
    there: LakeConfig,
    said: LakeIdentity,
) -> _Plan:
    """The lake's files are at the new place already: what was moved keeps the lake's id, what was
    copied has its own."""
    lake = Lake(there)
    refuse_unreadable(lake, "a move")
    if is_server(lake):
        raise LakeError(
            f"the catalog {hide_url(lake.catalog_uri())} is a REST server, which reads a table's "
            f"metadata where it was: it can't name tables whose files are in {there.warehouse} now",
            next_step=f"Put the folder back to {known[1]}, then `mirrorlake lake move` with the "
            "place where it should be: it copies the files; nothing was changed",
        )
    original = _original(config.lake, known, there)
    catalog = hide_url(lake.catalog_uri())
    if original is not None and original.catalog == catalog:
        raise LakeError(
            f"the catalog {catalog} is also that of the lake in {known[1]}, which is still there",
            next_step="Give the copy a catalog of its own (lake.catalog), and a ledger of its own "
            "(ledger.url), and `mirrorlake restore` a backup into them; or remove the old folder, "
            "if this one takes its place",
        )
    files = FileStore(there)
    named = read_entries(lake, ())
    heads = {head.name for head in ledger.lake_heads()}
    # A catalog may name tables of others, which have the same layout elsewhere.
    old = spellings(known[1], [e for e in named if not heads or (e.namespace, e.name) in heads])
    places = Places.of(old, files.root)
    entries = _ours(named, places)
    lake_id = said.lake if said.unfinished or original is None else uuid.uuid4().hex
    reached = _reached(files, places, entries)
    move = LakeMove(known[1], place_of(there), False, lake_id, len(entries), 0, 0)
    return _Plan(move, said.catalog, there, there, old, tuple(entries), tuple(reached), ())


def _original(config: LakeConfig, known: tuple[str, str], there: LakeConfig) -> LakeIdentity | None:
    """The lake at the ledger's place, where another folder holds a copy of it; None where it is
    gone, or the folder itself by another name."""
    if real_place(known[1]) == place_of(there):
        return None
    try:
        found = identity_in(FileStore(config, known[1]))
    except (OSError, LakeError):
        return None
    return found if found is not None and found.lake == known[0] else None


def _ours(entries: list[CatalogEntry], places: Places) -> list[CatalogEntry]:
    return [entry for entry in entries if places.relative(entry.metadata) is not None]


def _reached(files: FileStore, places: Places, entries: list[CatalogEntry]) -> list[str]:
    try:
        return list(LakePaths(files, places).reached(entries))
    except FileNotFoundError as error:
        raise LakeError(
            f"the lake in {files.root} is not whole: {error.filename or error} is not there",
            next_step="`mirrorlake check` and `mirrorlake refold` say and put right what they can; "
            "else put the lake back from a backup: `mirrorlake restore`",
        ) from error


def _goes_along(name: str) -> bool:
    base = name.rpartition("/")[2]
    if "/" not in name and (base == IDENTITY or base.startswith((_CATALOG, "."))):
        return False
    return not (base.endswith(".crc") or is_set_aside(name))


def _copy(plan: _Plan, old: FileStore, new: FileStore, tell: OnStep) -> int:
    """Copy the files that are not there; how many are links."""
    names = (*plan.reached, *plan.beside)
    fixed = set(plan.reached)
    for number, name in enumerate(names):
        if new.size(name) != old.size(name):
            new.take(old, name, link=name in fixed)
        tell("files", number + 1, len(names))
    new.flush(names)
    return sum(new.has_link_of(old, name) for name in plan.reached)


def _words(there: LakeConfig) -> str:
    return f"`mirrorlake lake move {quote(there.warehouse)}`"


def _absolute(place: str) -> str:
    """A place as a contract file may have it; a path on this machine from its root."""
    return place if "://" in place else str(Path(place).resolve())
