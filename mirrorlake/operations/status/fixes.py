"""``doctor --fix``: repairs what needs no decision of a person's. No row is touched, in MySQL or in
the lake, and no contract is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorlake.config import Config, load_config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.status.file_permissions import NARROW, places_of
from mirrorlake.operations.status.leftovers import (
    MAKE_HOME,
    RELEASE,
    WRITE_SCHEMA,
    schema_of,
    schema_text,
)
from mirrorlake.runtime.cache import write_whole
from mirrorlake.runtime.doctor import BRING_AGAIN, Diagnosis
from mirrorlake.runtime.jars import ensure_jars, read_pins
from mirrorlake.runtime.permissions import narrow
from mirrorlake.runtime.plural import plural

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fixed:
    """What became of one piece.

    Attributes:
        name: the piece.
        fixed: whether it was repaired.
        words: what was done; or why nothing was, and who can.
    """

    name: str
    fixed: bool
    words: str


def fix_all(pieces: Sequence[Diagnosis], contract: Path) -> list[Fixed]:
    """Repair what can be, and say of every other piece that is not fine why it was left alone."""
    found = list[Fixed]()
    for piece in pieces:
        if piece.fix:
            found.append(_fix(piece, contract))
        elif piece.state != "ok" and not piece.automatic:
            found.append(Fixed(piece.name, fixed=False, words=_why_not(piece)))
    return found


def _fix(piece: Diagnosis, contract: Path) -> Fixed:
    try:
        words = _FIXES[piece.fix](piece, contract)
    except MirrorlakeError as error:
        return Fixed(piece.name, fixed=False, words=str(error))
    except OSError as error:
        words = f"{error.filename or piece.where}: {error.strerror}: run this as its owner"
        return Fixed(piece.name, fixed=False, words=words)
    return Fixed(piece.name, fixed=True, words=words)


def _config(contract: Path) -> Config:
    return load_config(contract, secrets="when used")


def _narrow(piece: Diagnosis, contract: Path) -> str:
    config = _config(contract)
    paths = next(paths for name, paths in places_of(config) if piece.name.endswith(f" of {name}"))
    changed = narrow(paths, config.lake.permissions)
    return f"{plural(changed, 'file')} and folders narrowed to {config.lake.permissions}"


def _bring_again(piece: Diagnosis, _: Path) -> str:
    jar = next(one for one in read_pins() if str(one.path) == piece.where)
    ensure_jars([jar.group])
    return f"downloaded again: {jar.size / 1e6:.0f} MB"


def _release(_: Diagnosis, contract: Path) -> str:
    config = _config(contract)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    freed = [table for table in ledger.abandoned_leases() if ledger.release_abandoned(table)]
    return f"released: {', '.join(freed) or 'none is left'}"


def _write_schema(_: Diagnosis, contract: Path) -> str:
    path = schema_of(contract)
    write_whole(path, schema_text().encode())
    return f"wrote {path}"


def _make_home(piece: Diagnosis, _: Path) -> str:
    path = Path(piece.where).expanduser()
    path.mkdir(parents=True, mode=0o700)
    return f"made {path}; copy the clone's dagster.yaml into it, which limits runs"


_FIXES: Final[Mapping[str, Callable[[Diagnosis, Path], str]]] = {
    NARROW: _narrow,
    BRING_AGAIN: _bring_again,
    RELEASE: _release,
    WRITE_SCHEMA: _write_schema,
    MAKE_HOME: _make_home,
}
"""What is done, by the words with which a piece offers it."""
_REASONS: Final = (
    ("disk", "what to remove is for a person to say"),
    ("source", "it is a matter of the server, or of its account"),
    ("table", "it takes a change in the contract, or in MySQL"),
    ("tenants", "it takes a change in the contract, or in MySQL"),
    ("contract", "the file is a person's"),
    ("lake and ledger", "what of the two is right is for a person to say"),
    ("lake", "what is lost, or was changed by others, is never guessed"),
    ("ledger", "what is lost, or was changed by others, is never guessed"),
    ("Java's class archive", "it takes a minute and 200 MB, and nothing needs it"),
    ("Python", "programs are installed by a person"),
    ("Java", "programs are installed by a person"),
    ("PySpark", "programs are installed by a person"),
)


def _why_not(piece: Diagnosis) -> str:
    reasons = (why for name, why in _REASONS if piece.name.startswith(name))
    why = next(reasons, "nothing here can be done about it")
    return f"{why}: {piece.detail}" if piece.detail else why
