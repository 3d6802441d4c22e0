"""Where the lake is, and whether its catalog is there: by names alone, without PyIceberg."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import make_url

from mirrorlake.config.fields import hide_url
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.storage.folders import warehouse_uri
from mirrorlake.errors import LakeError
from mirrorlake.ledger.lake.lake_heads import LakeHead, identity_of_file
from mirrorlake.ledger.store import Ledger
from mirrorlake.runtime.replaced_file import file_of

FILE = "mirrorlake-lake.json"
"""The file in the warehouse that says which lake it is."""


@dataclass(frozen=True)
class LakeLook:
    """What one look at a lake saw.

    Attributes:
        heads: what our last commits left, as the ledger knows it.
        named: the metadata file of every lake table, as the catalog names it now; None where the
            catalog is no SQL database, and each table would have to be opened.
    """

    heads: Sequence[LakeHead]
    named: Mapping[tuple[str, str], str] | None

    @property
    def moved(self) -> frozenset[str] | None:
        """The tables, by whose lease they are written, that the catalog names otherwise."""
        if self.named is None:
            return None
        named = self.named
        return frozenset(h.table for h in self.heads if named.get(h.name) != h.metadata_location)


def check_place(config: LakeConfig, ledger: Ledger) -> LakeLook:
    """See that the lake is where the ledger knows it, and that its catalog is not lost: before a
    new one is made in its place. Nothing is made, and PyIceberg is not needed.

    Raises:
        LakeError: it is not.
    """
    heads = check_warehouse(config, ledger)
    if not heads:
        if ledger.lake() is None and (left := _left_folder(config)):
            raise lost_together(config, ledger, left)
        return LakeLook((), {})
    named = {} if is_catalog_missing(config) else metadata_locations(config)
    if named is None or not any(head.name in named for head in heads):
        refuse_no_folder(config)
        if named is not None:
            raise _lost(config, heads)
    return LakeLook(heads, named)


def check_warehouse(config: LakeConfig, ledger: Ledger) -> list[LakeHead]:
    """See that the lake is where the ledger knows it, whatever its catalog says; the heads that the
    ledger has.

    Raises:
        LakeError: it is not.
    """
    refuse_unfinished(config)
    if original := original_ledger(config, ledger):
        raise LakeError(
            f"the ledger {Ledger.shown_url(ledger.url)} is a copy of {original}, which is still "
            f"there, and by which the lake in {place_of(config)} was written last: of two projects "
            "over one lake each would miss what the other one loads",
            next_step="Set ledger.url back to it, or remove this copy of the project; if the copy "
            "is to go on by itself, `mirrorlake lake move` with a new place gives it a lake of its "
            f"own; if this ledger takes the place of the other one, move {original} away",
        )
    known, here, heads = ledger.lake(), place_of(config), ledger.lake_heads()
    if known is not None and known[1] != here and heads:
        refuse_unfinished(config.model_copy(update={"warehouse": known[1]}))
        raise LakeError(
            f"the ledger {Ledger.shown_url(ledger.url)} is of the lake in {known[1]}, and "
            f"lake.warehouse is {here}",
            next_step="If the setting alone was changed, put it back. If the lake was moved or "
            f"copied here, ledger and all, run `mirrorlake lake move {quote(here)}`: it writes its "
            "absolute paths again. A copied project, or a second one, needs a ledger of its own "
            "(ledger.url): see `mirrorlake restore`",
        )
    return heads


def refuse_unfinished(config: LakeConfig) -> None:
    """See that a lake on this machine is whole: that no restore or move of it was interrupted.

    Raises:
        LakeError: one was.
    """
    if words := str(_said_here(config).get("unfinished", "")):
        raise unfinished_lake(place_of(config), words)


def _said_here(config: LakeConfig) -> Mapping[str, Any]:
    """What the warehouse says of itself, if it is on this machine; nothing where it says nothing,
    or can't be read: what opens the lake says so."""
    with suppress(OSError, ValueError):
        said = json.loads(Path(_says_which(config) or "").read_bytes())
        return said if isinstance(said, dict) else {}
    return {}


def ledger_file(config: LakeConfig, ledger: Ledger) -> str:
    """Where a SQLite ledger is that writes to a lake on this machine; '' of any other."""
    file = file_of(make_url(ledger.url))
    here = place_of(config).startswith("file://")
    return os.path.realpath(file) if file is not None and here else ""


