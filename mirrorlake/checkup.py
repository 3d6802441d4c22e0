"""What `mirrorlake doctor` says of a contract: the file, the lake, the ledger and each source.

The machine's own pieces are `mirrorlake.machine.doctor`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import Config, SourceConfig, load_config
from mirrorlake.config.source_url import default_tls
from mirrorlake.errors import MirrorlakeError
from mirrorlake.lake.catalog import Lake
from mirrorlake.ledger import LEDGER_VERSION, Ledger
from mirrorlake.machine.doctor import Piece
from mirrorlake.mysql.connect import rows_of, session
from mirrorlake.mysql.introspect import read_table, read_tables
from mirrorlake.mysql.privileges import missing_privileges
from mirrorlake.mysql.zones import differences, name_of_zone, read_server_zone
from mirrorlake.plan import resolve_contract


def diagnose_contract(path: Path) -> list[Piece]:
    """Every piece that a contract names, also those that are fine; never raises for a bad one.

    Opening the lake and the ledger makes them if they are not there yet, as a sync would.
    """
    try:
        config = load_config(path)
    except MirrorlakeError as error:
        return [Piece("contract", "", "broken", str(path), str(error))]
    pieces = [Piece("contract", "1", "ok", str(path), f"{len(config.tables)} tables")]
    pieces.append(_looked_at("lake", config.lake.warehouse, lambda: _lake(config)))
    ledger_at = Ledger.shown_url(config.ledger.url)
    pieces.append(_looked_at("ledger", ledger_at, lambda: _ledger(config)))
    for source in config.sources.values():
        servers = {f"source {source.name}": source}
        if source.primary is not None:
            servers[f"source {source.name}, primary"] = source.primary
        for name, server in servers.items():
            where = f"{server.host}:{server.port}"
            pieces.append(_looked_at(name, where, lambda server=server: _source(server)))
        if pieces[-1].state == "ok" or source.primary is not None:
            pieces += _tables(config, source)
    return pieces


def _tables(config: Config, source: SourceConfig) -> list[Piece]:
    """Whether each table's contract can be kept by the server that is there, as a sync would find
    before it reads: one piece for those that can, one for each that can't."""
    contracts = [c for c in config.tables if c.source == source.name]
    refused: list[Piece] = []
    try:
        with session(source) as connection:
            databases = dict.fromkeys(c.database for c in contracts)
            there = {(t.database, t.name): t for d in databases for t in read_tables(connection, d)}
            for contract in contracts:
                try:
                    table = there.get((contract.database, contract.table))
                    if table is None:
                        table = read_table(connection, contract.database, contract.table)
                    resolve_contract(config, contract, table)
                except MirrorlakeError as error:
                    refused.append(Piece(f"table {contract.name}", "", "broken", "", str(error)))
    except MirrorlakeError as error:
        return [Piece(f"tables of {source.name}", "", "broken", "", str(error))]
    fit = f"{len(contracts) - len(refused)} of {len(contracts)} contracts can be kept"
    return [Piece(f"tables of {source.name}", "", "ok", "", fit), *refused]


def _looked_at(name: str, where: str, look: Callable[[], tuple[str, str]]) -> Piece:
    try:
        version, detail = look()
    except MirrorlakeError as error:
        return Piece(name, "", "broken", where, str(error))
    return Piece(name, version, "ok", where, detail)


def _lake(config: Config) -> tuple[str, str]:
    lake = Lake(config.lake)
    with lake.translated("catalog"):
        return "format 2", f"{len(lake.catalog.list_namespaces())} namespaces"


def _ledger(config: Config) -> tuple[str, str]:
    Ledger(config.ledger.url, config.ledger.wait)
    return str(LEDGER_VERSION), ""


def _source(source: SourceConfig) -> tuple[str, str]:
    with session(source) as connection:
        (version,) = rows_of(connection, "SELECT @@version")[0]
        found = [
            *unproved_server(source),
            *_other_zone(connection, source),
            *missing_privileges(connection),
        ]
    return str(version), "; ".join(found)


def _other_zone(connection: Connection[Any], source: SourceConfig) -> list[str]:
    """In words, if the server writes DATETIME in another zone than the contract says."""
    server = read_server_zone(connection, source)
    if source.time_zone_of == "application" or not any(differences(source.zone, server)):
        return []
    named = name_of_zone(server) or server.words
    return [
        f"the contract's time_zone is {source.time_zone}, and the server's own is {named}: tables "
        "with a DATETIME cursor are refused"
    ]


def unproved_server(source: SourceConfig) -> list[str]:
    """What a source's TLS does not protect from, in words; nothing on a loopback address."""
    if default_tls(source.host) == "off" or not isinstance(source.tls, str):
        return []
    if source.tls == "off":
        return ["tls: off: rows and the login travel in clear text; set tls: {ca: …}"]
    return [
        "tls: required checks no certificate: whoever answers in the server's place is not "
        "noticed; set tls: {ca: …}"
    ]
