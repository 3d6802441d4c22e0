"""Which tables need not be read: those of which a look at their source shows that nothing happened
since their newest load, and which are in the lake as that load's sync left them.

A sync checks this first, for all its tables at once. What is unchanged is not read, loaded, folded
or leased; doubt reads. Neither PyIceberg nor Spark is needed for it.

What belongs here: the decision, and what a sync writes down for the next one. What doesn't: what a
server shows (`mirrorlake.sources.mysql.changes.change_stamps`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import mirrorlake
from mirrorlake.config import Config, TableContract
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.errors import SourceError
from mirrorlake.ledger import LEDGER_VERSION, Ledger, Load, Stamp
from mirrorlake.ledger.sources.log_progress import BY_LOG
from mirrorlake.operations.loading.quiet_log import find_quiet, note_quiet
from mirrorlake.schema.masking import fingerprint_of
from mirrorlake.sources.mysql.changes.change_stamps import ChangeStamp, read_stamps, why_unchanged
from mirrorlake.sources.mysql.changes.replica import read_reach
from mirrorlake.sources.mysql.introspection.introspect import estimate_rows
from mirrorlake.sources.mysql.sessions.connect import read_clock, session

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.following.log_state import LogEnd

logger = logging.getLogger(__name__)

_Place = tuple[str, str]


@dataclass(frozen=True)
class Unchanged:
    """A table that was found to be as its newest load read it.

    Attributes:
        load: that load.
        evidence: by what: ``server``, ``table``, ``digest`` or ``log``.
        as_of: up to which moment of the source (UTC) the mirror is known to be the source.
    """

    contract: TableContract
    load: Load
    evidence: str
    as_of: datetime


@dataclass(frozen=True)
class Look:
    """One look at the sources of some tables, before anything of them is read; all by table name.

    Attributes:
        shown: what their sources showed.
        as_of: up to which moment (UTC) their sources show everything.
        known: stamps of tables that are in the lake as their newest load's sync left them, by the
            contract of then: if their rows are the same, nothing is to be done.
        unchanged: those of which the sources showed that they are.
        through: the number of each one's newest load then: only a higher one read after the look.
        estimates: about how many rows the tables have, by their servers' statistics.
        ends: by source, where its log ended: the others of its tables are followed to there, so
            that all are of one place.
    """

    shown: Mapping[str, ChangeStamp] = field(default_factory=dict[str, ChangeStamp])
    as_of: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    known: Mapping[str, Stamp] = field(default_factory=dict[str, Stamp])
    unchanged: Mapping[str, Unchanged] = field(default_factory=dict[str, Unchanged])
    through: Mapping[str, int] = field(default_factory=dict[str, int])
    estimates: Mapping[str, int] = field(default_factory=dict[str, int])
    ends: Mapping[str, LogEnd] = field(default_factory=dict[str, "LogEnd"])


def look_at(
    config: Config, ledger: Ledger, contracts: Sequence[TableContract], *, noted: bool = True
) -> Look:
    """Look at the sources of these tables, one connection each. A source that can't be queried is
    left out: the load that reads its tables raises the error.

    Args:
        noted: whether what is found unchanged is written down.

    Raises:
        LedgerError: the ledger could not be read or written.
    """
    shown: dict[str, ChangeStamp] = {}
    as_of: dict[str, datetime] = {}
    estimates: dict[str, int] = {}
    following = [c for c in contracts if c.by_log]
    contracts = [c for c in contracts if not (c.landed or c.by_log)]
    for name in dict.fromkeys(c.source for c in contracts):
        mine = [c for c in contracts if c.source == name]
        if config.sources[name].skip_unchanged is None or ledger.held(name):
            continue
        found, moment, rows = _look_at_source(config, mine)
        shown |= found
        estimates |= rows
        as_of |= dict.fromkeys(found, moment)
    stamped = [c for c in contracts if c.name in shown]
    loads = ledger.newest_attempts([c.name for c in stamped])
    known = _known(config, ledger, stamped, loads)
    unchanged: dict[str, Unchanged] = {}
    for contract in stamped:
        stamp = known.get(contract.name)
        evidence = stamp and _evidence(config, stamp, shown[contract.name])
        if evidence:
            name = contract.name
            unchanged[name] = Unchanged(contract, loads[name], evidence, as_of[name])
    if noted:
        note_unchanged(ledger, [*unchanged.values()])
    by_log, ends = _by_their_logs(config, ledger, following, noted=noted)
    unchanged |= by_log
    through = {name: load.seq for name, load in loads.items()}
    return Look(shown, as_of, known, unchanged, through, estimates, ends)


def _by_their_logs(
    config: Config, ledger: Ledger, contracts: Sequence[TableContract], *, noted: bool
) -> tuple[dict[str, Unchanged], dict[str, LogEnd]]:
    """The tables that follow a log which has nothing new of them, and that are in the lake as their
    last sync left them; and where the logs ended."""
    unchanged: dict[str, Unchanged] = {}
    ends: dict[str, LogEnd] = {}
    known = _known(config, ledger, contracts, ledger.newest_attempts([c.name for c in contracts]))
    for name in dict.fromkeys(c.source for c in contracts if c.name in known):
        mine = [c for c in contracts if c.source == name and c.name in known]
        source = config.sources[name]
        if source.skip_unchanged is None or ledger.held(name):
            continue
        try:
            with session(source) as connection:
                found = find_quiet(connection, source, mine, ledger)
        except SourceError as error:
            logger.info("source %s: its log was not looked at: %s", name, error)
            continue
        if noted:
            note_quiet(ledger, found)
        if found.tables and found.end is not None:
            ends[name] = found.end
        loads = ledger.newest_attempts([*found.tables])
        for contract in (one for one in mine if one.name in found.tables):
            at = found.tables[contract.name].at
            unchanged[contract.name] = Unchanged(contract, loads[contract.name], BY_LOG, at)
    return unchanged, ends


def stamp_followed(config: Config, contract: TableContract, ledger: Ledger) -> Stamp | None:
    """What the next look needs to know of a table that was followed and folded; None where its
    place in the log is not written down. The caller has the table's lease."""
    progress = ledger.standing_progress(contract.name).get(contract.name)
    load = ledger.newest_attempts([contract.name]).get(contract.name)
    lake = _state_now(config, contract, load) if progress is not None and load else None
    if progress is None or lake is None:
        return None
    return Stamp(
        table=contract.name,
        seq=progress.seq,
        shown="",
        terms=_terms(config, contract),
        lake=lake,
        form=None,
        read_at=progress.at,
        seen_at=progress.at,
        evidence=BY_LOG,
    )