def original_ledger(config: LakeConfig, ledger: Ledger) -> str:
    """The ledger that this one is a copy of: by which the lake was written last, and that is still
    there, of this lake; '' where there is none."""
    last, own = str(_said_here(config).get("ledger", "")), ledger_file(config, ledger)
    if not (last and own) or last == own:
        return ""
    with suppress(OSError):
        if Path(last).samefile(own):
            return ""
        if identity_of_file(Path(last)) == (ledger.identity(), place_of(config)):
            return last
    return ""


def unfinished_lake(here: str, words: str) -> LakeError:
    """A lake of which a part is there."""
    return LakeError(
        f"the lake in {here} is not whole: {words} was interrupted",
        next_step="Run that again, with lake.warehouse as it was: it continues where it ended",
    )


def _says_which(config: LakeConfig) -> str | None:
    """The file in a warehouse on this machine that says which lake it is; None where there is
    none."""
    at = real_place(f"{warehouse_uri(config.warehouse)}/{FILE}")
    path = at.removeprefix("file://")
    return path if at.startswith("file://") and Path(path).is_file() else None


def place_of(config: LakeConfig) -> str:
    """Where the warehouse is, however its path is spelled."""
    return real_place(warehouse_uri(config.warehouse))


def real_place(location: str) -> str:
    """A location past links, where it is on this machine."""
    if not location.startswith("file:"):
        return location
    path = "/" + location.removeprefix("file:").lstrip("/")
    return f"file://{os.path.realpath(path)}"


def _left_folder(config: LakeConfig) -> str | None:
    """A table's metadata folder in a lake on this machine whose catalog names no table; None where
    nothing was left. A lake that does not say which it is may be anybody's files, and one that was
    made with another catalog is another project's."""
    at = _says_which(config)
    if at is None or not (is_catalog_missing(config) or metadata_locations(config) == {}):
        return None
    if config.catalog.uri:
        with suppress(ValueError, OSError):
            said = json.loads(Path(at).read_text(encoding="utf-8"))
            if said.get("catalog") != hide_url(config.catalog.uri):
                return None
    found = next(Path(at).parent.glob("*/*/metadata/*.metadata.json"), None)
    return None if found is None else str(found.parent)


def is_catalog_missing(config: LakeConfig) -> bool:
    """Whether the catalog is a SQLite file, and not there."""
    if not config.catalog.uri:
        folder = config.warehouse.removeprefix("file://")
        return "://" not in folder and not (Path(folder) / "catalog.db").is_file()
    if not config.catalog.uri.startswith("sqlite:"):
        return False
    file = make_url(config.catalog.uri).database
    return bool(file) and not Path(str(file)).is_file()


def lost_together(config: LakeConfig, ledger: Ledger, left: str) -> LakeError:
    """Neither the catalog nor the ledger knows what a lake holds, which is still there."""
    return LakeError(
        f"the lake in {place_of(config)} has tables (such as in {left}), and neither its catalog "
        f"nor the ledger {Ledger.shown_url(ledger.url)} knows of any: both were lost, or are "
        "another project's",
        next_step="Put both back from a backup; or run `mirrorlake lake find`, which registers the "
        "tables again from their newest metadata files, then `mirrorlake ledger rebuild`. To begin "
        "again from nothing, give lake.warehouse another folder. Nothing was made",
    )


def refuse_no_folder(config: LakeConfig) -> None:
    """See that a lake on this machine, of which the ledger knows tables, has its folder.

    Raises:
        LakeError: it has none; nothing was made.
    """
    here = place_of(config)
    if here.startswith("file://") and not Path(here.removeprefix("file://")).is_dir():
        raise LakeError(
            f"the lake's folder {here} is not there",
            next_step="If it was moved, run `mirrorlake lake move` with where it is now; else put "
            "it back from a backup: `mirrorlake restore`. Nothing was made",
        )


def _lost(config: LakeConfig, heads: list[LakeHead]) -> LakeError:
    some = ".".join(heads[0].name)
    return LakeError(
        f"the lake's catalog has none of the {len(heads)} tables that Mirrorlake made "
        f"(such as {some}): it was lost, or is another one ({place_of(config)})",
        next_step="Put the catalog back from a backup, or set lake.catalog to it; or run "
        "`mirrorlake lake find`, which registers the tables again from their newest metadata "
        "files. If the lake's folder was moved, run `mirrorlake lake move` with where it is now. "
        "If its files are gone, `mirrorlake restore` a backup. Nothing was made",
    )
