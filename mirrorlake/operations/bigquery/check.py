"""Check: is what BigQuery has of a table what the lake has? Both sides are read and digested.

A difference is a verdict; a side that can't be read is an error; what was not compared is
undecided.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import pyarrow as pa

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import EVERY_ROW, Identifier
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.job_costs import JobCost, summed
from mirrorlake.destinations.bigquery.names import BigQueryTable, table_there
from mirrorlake.destinations.bigquery.statements import digest_sql
from mirrorlake.destinations.iceberg.stream import read_rows
from mirrorlake.ledger import LayerProof
from mirrorlake.ledger.lake_heads import OF_MODELS
from mirrorlake.ledger.publications import Publication, raw_publication
from mirrorlake.models.published import PublishedModel
from mirrorlake.operations.bigquery.form import PublishedForm
from mirrorlake.operations.bigquery.in_place import (
    fields_in_place,
    name_in_catalog,
    read_in_place,
)
from mirrorlake.operations.bigquery.lake_digest import digest_rows
from mirrorlake.operations.bigquery.raw_there import settle_newest
from mirrorlake.operations.bigquery.settle import publications_there, record_cost
from mirrorlake.operations.bigquery.tables import (
    MirroredContract,
    PublishedContract,
    lake_table_of,
)
from mirrorlake.proof.report import code_version
from mirrorlake.workspace import Workspace

LAYER = "bigquery"
"""Under which layer the ledger keeps these proofs."""
CheckedAs: TypeAlias = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class CheckedThere:
    """The verdict on one table.

    Attributes:
        verdict: ``equal``, ``different`` or ``undecided``.
        words: what was found, or why it can't be decided; '' where it is equal.
        version: the lake's version that was compared.
        rows, digest: of BigQuery's table; lake_rows, lake_digest: of the lake's.
        under: how many tables under it were compared as well: raw's, of a view over them.
        cost: what the queries took there; None where none was made.
    """

    table: str
    verdict: CheckedAs
    words: str
    version: int | None = None
    rows: int | None = None
    digest: str = ""
    lake_rows: int | None = None
    lake_digest: str = ""
    under: int = 0
    cost: JobCost | None = None


@dataclass(frozen=True)
class CheckEstimate:
    """What a check of one table would read in BigQuery.

    Attributes:
        bytes: as BigQuery says without reading them; None where it does not say it, or nothing
            would be read.
    """

    table: str
    bytes: int | None


def check_published(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery
) -> CheckedThere:
    """Compare every row of the version that was loaded last, and keep the verdict; of a table that
    BigQuery reads in the lake, of the version that the lake shows.

    Raises:
        BigQueryError: BigQuery can't be read.
        LakeError: the lake can't be read.
        LeaseHeld: another run holds the table.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    with workspace.leased(contract) as leased:
        settle_newest(leased, contract, bigquery)
        parts = _compare(leased, contract, bigquery)
        found = _joined(contract, parts)
        proof = _proof(found, started, time.monotonic() - clock)
        leased.ledger.record_layer_proofs([proof])
        for cost in (part.cost for part in parts):
            if cost is not None:
                record_cost(leased.ledger, contract.name, "check", cost)
    return found


def estimate_check(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery
) -> CheckEstimate:
    """What a check would read in BigQuery, and bill; nothing is compared.

    Raises:
        BigQueryError: BigQuery can't be asked.
        LakeError: the lake can't be read.
    """
    if (in_place := read_in_place(contract)) is not None:
        table = workspace.lake.load(lake_table_of(contract))
        if table is None or table.current_snapshot() is None:
            return CheckEstimate(contract.name, None)
        source = name_in_catalog(workspace.config, in_place)
        fields = fields_in_place(in_place, table)
        return CheckEstimate(contract.name, bigquery.estimate(digest_sql(str(source), fields)))
    tables = [lake_table_of(contract)]
    if isinstance(contract, TableContract) and contract.raw_in_bigquery:
        versions = workspace.ledger.schema_versions(contract.name)
        tables += [Identifier(contract.namespaces.raw, one.raw_table) for one in versions]
    read: list[int | None] = []
    for table in tables:
        target = table_there(bigquery.config.project, table)
        there = bigquery.fields_of(target)
        if there is not None:
            read.append(bigquery.estimate(digest_sql(str(target), there)))
    known = [one for one in read if one is not None]
    return CheckEstimate(contract.name, sum(known) if read and len(known) == len(read) else None)


def _compare_in_place(
    workspace: Workspace, contract: MirroredContract, bigquery: BigQuery
) -> CheckedThere:
    """What BigQuery reads of the lake's table, and what the lake has. The caller holds the lease:
    nobody folds into it between the two."""
    source = name_in_catalog(workspace.config, contract)
    table = workspace.lake.load(lake_table_of(contract))
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return CheckedThere(contract.name, "undecided", "the lake has no such table yet")
    fields, version = fields_in_place(contract, table), snapshot.snapshot_id
    job = f"mirrorlake_check_{uuid.uuid4().hex}"
    found, cost = bigquery.read_counted(job, digest_sql(str(source), fields))
    names = [field["name"] for field in fields]
    batches = read_rows(workspace.lake, table, names, EVERY_ROW, version)
    rows = digest_rows(batch.select(names) for batch in batches)
    return _verdict(contract.name, version, found, rows, cost)