def note_unchanged(ledger: Ledger, found: Sequence[Unchanged]) -> None:
    """Write down until when tables are known to be unchanged, and by what."""
    records = {(u.contract.name, u.load.seq): (u.as_of, u.evidence) for u in found}
    if records:
        ledger.record_unchanged(records)


def stamp_of(
    config: Config,
    contract: TableContract,
    load: Load,
    shown: ChangeStamp | None,
    form: str | None = None,
) -> Stamp | None:
    """What the next look needs, once a load's rows are in every layer; None where it would be of no
    use. The caller has the table's lease.

    Args:
        shown: what the source showed before the load read, or before it was found unchanged.
        form: SQL of the digest of a row, by which the load was proved.
    """
    if shown is None or load.receipt is None or load.receipt.server != shown.server:
        return None
    lake = _state_now(config, contract, load)
    if lake is None:
        return None
    return Stamp(
        table=contract.name,
        seq=load.seq,
        shown=shown.to_json(),
        terms=_terms(config, contract),
        lake=lake,
        form=form_digest(form),
        read_at=datetime.fromisoformat(shown.clock).replace(tzinfo=UTC),
        seen_at=datetime.fromisoformat(load.receipt.moment).replace(tzinfo=UTC),
    )


def was_read_after(load: Load, shown: ChangeStamp) -> bool:
    """Whether all of a load was read after the source showed this. A load that resumed a dead run's
    has chunks from before it: what changed since their reading was there when the source was
    looked at, and the mirror has not got it."""
    if load.receipt is None:
        return False
    return datetime.fromisoformat(load.receipt.moment) >= datetime.fromisoformat(shown.clock)


@contextmanager
def stamp_kept(config: Config, ledger: Ledger, contract: Mirrored) -> Iterator[None]:
    """A table whose lake tables are as its last sync left them is so after the block too, which
    writes the same rows in other versions. The caller has the table's lease."""
    stamp = ledger.stamps([contract.name]).get(contract.name)
    load = ledger.newest_attempts([contract.name]).get(contract.name)
    if stamp is None or load is None or _state_now(config, contract, load) != stamp.lake:
        yield
        return
    yield
    state = _state_now(config, contract, load)
    if state is not None:
        ledger.record_stamp(replace(stamp, lake=state))


