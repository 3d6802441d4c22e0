"""Who may do what with each dataset against what is declared: planned, applied, verified.

One dataset is changed by one request, which replaces all of its entries and is refused where
somebody changed the dataset since it was read. Each change is in the ledger before it is made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.config import Config
from mirrorlake.errors import BigQueryError, ConfigError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.models.bigquery.published import PublishedModel, published_models
from mirrorlake.models.files.declaration import read_declarations
from mirrorlake.models.files.external_table import ExternalDeclaration, all_externals
from mirrorlake.models.files.model_files import FOLDER
from mirrorlake.permissions.access_changes import (
    AccessPlan,
    VerifiedAccess,
    difference_words,
    records,
    settle_changes,
    unknown_outcome,
    verified,
)
from mirrorlake.permissions.access_entries import AccessChange, change_between, refusal_of
from mirrorlake.permissions.access_requests import AccessRequests, DatasetAccess
from mirrorlake.permissions.declared_datasets import DatasetPermissions
from mirrorlake.permissions.grants import AUTHORISED, Grant
from mirrorlake.permissions.ledger import AccessChanges

logger = logging.getLogger(__name__)

TRIES = 3
"""How often a dataset is read again that somebody else changes at the same time."""


def with_views(
    config: Config, declared: Sequence[DatasetPermissions]
) -> tuple[DatasetPermissions, ...]:
    """What is declared, and that the datasets of the contract's views may read those of its tables,
    which nobody has to write.

    Raises:
        ModelError: a file of a table that is made elsewhere can't be read.
    """
    settings = config.written_section(BigQueryConfig)
    if settings is None:
        return tuple(declared)
    names_of = _datasets_of_views(config, settings)
    found: list[DatasetPermissions] = []
    for one in declared:
        names = names_of.get(one.dataset, ())
        views = {Grant(f"dataset:{settings.project}.{name}", AUTHORISED) for name in names}
        new = dict.fromkeys(views - one.grants, f"views of {config.path.name}")
        found.append(replace(one, grants=one.grants | views, reasons={**one.reasons, **new}))
    return tuple(found)


def plan_datasets(
    bigquery: AccessRequests, runner: str, declared: Sequence[DatasetPermissions]
) -> list[AccessPlan]:
    """What applying would change. Nothing is touched.

    Args:
        runner: the principal that would apply it.

    Raises:
        BigQueryError: a dataset is not there, or BigQuery can't be asked.
        ConfigError: it would lock somebody out who must not be.
    """
    return [
        _plan(one, _allowed(one, _there(bigquery, one.dataset).grants, runner)) for one in declared
    ]


def apply_dataset(
    bigquery: AccessRequests, ledger: Ledger, runner: str, declared: DatasetPermissions
) -> AccessPlan:
    """Bring a dataset's access to what is declared; what was changed.

    Raises:
        BigQueryError, ConfigError: as of `plan_datasets`, or it is not as declared.
    """
    return _plan(declared, _bring(bigquery, ledger, runner, declared))


def verify_datasets(
    bigquery: AccessRequests, config: Config, declared: Sequence[DatasetPermissions]
) -> list[VerifiedAccess]:
    """Compare what is with what is declared. Datasets of tables and of views of which nothing is
    declared are among them, as are those of tables that are made elsewhere.

    Raises:
        BigQueryError: a dataset is not there, or BigQuery can't be asked.
        ModelError: a file of a table that is made elsewhere can't be read.
    """
    found = [
        verified(_plan(one, change_between(_there(bigquery, one.dataset).grants, one.grants)))
        for one in declared
    ]
    filled = {**_written_elsewhere(config), **dict.fromkeys(_datasets(config), "Mirrorlake")}
    for dataset in sorted(filled.keys() - {one.dataset for one in declared}):
        found.append(VerifiedAccess(dataset, "not declared", filled_by=filled[dataset]))
    return found


def _written_elsewhere(config: Config) -> dict[str, str]:
    """The project's datasets with tables that are made elsewhere; each with the first of them.

    Raises:
        ModelError: a file can't be read, so that nobody knows which dataset it is about.
    """
    found: dict[str, str] = {}
    for one in _externals(config):
        found.setdefault(one.table[0], f"somebody else ({one.name})")
    return found


def _externals(config: Config) -> list[ExternalDeclaration]:
    """The tables of the contract's project that are made elsewhere.

    Raises:
        ModelError: a file can't be read.
    """
    settings = config.written_section(BigQueryConfig)
    return [
        one
        for one in all_externals(config.path.parent / FOLDER)
        if one.format == "bigquery"
        and settings is not None
        and one.project in (None, settings.project)
    ]


def _datasets(config: Config) -> set[str]:
    """The datasets that tables are loaded into, those of their views, and those of models.

    Raises:
        ModelError: a model's file can't be read, so that nobody knows whether it is among them.
    """
    settings = config.written_section(BigQueryConfig)
    if settings is None:
        return set()
    views = chain.from_iterable(_datasets_of_views(config, settings).values())
    of_models = (one.identifier.namespace for one in models_in_bigquery(config))
    return {*config.datasets_of_tables, *views, *of_models}


def _datasets_of_views(config: Config, settings: BigQueryConfig) -> Mapping[str, Sequence[str]]:
    """Dataset of tables → those of its views: of tables that are loaded, and of tables made
    elsewhere whose files say `clean`.

    Raises:
        ModelError: a file of a table that is made elsewhere can't be read.
    """
    shown = {one.table[0] for one in _externals(config) if one.clean is not None}
    return {one: [settings.views_dataset(one, "clean")] for one in shown} | {
        one: settings.views_datasets(one) for one in config.datasets_of_tables
    }


def models_in_bigquery(config: Config) -> Sequence[PublishedModel]:
    """The models that are loaded into BigQuery.

    Raises:
        ModelError: a model's file can't be read, so that nobody knows whether it is among them.
    """
    declared, unread = read_declarations(config.path.parent / FOLDER)
    unread.raise_problems()
    return published_models(declared)


def _bring(
    bigquery: AccessRequests, ledger: Ledger, runner: str, declared: DatasetPermissions
) -> AccessChange:
    """Change one dataset until it is read as declared; what was changed."""
    place = f"{bigquery.config.project}.{declared.dataset}"
    made, left = AccessChange(), TRIES
    while True:
        read = _there(bigquery, declared.dataset)
        settle_changes(ledger, place, read.grants)
        change = _allowed(declared, read.grants, runner)
        if not change:
            return made
        if not left:
            break
        left -= 1
        plan = _plan(declared, change)
        number = AccessChanges(ledger).begin(place, runner, plan.adds, plan.removes)
        failpoint("access.begun")
        if _write(bigquery, ledger, number, read, declared):
            made = change
    raise BigQueryError(
        f"dataset {place} is not as declared after {TRIES} changes: {difference_words(change)}",
        next_step="See in its audit log who changes it, or what Google makes of these principals",
        retryable=True,
    )


def _write(
    bigquery: AccessRequests,
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
            raise unknown_outcome(error) from error
        AccessChanges(ledger).ended(number, "refused", str(error))
        raise
    failpoint("access.written")
    if not written:
        # Google's client sends a request again whose answer was lost: then it was ours that moved
        # the etag.
        written = _there(bigquery, read.dataset).grants == declared.grants
    words = None if written else "somebody changed the dataset at the same time"
    AccessChanges(ledger).ended(number, "applied" if written else "refused", words)
    if words is not None:
        logger.warning("dataset %s: %s; it is planned again", read.dataset, words)
    return written


def _there(bigquery: AccessRequests, dataset: str) -> DatasetAccess:
    found = bigquery.access(dataset)
    if found is None:
        project, location = bigquery.config.project, bigquery.config.location
        raise BigQueryError(
            f"there is no dataset {project}.{dataset} in BigQuery",
            next_step=f"Make it: bq mk --dataset --location={location} {project}:{dataset}",
        )
    return found


def _allowed(declared: DatasetPermissions, granted: frozenset[Grant], runner: str) -> AccessChange:
    """What is to be changed.

    Raises:
        ConfigError: it may not be: nothing was changed.
    """
    change = change_between(granted, declared.grants)
    refused = refusal_of(granted, declared.grants, runner) if change else None
    if refused is not None:
        raise ConfigError(
            f"{declared.place}: datasets.{declared.dataset}: {refused}",
            next_step="Declare it, or let another owner apply it; nothing was changed",
        )
    return change


def _plan(declared: DatasetPermissions, change: AccessChange) -> AccessPlan:
    adds, removes = (records(part, declared.reasons) for part in (change.adds, change.removes))
    return AccessPlan(declared.dataset, adds, removes)
