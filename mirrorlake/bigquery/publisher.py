"""BigQuery, as the core knows who publishes tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Final

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.ledger import (
    Publication,
    PublicationRefused,
    Publications,
    PublicationsRefused,
)
from mirrorlake.bigquery.named_versions import VersionsThere
from mirrorlake.config import Config
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.operations.publishers import (
    NamedVersion,
    PublicationStatus,
    PublishedVersions,
    Publisher,
    Unsettled,
)
from mirrorlake.operations.status.layer_status import newest_proof
from mirrorlake.proof.coverage.coverage import ProofStatus
from mirrorlake.runtime.outcomes import Failures, Outcomes

if TYPE_CHECKING:
    from mirrorlake.bigquery.loads.publish import PublishOutcome
    from mirrorlake.bigquery.loads.published_contracts import PublishedContract
    from mirrorlake.workspace import Leasable, Workspace


class _BigQuery(Publisher):
    title = "BigQuery"

    def address(self, config: Config) -> str | None:
        settings = config.written_section(BigQueryConfig)
        return settings.project if settings is not None else None

    def publish(self, config: Config, chosen: Sequence[Leasable]) -> Outcomes[PublishOutcome]:
        published = _in_bigquery(chosen)
        if not published:
            return Outcomes()  # a sync of none imports no client of Google's, and no PyIceberg
        from mirrorlake.bigquery.loads.publish import publish_all

        return publish_all(config, published)

    def begin_named(
        self, config: Config, ledger: Ledger, name: str, versions: Mapping[str, int]
    ) -> None:
        project = self.address(config)
        found = {
            one.name: (
                f"{project}.{one.namespaces.deduped}.{one.table}__at_{name}",
                versions[one.name],
            )
            for one in config.tables
            if one.in_bigquery and one.name in versions
        }
        there = VersionsThere(ledger)
        if found or there.of(name):
            there.begin(name, found)

    def publish_named(self, workspace: Workspace, name: str) -> PublishedVersions:
        if not VersionsThere(workspace.ledger).of(name):
            return PublishedVersions()  # none of Google's clients is imported
        from mirrorlake.bigquery.loads.named import publish_versions

        return publish_versions(workspace, name)

    def drop_named(self, workspace: Workspace, name: str) -> None:
        if VersionsThere(workspace.ledger).of(name):
            from mirrorlake.bigquery.loads.named import drop_versions

            drop_versions(workspace, name)

    def named(self, ledger: Ledger) -> Mapping[str, Sequence[NamedVersion]]:
        found: dict[str, list[NamedVersion]] = {}
        for one in VersionsThere(ledger).all():
            there = NamedVersion(one.table, one.state == "there", one.reads)
            found.setdefault(one.name, []).append(there)
        return found

    def print_published(self, done: Sequence[PublishOutcome]) -> None:
        from mirrorlake.bigquery.cli import print_published

        print_published(done)

    def settle(self, workspace: Workspace, contract: Leasable) -> str | None:
        from mirrorlake.bigquery.loads.open_clients import open_for
        from mirrorlake.bigquery.loads.settle import settle_newest

        newest = None
        for one in _in_bigquery([contract]):
            newest = Publications(workspace.ledger).newest().get(one.name)
            if newest is not None and newest.state == "pending":
                newest = settle_newest(workspace, one, open_for(workspace, [one]))
        return newest.state if newest is not None else None

    def unsettled(self, workspace: Workspace, names: Sequence[str]) -> Unsettled:
        """Models; those that do not compile, and have jobs, nobody may settle."""
        from mirrorlake.bigquery.models import models_in_bigquery
        from mirrorlake.models.contract_models import has_model

        config = workspace.config
        of_models = [name for name in names if has_model(config, name)]
        if names and not of_models:
            return Unsettled(frozenset(), (), [])
        models, broken = models_in_bigquery(config, lambda: workspace.lake, of_models)
        newest = Publications(workspace.ledger).newest()
        named = {f"{OF_MODELS}{name}": error for name, error in broken.items()}
        failures: Failures = [
            (name, error)
            for name, error in named.items()
            if name in newest and newest[name].state == "pending"
        ]
        return Unsettled(frozenset(of_models), models, failures)

    def statuses(
        self, config: Config, ledger: Ledger, names: Collection[str] | None
    ) -> Mapping[str, PublicationStatus]:
        found, refused = Publications(ledger).newest(), PublicationsRefused(ledger).all()
        if names is not None:  # What is published no more can't be refused any more.
            going = {one.name for one in config.in_bigquery}
            refused = {name: why for name, why in refused.items() if name in going}
        return {
            name: _status(ledger, name, found.get(name), refused.get(name))
            for name in {**found, **refused}
            if (name.startswith(OF_MODELS) if names is None else name in names)
        }

    def loaded(self, ledger: Ledger) -> Collection[str]:
        return Publications(ledger).newest("success")


BIGQUERY: Final = _BigQuery()


def _in_bigquery(chosen: Sequence[Leasable]) -> list[PublishedContract]:
    """Those of some tables and models that are published in BigQuery."""
    from mirrorlake.config import TableContract, TenantTable
    from mirrorlake.models.bigquery.published import PublishedModel

    return [
        one
        for one in chosen
        if isinstance(one, TableContract | TenantTable | PublishedModel) and one.in_bigquery
    ]


def _status(
    ledger: Ledger, table: str, newest: Publication | None, refused: PublicationRefused | None
) -> PublicationStatus:
    at = refused.at.replace(tzinfo=UTC).isoformat(timespec="seconds") if refused else ""
    error = refused.error if refused is not None else None
    if newest is None:
        return PublicationStatus("errored", 0, "", None, None, at, at, error)
    ended, proved = newest.completed_at, publication_proved(ledger, table)
    status = PublicationStatus(
        state=newest.state,
        version=newest.version,
        job=newest.id,
        rows=newest.rows,
        bytes=newest.bytes,
        submitted=newest.submitted_at.replace(tzinfo=UTC).isoformat(timespec="seconds"),
        completed=ended.replace(tzinfo=UTC).isoformat(timespec="seconds") if ended else None,
        error=newest.error,
        proved=proved,
        words=_compared(ledger, table) if proved is None else None,
    )
    if refused is None or refused.at < newest.submitted_at:
        return status
    return replace(status, state="errored", submitted=at, error=error)


def _compared(ledger: Ledger, table: str) -> str:
    """Of one that is there, and not proved: what the newest check found."""
    proof = newest_proof(ledger, table, "bigquery")
    if proof is None:
        return "loaded, not compared yet"
    return f"loaded; {proof.verdict} by its newest check: {proof.words}"


def publication_proved(ledger: Ledger, table: str) -> ProofStatus | None:
    """What the newest check found BigQuery to have as the lake has it, and how many loads came
    since; None where it found nothing equal."""
    proof = newest_proof(ledger, table, "bigquery")
    if proof is None or proof.verdict != "equal":
        return None
    loads = (one for one in Publications(ledger).of_table(table) if one.state == "success")
    since = sum(1 for one in loads if one.submitted_at.timestamp() > proof.started_at.timestamp())
    at = proof.started_at.isoformat(timespec="seconds")
    return ProofStatus(at, proof.rows, whole=True, loads_since=since)