def _state_now(config: Config, contract: Mirrored, load: Load) -> str | None:
    locations = metadata_locations(config.lake, _places(contract, load.raw_table))
    return None if locations is None else _lake_state(locations, contract, load.raw_table)


def form_digest(form: str | None) -> str | None:
    """A short name of the SQL by which rows are digested: another SQL gives other digests."""
    return None if form is None else hashlib.sha256(form.encode()).hexdigest()


def _look_at_source(
    config: Config, contracts: Sequence[TableContract]
) -> tuple[dict[str, ChangeStamp], datetime, dict[str, int]]:
    """What one source shows of its tables, by name, up to which moment (UTC), and about how many
    rows they have."""
    source = config.sources[contracts[0].source]
    places = {(c.database, c.table): c.name for c in contracts}
    try:
        with session(source) as connection:
            # First: what is visible then is visible to every later query.
            moment = read_reach(connection, source).shown if source.primary else None
            moment = moment or read_clock(connection)
            found = read_stamps(connection, [*places])
            rows = estimate_rows(connection, [*places])
    except SourceError as error:
        logger.info("source %s does not show what changed since its loads: %s", source.name, error)
        return {}, datetime.now(UTC), {}
    shown = {places[place]: stamp for place, stamp in found.items()}
    estimates = {places[place]: count for place, count in rows.items()}
    return shown, moment.replace(tzinfo=UTC), estimates


def _known(
    config: Config, ledger: Ledger, contracts: Sequence[TableContract], loads: Mapping[str, Load]
) -> dict[str, Stamp]:
    stamps = ledger.stamps([c.name for c in contracts])
    locations = metadata_locations(config.lake) if stamps else None
    if locations is None:
        return {}
    doubted = {*ledger.unproved_tables(), *ledger.refusals()}
    found: dict[str, Stamp] = {}
    for contract in contracts:
        stamp, load = stamps.get(contract.name), loads.get(contract.name)
        if stamp is None or load is None or contract.name in doubted:
            continue
        # Whatever came after the load that the stamp is of: a sync looks at it.
        if (
            (load.seq != stamp.seq and not contract.by_log)
            or load.state != "success"
            or load.receipt is None
        ):
            continue
        lake = _lake_state(locations, contract, load.raw_table)
        if stamp.terms == _terms(config, contract) and stamp.lake == lake:
            found[contract.name] = stamp
    return found


def _evidence(config: Config, stamp: Stamp, now: ChangeStamp) -> str | None:
    """By what a table is unchanged since its stamp; None where it may have changed, or was not read
    for so long that it is read whatever the source shows."""
    before = ChangeStamp.from_json(stamp.shown)
    limit = config.sources[stamp.table.partition(".")[0]].skip_unchanged
    clock = datetime.fromisoformat(now.clock).replace(tzinfo=UTC)
    if before is None or limit is None or not timedelta() <= clock - stamp.read_at < limit:
        return None
    return why_unchanged(before, now)


def _terms(config: Config, contract: TableContract) -> str:
    """A digest of all on which a load and its layers depend, but the table itself."""
    source = config.sources[contract.source]
    key = config.privacy.hash_key
    inputs = [
        mirrorlake.__version__,
        LEDGER_VERSION,
        contract.model_dump(mode="json"),
        [source.host, source.port, source.time_zone, source.time_zone_of],
        [source.primary.host, source.primary.port] if source.primary else None,
        fingerprint_of(key) if key is not None else None,
        config.lake.warehouse,
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _lake_state(locations: Mapping[_Place, str], contract: Mirrored, raw_table: str) -> str:
    """A digest of which versions of a table's raw, deduped and clean the catalog names: another
    one if anybody wrote to one of them, or replaced a view."""
    versions = [[*place, locations.get(place)] for place in _places(contract, raw_table)]
    return hashlib.sha256(json.dumps(versions).encode()).hexdigest()


def _places(contract: Mirrored, raw_table: str) -> list[_Place]:
    """Where a table's raw, deduped and clean are in the catalog."""
    spaces = contract.namespaces
    shown = ((space, contract.table) for space in (spaces.raw, spaces.deduped, spaces.clean))
    return [(spaces.raw, raw_table), *shown]
