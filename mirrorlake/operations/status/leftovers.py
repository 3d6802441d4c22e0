"""What `doctor` sees that stops nothing: leases of runs that ended, files of an older version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mirrorlake.config import Config, config_schema
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.runtime.plural import plural

RELEASE: Final = "release them"
WRITE_SCHEMA: Final = "write it again"
MAKE_HOME: Final = "make the folder"


def look_at_leftovers(config: Config, ledger: Callable[[], Ledger]) -> Iterator[Diagnosis]:
    """A piece for each that is there."""
    yield from _leases(config, ledger)
    yield from _schema(config.path)
    yield from _dagster_home()


def _leases(config: Config, ledger: Callable[[], Ledger]) -> Iterator[Diagnosis]:
    try:
        left = ledger().abandoned_leases()
    except MirrorlakeError:
        return  # the ledger's own piece says it
    if left:
        which = "1 was left by a run" if len(left) == 1 else f"{len(left):,} were left by runs"
        words = f"{which} that ended; the next run takes {plural(len(left), 'table')} all the same"
        where = Ledger.shown_url(config.ledger.url)
        yield Diagnosis("leases", "", "ok", where, words, optional=True, fix=RELEASE)


def schema_of(contract: Path) -> Path:
    """Where the contract's JSON schema is, which `init` writes for editors."""
    return contract.with_name("mirrorlake.schema.json")


def schema_text() -> str:
    """What is in it, as this version writes it."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def read_schema(path: Path) -> Mapping[str, Any] | None:
    """The JSON schema that some version of ours wrote there; None of none, or of another file."""
    try:
        there = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(there, dict) and {"title": "mirrorlake.yaml"}.items() <= there.items()
    return there if ours else None


def _schema(contract: Path) -> Iterator[Diagnosis]:
    path = schema_of(contract)
    there = read_schema(path)
    if there is not None and there != config_schema():
        words = "another version wrote it: editors check the contract by old rules"
        name = "the contract's JSON schema"
        yield Diagnosis(name, "", "missing", str(path), words, optional=True, fix=WRITE_SCHEMA)


def _dagster_home() -> Iterator[Diagnosis]:
    named = os.environ.get("DAGSTER_HOME")
    if named and not Path(named).expanduser().exists():
        words = "DAGSTER_HOME names a folder that is not there: Dagster does not start"
        yield Diagnosis("Dagster's home", "", "missing", named, words, optional=True, fix=MAKE_HOME)
