"""Whether what stands on this machine's disk is open wider than the contract says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from mirrorlake.config import Config
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.proof.comparing.evidence import evidence_folder
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.runtime.permissions import Opened, find_wider, narrowing
from mirrorlake.runtime.plural import plural

NARROW: Final = "take away what is open wider"


def look_at_permissions(config: Config) -> list[Diagnosis]:
    """Whether what stands on this machine's disk is open wider than the contract says: a piece for
    each place that is there, with the command that narrows it. Nothing is changed."""
    permissions = config.lake.permissions
    pieces: list[Diagnosis] = []
    for name, paths in places_of(config):
        there = [path for path in paths if os.path.lexists(path)]
        if not there:
            continue
        found = find_wider(there, permissions)
        state = "broken" if found.wider or found.unseen else "ok"
        words = _permission_words(found, permissions, narrowing(there, permissions))
        title = f"permissions of {name}"
        fix = NARROW if found.wider else ""
        optional = name == _DAGSTER
        pieces.append(Diagnosis(title, "", state, str(there[0]), words, optional=optional, fix=fix))
    return pieces


_DAGSTER = "Dagster's home"  # what is written there is Dagster's, by its own processes' umask


def _permission_words(found: Opened, permissions: str, command: str) -> str:
    words = [f"{permissions}: {plural(found.looked, 'file')} and folders looked at"]
    if found.wider:
        words.append(f"{len(found.wider):,} open wider, {found.wider[0]} first: run {command}")
    if found.unseen:
        words.append(
            f"{len(found.unseen):,} not looked at, {found.unseen[0]} first, which this user may "
            "not read: run this as its owner"
        )
    return "; ".join(words)


def places_of(config: Config) -> Iterator[tuple[str, list[Path]]]:
    """What is written on this machine's disk, by name; what is kept by servers is not."""
    lake = local_path(config.lake.warehouse)
    if lake is not None:
        yield "the lake", [lake]
    catalog = _sqlite_files(config.lake.catalog.uri or "")
    if catalog and (lake is None or not catalog[0].is_relative_to(lake)):
        yield "the catalog", catalog
    if ledger := _sqlite_files(config.ledger.url):
        yield "the ledger", ledger
    yield "evidence", [evidence_folder(config).absolute()]
    if home := os.environ.get("DAGSTER_HOME"):
        yield _DAGSTER, [Path(home).expanduser().absolute()]


def _sqlite_files(url: str) -> list[Path]:
    """A SQLite database's file and those beside it; none of another database."""
    if not url.startswith("sqlite"):
        return []
    file = make_url(url).database or ""
    return [Path(file + end) for end in ("", "-wal", "-shm", "-journal")]