def _compare(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery
) -> list[CheckedThere]:
    """The verdict on the table, or the view, of a contract; before it, of one whose raw is loaded,
    those on raw's tables, under their publications' names."""
    if (in_place := read_in_place(contract)) is not None:
        return [_compare_in_place(workspace, in_place, bigquery)]
    target = table_there(bigquery.config.project, lake_table_of(contract))
    newest = next(iter(publications_there(workspace.ledger, contract.name, target)), None)
    if newest is None:
        return [CheckedThere(contract.name, "undecided", "it was never loaded into BigQuery")]
    if newest.state != "success":
        words = f"its last load into BigQuery is {newest.state}"
        return [CheckedThere(contract.name, "undecided", words)]
    form = PublishedForm.from_json(newest.form)
    found = [
        _compare_raw(workspace, contract, bigquery, name, version) for name, version in form.raw
    ]
    return [*found, _compare_one(workspace, newest, lake_table_of(contract), target, bigquery)]


def _compare_raw(
    workspace: Workspace,
    contract: PublishedContract,
    bigquery: BigQuery,
    name: str,
    version: int,
) -> CheckedThere:
    """The verdict on one raw table, at the version that the views were made over."""
    table = Identifier(_raw_namespace(contract), name)
    target = table_there(bigquery.config.project, table)
    known_as = raw_publication(contract.name, name)
    newest = next(iter(publications_there(workspace.ledger, known_as, target)), None)
    if newest is None or (newest.state, newest.version) != ("success", version):
        words = "it is loaded, or was, after the views were made: publish it first"
        return CheckedThere(known_as, "undecided", words)
    return _compare_one(workspace, newest, table, target, bigquery)


def _raw_namespace(contract: PublishedContract) -> str:
    return "" if isinstance(contract, PublishedModel) else contract.namespaces.raw


def _compare_one(
    workspace: Workspace,
    newest: Publication,
    table: Identifier,
    target: BigQueryTable,
    bigquery: BigQuery,
) -> CheckedThere:
    """The verdict on what one publication brought there."""
    form, name = PublishedForm.from_json(newest.form), newest.table
    if not form.is_under(workspace.config.privacy.hash_key):
        words = "its hashes were loaded under another privacy.hash_key: publish it first"
        return CheckedThere(name, "undecided", words, newest.version)
    rows = _lake_rows(workspace, table, newest.version, form)
    if rows is None:
        words = "the lake no longer has the version that was loaded"
        return CheckedThere(name, "undecided", words, newest.version)
    there = bigquery.fields_of(target)
    if there != form.columns:
        return CheckedThere(name, "different", _of_columns(target, there), newest.version)
    job = f"mirrorlake_check_{uuid.uuid4().hex}"
    found, cost = bigquery.read_counted(job, digest_sql(str(target), form.columns))
    return _verdict(name, newest.version, found, digest_rows(rows), cost)


def _joined(contract: PublishedContract, parts: Sequence[CheckedThere]) -> CheckedThere:
    """The verdict on all of a table: that on its own rows, unless a table under it differs, or was
    not compared."""
    *under, own = parts
    if not under:
        return own
    verdicts = {one.verdict for one in parts}
    verdict = next(one for one in ("different", "undecided", "equal") if one in verdicts)
    named = [(one, "the view of current rows") for one in (own,) if one.words]
    named += [(one, one.table) for one in under if one.words]
    costs = [one.cost for one in parts if one.cost is not None]
    return replace(
        own,
        table=contract.name,
        verdict=verdict,
        words="; ".join(f"{name}: {one.words}" for one, name in named),
        under=len(under),
        cost=summed(costs) if costs else None,
    )


def _verdict(
    table: str, version: int, there: tuple[int, ...], lake: tuple[int, ...], cost: JobCost
) -> CheckedThere:
    equal = there == lake
    words = f"BigQuery has {there[0]:,} rows, the lake {lake[0]:,}"
    if not equal and there[0] == lake[0]:
        words = f"{there[0]:,} rows on both sides, and not the same ones"
    return CheckedThere(
        table=table,
        verdict="equal" if equal else "different",
        words="" if equal else words,
        version=version,
        rows=there[0],
        digest=_digest(there),
        lake_rows=lake[0],
        lake_digest=_digest(lake),
        cost=cost,
    )


def _lake_rows(
    workspace: Workspace, identifier: Identifier, version: int, form: PublishedForm
) -> Iterator[pa.RecordBatch] | None:
    """The rows of a version as they were loaded, in the order of the form's columns."""
    table = workspace.lake.load(identifier)
    if table is None or table.snapshot_by_id(version) is None:
        return None
    batches = read_rows(workspace.lake, table, form.read, EVERY_ROW, version)
    hash_key = workspace.config.privacy.hash_key
    return (form.shown(batch.select(form.read), hash_key) for batch in batches)


def _of_columns(target: BigQueryTable, there: object) -> str:
    if there is None:
        return f"table {target} is not in BigQuery any more"
    return f"table {target} has other columns than it was loaded with"


def _digest(sums: tuple[int, ...]) -> str:
    return "".join(f"{part:016x}" for part in sums[1:])


def _compared(found: CheckedThere) -> str:
    if found.rows is None:
        return ""
    under = f", and of {found.under} tables of raw under it" if found.under else ""
    return f"every row of version {found.version}{under}"


def _proof(found: CheckedThere, started: datetime, seconds: float) -> LayerProof:
    layer = "model" if found.table.startswith(OF_MODELS) else "deduped"
    return LayerProof(
        check_id=uuid.uuid4().hex,
        table=found.table,
        layer=LAYER,
        verdict=found.verdict,
        words=found.words,
        compared=_compared(found),
        rows=found.rows or 0,
        digest=found.digest,
        expected_rows=found.lake_rows or 0,
        expected_digest=found.lake_digest,
        snapshots=f"{layer} {found.version}",
        through_seq=0,
        code=code_version(),
        started_at=started,
        seconds=seconds,
    )
