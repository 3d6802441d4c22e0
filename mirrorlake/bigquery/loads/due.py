"""Which tables BigQuery does not have as the lake shows them, by the ledger and the lake alone.

What belongs here: the decision. What doesn't: starting anything, and asking Google.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mirrorlake.bigquery.api.names import bigquery_table
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.ledger import Publication, Publications
from mirrorlake.bigquery.loads.published_contracts import PublishedContract, lake_table_of
from mirrorlake.bigquery.loads.settle import went_into
from mirrorlake.config import Config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger

_SETTLE_AFTER = timedelta(minutes=5)
"""How long after a request jobs that still run are looked at again."""
RETRY_AFTER = timedelta(hours=1)
"""The same of a load that failed, or never began: it writes all of its files again."""


@dataclass(frozen=True)
class DueLoad:
    """A table to be published, and why.

    Attributes:
        version: the lake's version of deduped, or of a model.
    """

    contract: PublishedContract
    version: int
    why: str


def newest_in_bigquery(
    config: Config, newest: Mapping[str, Publication], contracts: Sequence[PublishedContract]
) -> dict[str, Publication]:
    """Of the newest publications those that went where the contract says now, by table."""
    settings = config.written_section(BigQueryConfig)
    project = settings.project if settings is not None else ""
    found: dict[str, Publication] = {}
    for contract in contracts:
        publication = newest.get(contract.name)
        if publication is None or not contract.in_bigquery:
            continue
        if went_into(publication, bigquery_table(project, lake_table_of(contract))):
            found[contract.name] = publication
    return found


def find_unpublished(
    config: Config,
    head: Callable[[Identifier], int | None],
    ledger: Ledger,
    contracts: Sequence[PublishedContract],
    requested: Mapping[str, datetime],
    now: datetime,
) -> Iterator[DueLoad]:
    """The tables whose publication is due. A table that a live run holds is not: that run, or the
    next look, will see to it.

    Args:
        head: the version that a lake table shows.
        requested: when each was requested before (UTC).

    Raises:
        LakeError: a table of the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    newest = newest_in_bigquery(config, Publications(ledger).newest(), contracts)
    for contract in contracts:
        version = head(lake_table_of(contract))
        if version is None:
            continue
        publication = newest.get(contract.name)
        why = _why(publication, version)
        running = publication is not None and publication.state == "pending"
        again = _SETTLE_AFTER if running else RETRY_AFTER
        before = requested.get(contract.name)
        if not why or ledger.is_held(contract.name):
            continue
        if before is None or now - before >= again:
            yield DueLoad(contract, version, why)


def _why(publication: Publication | None, version: int) -> str:
    """Why a version has to be published; '' where BigQuery has it."""
    if publication is None:
        return "it was never loaded into BigQuery"
    if publication.state == "pending":
        return f"its jobs in BigQuery are not settled: {publication.id}"
    if publication.state == "errored":
        return "its last load into BigQuery failed"
    return "" if publication.version == version else "the lake has a newer version"
