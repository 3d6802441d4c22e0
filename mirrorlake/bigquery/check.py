"""Check: is what BigQuery has of a table what the lake has? Both sides are read and digested.

A difference is a verdict; a side that can't be read is an error; what was not compared is
undecided.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import pyarrow as pa

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.job_costs import JobCost
from mirrorlake.bigquery.api.names import bigquery_table
from mirrorlake.bigquery.api.statements import digest_sql
from mirrorlake.bigquery.lake_digest import digest_rows
from mirrorlake.bigquery.loads.published_contracts import PublishedContract, lake_table_of
from mirrorlake.bigquery.loads.settle import publications_into, record_cost, settle_newest
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.destinations.base import EVERY_ROW, Identifier
from mirrorlake.destinations.iceberg.reading.stream import read_rows
from mirrorlake.ledger import LayerProof
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.proof.comparing.report import code_version
from mirrorlake.runtime.google.tables import BigQueryTable
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace

LAYER = "bigquery"
"""Under which layer the ledger keeps these proofs."""
CheckedAs: TypeAlias = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class BigQueryVerdict:
    """The verdict on one table.

    Attributes:
        verdict: ``equal``, ``different`` or ``undecided``.
        words: what was found, or why it can't be decided; '' where it is equal.
        version: the lake's version that was compared.
        rows, digest: of BigQuery's table; lake_rows, lake_digest: of the lake's.
        cost: what the query took of BigQuery; None where none was made.
    """

    table: str
    verdict: CheckedAs
    words: str
    version: int | None = None
    rows: int | None = None
    digest: str = ""
    lake_rows: int | None = None
    lake_digest: str = ""
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
) -> BigQueryVerdict:
    """Compare every row of the version that was loaded last, and keep the verdict.

    Raises:
        BigQueryError: BigQuery can't be read.
        LakeError: the lake can't be read.
        LeaseHeld: another run holds the table.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    with workspace.leased(contract) as leased:
        settle_newest(leased, contract, bigquery)
        found = _compare(leased, contract, bigquery)
        proof = _proof(found, started, time.monotonic() - clock)
        leased.ledger.record_layer_proofs([proof])
        if found.cost is not None:
            record_cost(leased.ledger, contract.name, "check", found.cost)
    return found


def estimate_check(contract: PublishedContract, bigquery: BigQuery) -> CheckEstimate:
    """What a check would read in BigQuery, and bill; nothing is compared.

    Raises:
        BigQueryError: BigQuery can't be asked.
    """
    target = bigquery_table(bigquery.config.project, lake_table_of(contract))
    fields = bigquery.fields_of(target)
    read = None if fields is None else bigquery.estimate(digest_sql(str(target), fields))
    return CheckEstimate(contract.name, read)


def _compare(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery
) -> BigQueryVerdict:
    """The verdict on what the newest load brought."""
    table, name = lake_table_of(contract), contract.name
    target = bigquery_table(bigquery.config.project, table)
    newest = next(iter(publications_into(workspace.ledger, name, target)), None)
    if newest is None:
        return BigQueryVerdict(name, "undecided", "it was never loaded into BigQuery")
    if newest.state != "success":
        words = f"its last load into BigQuery is {newest.state}"
        return BigQueryVerdict(name, "undecided", words)
    form = PublishedForm.from_json(newest.form)
    if not form.is_under(workspace.config.privacy.hash_key):
        words = "its hashes were loaded under another privacy.hash_key: publish it first"
        return BigQueryVerdict(name, "undecided", words, newest.version)
    rows = _lake_rows(workspace, table, newest.version, form)
    if rows is None:
        words = "the lake no longer has the version that was loaded"
        return BigQueryVerdict(name, "undecided", words, newest.version)
    fields = bigquery.fields_of(target)
    if fields != form.columns:
        return BigQueryVerdict(name, "different", _of_columns(target, fields), newest.version)
    job = f"mirrorlake_check_{uuid.uuid4().hex}"
    found, cost = bigquery.read_counted(job, digest_sql(str(target), form.columns))
    return _verdict(name, newest.version, found, digest_rows(rows), cost)


def _verdict(
    table: str, version: int, bigquery: tuple[int, ...], lake: tuple[int, ...], cost: JobCost
) -> BigQueryVerdict:
    equal = bigquery == lake
    words = f"BigQuery has {plural(bigquery[0], 'row')}, the lake {lake[0]:,}"
    if not equal and bigquery[0] == lake[0]:
        words = f"{plural(bigquery[0], 'row')} on both sides, and not the same ones"
    return BigQueryVerdict(
        table=table,
        verdict="equal" if equal else "different",
        words="" if equal else words,
        version=version,
        rows=bigquery[0],
        digest=_digest(bigquery),
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


def _of_columns(target: BigQueryTable, fields: object) -> str:
    if fields is None:
        return f"table {target} is not in BigQuery any more"
    return f"table {target} has other columns than it was loaded with"


def _digest(sums: tuple[int, ...]) -> str:
    return "".join(f"{part:016x}" for part in sums[1:])


def _proof(found: BigQueryVerdict, started: datetime, seconds: float) -> LayerProof:
    layer = "model" if found.table.startswith(OF_MODELS) else "deduped"
    return LayerProof(
        check_id=uuid.uuid4().hex,
        table=found.table,
        layer=LAYER,
        verdict=found.verdict,
        words=found.words,
        compared="" if found.rows is None else f"every row of version {found.version}",
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
