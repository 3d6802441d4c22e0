"""What `permissions.yaml` declares against who may really do what: planned, applied, verified.

One dataset is changed by one request, which replaces all of its entries and is refused where
somebody changed the dataset since it was read. Each change is in the ledger before it is made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mirrorlake.config import Config, load_permissions, permissions_path
from mirrorlake.config.grants import AUTHORISED, Grant
from mirrorlake.config.permissions import DatasetPermissions
from mirrorlake.destinations.bigquery.access import AccessChange, change_between, refusal_of
from mirrorlake.destinations.bigquery.access_requests import DatasetAccess
from mirrorlake.destinations.bigquery.client import BigQuery, open_bigquery
from mirrorlake.errors import BigQueryError, ConfigError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.access import GrantRecord
from mirrorlake.models.declaration import read_declarations
from mirrorlake.models.external import all_externals
from mirrorlake.models.model_files import FOLDER
from mirrorlake.models.published import published_models

logger = logging.getLogger(__name__)

TRIES = 3
"""How often a dataset is read again that somebody else changes at the same time."""
AccessVerdict: TypeAlias = Literal["as declared", "different", "not declared"]


@dataclass(frozen=True)
class AccessPlan:
    """What applying brings, or brought, to one dataset.

    Attributes:
        adds, removes: ``principal``, ``role``, and where there is one ``reason``.
    """

    dataset: str
    adds: Sequence[GrantRecord]
    removes: Sequence[GrantRecord]

    @property
    def moves(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.adds or self.removes)


@dataclass(frozen=True)
class VerifiedAccess:
    """Whether a dataset's access is what is declared.

    Attributes:
        adds: what is declared and is not there; removes: what is there and is not declared.
        filled_by: of one that is not declared, who writes to it.
    """

    dataset: str
    verdict: AccessVerdict
    adds: Sequence[GrantRecord] = ()
    removes: Sequence[GrantRecord] = ()
    filled_by: str | None = None


@dataclass(frozen=True)
class TriedAccess:
    """What became of one dataset: what was changed, or why it was not."""

    dataset: str
    done: AccessPlan | None = None
    error: MirrorlakeError | None = None


def with_views(
    config: Config, declared: Sequence[DatasetPermissions]
) -> tuple[DatasetPermissions, ...]:
    """What is declared, and that the datasets of the contract's views may read those of its tables,
    which nobody has to write."""
    settings = config.bigquery
    loaded = {contract.namespaces.deduped for contract in config.in_bigquery}
    if settings is None:
        return tuple(declared)
    found: list[DatasetPermissions] = []
    for one in declared:
        kinds = settings.views if one.dataset in loaded else ()
        names = [settings.views_dataset(one.dataset, kind) for kind in kinds]
        views = {Grant(f"dataset:{settings.project}.{name}", AUTHORISED) for name in names}
        new = dict.fromkeys(views - one.grants, f"views of {config.path.name}")
        found.append(replace(one, grants=one.grants | views, reasons={**one.reasons, **new}))
    return tuple(found)


def plan_permissions(
    bigquery: BigQuery, declared: Sequence[DatasetPermissions]
) -> list[AccessPlan]:
    """What applying would change. Nothing is touched.

    Raises:
        BigQueryError: a dataset is not there, or BigQuery can't be asked.
        ConfigError: it would lock somebody out who must not be.
    """
    return _planned(bigquery, bigquery.runner(), declared)


def apply_permissions(
    bigquery: BigQuery, ledger: Ledger, declared: Sequence[DatasetPermissions]
) -> list[TriedAccess]:
    """Bring each dataset's access to what is declared; one that fails holds up no other.

    Raises:
        BigQueryError, ConfigError: as of `plan_permissions`, of any dataset; nothing was changed.
    """
    runner = bigquery.runner()
    _planned(bigquery, runner, declared)
    tried: list[TriedAccess] = []
    for one in declared:
        try:
            done = _bring(bigquery, ledger, runner, one)
        except MirrorlakeError as error:
            tried.append(TriedAccess(one.dataset, error=error))
        else:
            tried.append(TriedAccess(one.dataset, _plan(one, done)))
    return tried


def verify_permissions(
    bigquery: BigQuery, config: Config, declared: Sequence[DatasetPermissions]
) -> list[VerifiedAccess]:
    """Compare what is with what is declared. Datasets of tables and of views of which nothing is
    declared are among them, as are those of tables that are made elsewhere.

    Raises:
        BigQueryError: a dataset is not there, or BigQuery can't be asked.
        ModelError: a file of a table that is made elsewhere can't be read.
    """
    found: list[VerifiedAccess] = []
    for one in declared:
        plan = _plan(one, change_between(_there(bigquery, one.dataset).grants, one.grants))
        verdict: AccessVerdict = "different" if plan.moves else "as declared"
        found.append(VerifiedAccess(one.dataset, verdict, plan.adds, plan.removes))
    filled = {**_written_elsewhere(config), **dict.fromkeys(_datasets(config), "Mirrorlake")}
    for dataset in sorted(filled.keys() - {one.dataset for one in declared}):
        found.append(VerifiedAccess(dataset, "not declared", filled_by=filled[dataset]))
    return found


def _written_elsewhere(config: Config) -> dict[str, str]:
    """The project's datasets with tables that are made elsewhere; each with the first of them.

    Raises:
        ModelError: a file can't be read, so that nobody knows which dataset it is about.
    """
    settings, found = config.bigquery, dict[str, str]()
    for one in all_externals(config.path.parent / FOLDER):
        in_project = settings is not None and one.project in (None, settings.project)
        if one.format == "bigquery" and in_project:
            found.setdefault(one.table[0], f"somebody else ({one.name})")
    return found


def open_declared(config: Config, path: Path) -> tuple[BigQuery, tuple[DatasetPermissions, ...]]:
    """The project's clients, and what a permissions file declares of its datasets.

    Raises:
        ConfigError: the file can't be read, or the contract has no section bigquery.
    """
    if config.bigquery is None:
        raise ConfigError(
            f"{config.path} has no bigquery section",
            next_step="Write one with project and bucket: docs/configuration.md#bigquery",
        )
    declared = with_views(config, load_permissions(path, config.bigquery.project))
    return open_bigquery(config.bigquery), declared


def verify_declared(config: Config) -> list[VerifiedAccess]:
    """`verify_permissions` by the permissions file beside a contract file.

    Raises:
        ConfigError: see `open_declared`.
        BigQueryError: a dataset is not there, or BigQuery can't be asked.
    """
    bigquery, declared = open_declared(config, permissions_path(config))
    return verify_permissions(bigquery, config, declared)


def _datasets(config: Config) -> set[str]:
    """The datasets that tables are loaded into, those of their views, and those of models.

    Raises:
        ModelError: a model's file can't be read, so that nobody knows whether it is among them.
    """
    settings = config.bigquery
    if settings is None:
        return set()
    declared, unread = read_declarations(config.path.parent / FOLDER)
    unread.raise_problems()
    of_models = {one.identifier.namespace for one in published_models(declared)}
    loaded = {contract.namespaces.deduped for contract in config.in_bigquery}
    of_models |= loaded
    return of_models | {
        settings.views_dataset(one, kind) for one in loaded for kind in settings.views
    }


def _planned(
    bigquery: BigQuery, runner: str, declared: Sequence[DatasetPermissions]
) -> list[AccessPlan]:
    return [
        _plan(one, _allowed(one, _there(bigquery, one.dataset).grants, runner)) for one in declared
    ]


def _bring(
    bigquery: BigQuery, ledger: Ledger, runner: str, declared: DatasetPermissions
) -> AccessChange:
    """Change one dataset until it is read as declared; what was changed."""
    place = f"{bigquery.config.project}.{declared.dataset}"
    made, left = AccessChange(), TRIES
    while True:
        read = _there(bigquery, declared.dataset)
        _settle(ledger, place, read)
        change = _allowed(declared, read.grants, runner)
        if not change:
            return made
        if not left:
            break
        left -= 1
        plan = _plan(declared, change)
        number = ledger.begin_access_change(place, runner, plan.adds, plan.removes)
        failpoint("access.begun")
        if _write(bigquery, ledger, number, read, declared):
            made = change
    raise BigQueryError(
        f"dataset {place} is not as declared after {TRIES} changes: {_words(change)}",
        next_step="See in its audit log who changes it, or what Google makes of these principals",
        retryable=True,
    )


def _write(
    bigquery: BigQuery,
    ledger: Ledger,
    number: int,
    read: DatasetAccess,
    declared: DatasetPermissions,
) -> bool:
    """Make a change that the ledger has, and record how it ended."""
    try:
        written = bigquery.write_access(read, declared.grants)
    except BigQueryError as error:
        if error.retryable:
            # The answer may be lost: the next run sees whether it was done.
            raise BigQueryError(
                f"{error.message}; whether it was changed is not known",
                next_step="Apply it again: what was done already is seen then",
                retryable=True,
            ) from error
        ledger.access_change_ended(number, "refused", str(error))
        raise
    failpoint("access.written")
    if not written:
        # Google's client sends a request again whose answer was lost: then it was ours that moved
        # the etag.
        written = _there(bigquery, read.dataset).grants == declared.grants
    words = None if written else "somebody changed the dataset at the same time"
    ledger.access_change_ended(number, "applied" if written else "refused", words)
    if words is not None:
        logger.warning("dataset %s: %s; it is planned again", read.dataset, words)
    return written


def _settle(ledger: Ledger, place: str, read: DatasetAccess) -> None:
    """Record how changes ended whose run died before it could."""
    for change in ledger.access_changes(place, pending=True):
        adds, removes = ({_grant(one) for one in part} for part in (change.adds, change.removes))
        if adds <= read.grants and not removes & read.grants:
            ledger.access_change_ended(change.number, "applied", "seen by a later run")
        else:
            words = "the run that began it died, and the dataset is not as it would be after it"
            ledger.access_change_ended(change.number, "unknown", words)


def _there(bigquery: BigQuery, dataset: str) -> DatasetAccess:
    found = bigquery.access(dataset)
    if found is None:
        project, location = bigquery.config.project, bigquery.config.location
        raise BigQueryError(
            f"there is no dataset {project}.{dataset} in BigQuery",
            next_step=f"Make it: bq mk --dataset --location={location} {project}:{dataset}",
        )
    return found


def _allowed(declared: DatasetPermissions, there: frozenset[Grant], runner: str) -> AccessChange:
    """What is to be changed.

    Raises:
        ConfigError: it may not be: nothing was changed.
    """
    change = change_between(there, declared.grants)
    refused = refusal_of(there, declared.grants, runner) if change else None
    if refused is not None:
        raise ConfigError(
            f"{declared.place}: datasets.{declared.dataset}: {refused}",
            next_step="Declare it, or let another owner apply it; nothing was changed",
        )
    return change


def _plan(declared: DatasetPermissions, change: AccessChange) -> AccessPlan:
    adds, removes = (_records(part, declared) for part in (change.adds, change.removes))
    return AccessPlan(declared.dataset, adds, removes)


def _records(grants: Iterable[Grant], declared: DatasetPermissions) -> list[GrantRecord]:
    return [
        {"principal": grant.principal, "role": grant.role}
        | ({"reason": declared.reasons[grant]} if grant in declared.reasons else {})
        for grant in grants
    ]


def _grant(record: GrantRecord) -> Grant:
    return Grant(record["principal"], record["role"])


def _words(change: AccessChange) -> str:
    parts = [f"{grant} is missing" for grant in change.adds]
    parts += [f"{grant} is there and not declared" for grant in change.removes]
    return ", ".join(parts)
