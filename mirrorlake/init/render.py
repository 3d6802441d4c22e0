"""The first ``mirrorlake.yaml``: complete, commented, and accepted by `load_config`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Final

from mirrorlake.config import Namespaces, SourceUrl, TlsConfig, default_namespaces
from mirrorlake.init.by_log import LogProposal, proposal_lines
from mirrorlake.init.pii import Suggestion
from mirrorlake.init.suggest_tables import SuggestedTable
from mirrorlake.init.summary import (
    Skipped,
    count_modes,
    full_copies,
    indexes_wanted,
    late_deletes,
    listed,
    modes_in_words,
    nullable_times,
    nullable_words,
    skipped_kinds,
    warning_kinds,
)
from mirrorlake.runtime.plural import plural

_WIDTH: Final = 100
HOME: Final = ".mirrorlake"
"""Where a first contract has its lake and ledger, relative to its own folder."""
HASH_KEY: Final = "MIRRORLAKE_HASH_KEY"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that some reader of YAML takes for something else than a text.
_RESERVED: Final = frozenset(
    ("y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf")
)


@dataclass(frozen=True)
class ZoneFound:
    """A server's own time zone: as a contract names it (None where nobody can), and in the server's
    words."""

    name: str | None
    words: str


UTC: Final = ZoneFound("UTC", "+00:00")


def source_name(url: SourceUrl) -> str:
    """A name for the source: its database's or, without one, its host's, as a config allows it."""
    name = re.sub(r"[^a-z0-9]+", "_", (url.database or url.host).lower()).strip("_")
    return name if re.match(r"[a-z]", name) else f"mysql_{name}".rstrip("_")


def password_variable(name: str) -> str:
    """The environment variable in which a contract looks for a source's password."""
    return f"{name.upper()}_PASSWORD"


def render_contract(
    name: str,
    url: SourceUrl,
    tables: Sequence[SuggestedTable],
    zone: ZoneFound = UTC,
    skipped: Sequence[Skipped] = (),
    schema: str | None = None,
    home: str = HOME,
    log: LogProposal | None = None,
) -> str:
    """The text of a ``mirrorlake.yaml`` for one source.

    The same arguments give the same text. No secret is in it: the password and the hash key are
    ``${env:…}``.

    Args:
        name: of the source: lower-case letters, digits and underscores.
        url: where the server is.
        tables: every table that is to be mirrored, in any order.
        zone: the zone in which the server writes DATETIME.
        skipped: what else the server has, for which no contract is written.
        schema: the JSON schema's file, as an editor finds it from the contract's folder.
        home: the folder of lake and ledger, relative to the contract's.
        log: what is said of following the server's binary log.
    """
    ordered = sorted(tables, key=lambda table: (table.database, table.table))
    hashed = any(rule.is_hash for table in ordered for rule in table.rules)
    lines = [*_head(schema), *_summary(ordered, skipped), *_log(log)]
    lines += _sections(home, hashed=hashed)
    lines += _source(name, url, zone)
    taken: set[str] = set()
    named: set[str] = set()
    for database, found in groupby(ordered, key=lambda table: table.database):
        lines += ["", f"      {quoted(database)}:", *_namespaces(name, database, taken)]
        lines += ["        tables:"]
        for table in found:
            # A dot in a name can give two tables one name; the file can hold only one of them.
            dotted = f"{table.database}.{table.table}"
            lines += _left_out(table) if dotted in named else _table(table)
            named.add(dotted)
    if not ordered:
        lines[-1] += " {}"
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """``text`` as a YAML scalar that every reader takes for exactly this text.

    Source: YAML 1.2.2, 5.7 "Escaped Characters" and 7.3.1 "Double-Quoted Style".
    """
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return (
        f"\\x{code:02X}"
        if code < 0x100
        else f"\\u{code:04X}"
        if code < 0x10000
        else f"\\U{code:08X}"
    )


def _head(schema: str | None) -> Iterator[str]:
    if schema is not None:
        # Not wrapped: an editor reads it.
        yield f"# yaml-language-server: $schema={schema}"
    yield "# What Mirrorlake mirrors, and how: one contract per table, by `mirrorlake init`."
    yield "# It is a first proposal: read the notes, change what you know better, keep it in git."
    yield "# Every setting: docs/reference/configuration.md. No secret belongs into this file."


def _summary(tables: Sequence[SuggestedTable], skipped: Sequence[Skipped]) -> Iterator[str]:
    """What is said of all tables together; a table's own warnings stand at the table."""
    if not tables:
        return
    yield "#"
    yield from comment(f"{modes_in_words(count_modes(tables))}.", 0)
    for words, names in skipped_kinds(skipped).items():
        yield from comment(f"Skipped {words}: {listed(names, first=len(names))}.", 0)
    if late := late_deletes(count_modes(tables)):
        yield from comment(f"{late}.", 0)
    kinds = warning_kinds(tables)
    if kinds:
        yield "#"
        yield "# Warnings by kind; each stands at its table too:"
    for kind in kinds:
        yield from comment(f"- {kind}", 0)
    wanted, nullable = indexes_wanted(tables), nullable_times(tables)
    if wanted or nullable:
        yield "#"
    if wanted:
        full = full_copies(count_modes(tables).get("full", 0), len(tables), len(wanted))
        yield from comment(f"{full}. Ask the administrator of the server:", 0)
        for index in wanted:
            # Not wrapped: a statement is copied as a line. It has no line of its own inside.
            statement = index.statement
            yield f"#   {statement if statement.isprintable() else quoted(statement)}"
    if nullable:
        yield from comment(f"{nullable_words(nullable, after_others=bool(wanted))}.", 0)


