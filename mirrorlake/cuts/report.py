"""What is said of a cut, at the terminal and in Dagster: in words, and how engines read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.cuts.ledger import Cut, CutKey, CutKeys, CutTable

GONE = "this version is there no more: a rule took values away, or other hands removed it"
CLEAN_IN_SPARK = "clean"
"""What the query is called that shows clean of a version, where clean is a view."""
NOT_IN_CUT = "it is not in this cut; one with --others has tables of other modes"
"""Why readers of the newest cut see a table no more."""
NAMED = 3
"""Tables that a sentence names."""


def title_of(cut: Cut) -> str:
    """A cut in a line: where, as of when, of how many tables."""
    gtid = f", GTID {cut.gtid}" if cut.gtid else ""
    return (
        f"{cut.name}: {cut.source} at {cut.place}{gtid}, as of {cut.at:%Y-%m-%d %H:%M:%S} "
        f"UTC · {plural(len(cut.names), 'table')}"
    )


def reads_of(cut: Cut, one: CutTable) -> dict[str, str]:
    """How engines read a lake table at a cut."""
    if one.snapshot_id is None:
        return {"any": "it has no row there, and no version"}
    version, path = f"VERSION AS OF '{cut.tag}'", one.identifier.path
    spark = ".".join(part if _PLAIN.fullmatch(part) else as_sql_identifier(part) for part in path)
    trino = ".".join(part if _PLAIN.fullmatch(part) else _in_quotes(part) for part in path)
    table = f"catalog.load_table({path!r})"
    return {
        "Spark": f"SELECT * FROM lake.{spark} {version}",  # noqa: S608
        "Trino": f"SELECT * FROM {trino} FOR {version}",  # noqa: S608
        "PyIceberg": f"{table}.scan(snapshot_id={one.snapshot_id})",
        "DuckDB": f"iceberg_scan(?, snapshot_from_id = {one.snapshot_id})"
        f" of {table}.metadata_location",
    }


_PLAIN = re.compile("[a-z_][a-z0-9_]*")


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def key_name(key: CutKey) -> str:
    """A foreign key, as MySQL would define it."""
    parent = key.parent.split(".", 1)[1]
    return (
        f"{key.table} {key.name} ({', '.join(key.columns)}) → "
        f"{parent} ({', '.join(key.parent_columns)})"
    )


def keys_sentence(keys: CutKeys | None) -> str:
    """What became of a cut's foreign keys, in a sentence; it says no more than was looked at."""
    if keys is None:
        return "Foreign keys were not looked at."
    parts = list[str]()
    if keys.keys:
        counts = {state: sum(one.verdict == state for one in keys.keys) for state in _VERDICTS}
        parts = [f"{number:,} {_VERDICTS[state]}" for state, number in counts.items() if number]
        parts = [f"{plural(len(keys.keys), 'foreign key')}: {', '.join(parts)}"]
    elif not keys.hidden:
        parts = ["No foreign key is between these tables"]
    if keys.hidden:
        none = "" if keys.keys else "No foreign key could be seen: "
        seen = f"this account may not see those of {plural(len(keys.hidden), 'table')} "
        parts.append(f"{none}{seen}({names_of(keys.hidden)})")
    return "; ".join(parts) + "."


_VERDICTS = {
    "holds": "without an orphan",
    "as in MySQL": "with as many orphans as in MySQL",
    "orphans": "with orphans",
    "not compared": "not compared",
}


def others_sentence(names: Sequence[str]) -> str:
    """The tables of other modes that a cut did not ask for."""
    one = plural(len(names), "table of another mode is", "tables of other modes are")
    return f"{one} not in it: {names_of(names)}. --prove --others takes those that equal MySQL."


def names_of(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