def _log(found: LogProposal | None) -> Iterator[str]:
    """What is said of following the server's binary log."""
    lines = [*proposal_lines(found)] if found is not None else []
    if lines:
        yield "#"
    for line in lines:
        # A statement is copied as a line.
        yield from [f"# {line}"] if line.startswith("  ") else comment(line, 0)


def lake_and_ledger(home: str = HOME) -> Iterator[str]:
    """The lines of a first contract that say where the lake and the ledger are."""
    yield "version: 1"
    yield ""
    yield "lake:"
    yield f"  warehouse: {home}/lake # a folder (relative to this file) or a URI"
    yield ""
    yield "ledger:"
    yield f"  url: sqlite:///{home}/ledger.db # or postgresql://…"
    yield ""


def _sections(home: str, *, hashed: bool) -> Iterator[str]:
    yield from lake_and_ledger(home)
    if hashed:
        yield "privacy:"
        yield "  # The key of every pii: hash. Make one with `openssl rand -hex 32` and keep it:"
        yield "  # another key gives other hashes."
        yield "  hash_key: ${env:" + HASH_KEY + "}"
        yield ""
    yield "defaults:"
    yield "  start: null # the first day to mirror, like 2026-01-31; null: from the first row on"
    yield "  overlap: 30m # how far a window reaches back, where the cursor is a time"
    yield "  overlap_keys: 10000 # the same in keys, where the cursor is a key"
    yield "  settle: 1h # how long rows may still change behind the cursor"
    yield "  clean: view # or table: for engines that can't read Spark's views, and for pii: hash"
    yield ""


def _source(name: str, url: SourceUrl, zone: ZoneFound) -> Iterator[str]:
    yield "sources:"
    yield f"  {quoted(name)}:"
    yield f"    host: {quoted(url.host)}"
    yield f"    port: {url.port}"
    yield f"    user: {quoted(url.user)}"
    # An account without a password needs no variable for it.
    if url.password.get_secret_value():
        yield "    password: ${env:" + password_variable(name) + "}"
    yield f"    tls: {_tls(url)}"
    yield from _zone(zone)
    yield "    connections: 2 # at most this many at once"
    yield "    databases:"


def _zone(zone: ZoneFound) -> Iterator[str]:
    if zone.name is None:
        yield from comment(
            f"WARNING: no known time zone is like the server's ({zone.words}). Name the one in "
            "which DATETIME is written: until then tables with a DATETIME cursor are refused.",
            4,
        )
    else:
        yield from comment(f"The server's own ({zone.words}), in which its NOW() writes.", 4)
    yield from comment(
        "If the application writes DATETIME by a clock of its own, name that zone and add "
        "`time_zone_of: application`.",
        4,
    )
    yield f"    time_zone: {quoted(zone.name or 'UTC')} # of DATETIME cursors"


def _tls(url: SourceUrl) -> str:
    if isinstance(url.tls, TlsConfig):
        return "{ca: " + quoted(url.tls.ca) + "}"
    return '"off"' if url.tls == "off" else url.tls


def _namespaces(name: str, database: str, taken: set[str]) -> list[str]:
    """Written only where another database has the default ones; adds its own to ``taken``."""
    candidate, number = database, 1
    while taken & _folded(default_namespaces(name, candidate)):
        number += 1
        candidate = f"{database}_{number}"
    namespaces = default_namespaces(name, candidate)
    taken |= _folded(namespaces)
    if candidate == database:
        return []
    return [
        "        # The default names are taken by another database.",
        "        namespaces:",
        *(f"          {layer}: {found}" for layer, found in namespaces.model_dump().items()),
    ]


def _folded(namespaces: Namespaces) -> set[str]:
    return {str(found).casefold() for found in namespaces.model_dump().values()}


def _left_out(table: SuggestedTable) -> Iterator[str]:
    yield ""
    message = f"Left out: {quoted(table.table)}, whose name with its database's is another table's."
    yield from comment(message, 10)


def _table(table: SuggestedTable) -> Iterator[str]:
    rows = plural(table.estimated_rows, "row")
    yield ""
    yield f"          # About {rows}, by the server's estimate."
    for note in table.notes:
        yield from comment(note, 10)
    for warning in table.warnings:
        yield from comment(f"WARNING: {warning.text}", 10)
    yield f"          {quoted(table.table)}:"
    yield f"            mode: {table.mode}"
    yield f"            key: [{', '.join(map(quoted, table.key))}]"
    if table.cursor is not None:
        yield f"            cursor: {quoted(table.cursor)}"
    if table.created is not None:
        yield f"            created: {quoted(table.created)}"
    if table.partitions_from is not None:
        yield f"            partitions_from: {table.partitions_from} # its first day; no filter"
    if table.clean is not None:
        yield f"            clean: {table.clean}"
    if table.rules:
        yield "            columns:"
        for rule in table.rules:
            yield from _rule(rule)


def _rule(suggestion: Suggestion) -> Iterator[str]:
    yield from comment(suggestion.reason, 14)
    rule = suggestion.rule
    # Quoted, because other readers of YAML take a bare null for nothing.
    text = f"pii: {quoted(rule.pii)}" if rule.pii else f"pci: {rule.pci}"
    yield f"              {quoted(suggestion.column)}: {{{text}}}"


def comment(text: str, indent: int) -> Iterator[str]:
    """A comment of the file, in lines that are no longer than `_WIDTH`."""
    start = " " * indent + "# "
    yield from wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
    )
