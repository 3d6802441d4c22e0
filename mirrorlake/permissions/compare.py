"""All that `permissions.yaml` declares against what is: planned, applied, verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.config import Config
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.permissions.access_changes import AccessPlan, TriedAccess, VerifiedAccess
from mirrorlake.permissions.access_requests import AccessRequests
from mirrorlake.permissions.dataset_access import (
    apply_dataset,
    plan_datasets,
    verify_datasets,
    with_views,
)
from mirrorlake.permissions.group_directory import GroupDirectory, open_groups
from mirrorlake.permissions.group_members import apply_groups, plan_groups, verify_groups
from mirrorlake.permissions.permissions_file import (
    DeclaredPermissions,
    load_permissions,
    permissions_path,
)


@dataclass(frozen=True)
class OpenPermissions:
    """What is declared, and what knows how it is now.

    Attributes:
        groups: None where none is declared: nobody has to be able to ask for one.
    """

    config: Config
    permissions: DeclaredPermissions
    bigquery: AccessRequests
    groups: GroupDirectory | None


def open_declared(config: Config, path: Path) -> OpenPermissions:
    """What a permissions file declares, and the clients for it.

    Raises:
        ConfigError: the file can't be read, declares what can't be, or the contract has no section
            bigquery.
        BigQueryError: nobody is logged in to Google Cloud.
    """
    settings = config.written_section(BigQueryConfig)
    if settings is None:
        raise ConfigError(
            f"{config.path} has no bigquery section",
            next_step="Write one with project and bucket: docs/reference/configuration.md#bigquery",
        )
    found = load_permissions(path, settings.project)
    declared = replace(found, datasets=with_views(config, found.datasets))
    bigquery = AccessRequests.open(settings)
    groups = open_groups(settings.project) if declared.groups else None
    return OpenPermissions(config, declared, bigquery, groups)


def plan_permissions(declared: OpenPermissions) -> list[AccessPlan]:
    """What applying would change. Nothing is touched.

    Raises:
        BigQueryError: something declared is not there, or can't be asked.
        ConfigError: it would lock somebody out who must not be.
    """
    runner, permissions = declared.bigquery.runner(), declared.permissions
    plans = plan_datasets(declared.bigquery, runner, permissions.datasets)
    if declared.groups is not None:
        members = plan_groups(declared.groups, runner, permissions.groups)
        plans += [one.shown() for one in members]
    return plans


def apply_permissions(declared: OpenPermissions, ledger: Ledger) -> list[TriedAccess]:
    """Bring everything to what is declared; what fails holds up nothing else.

    Raises:
        BigQueryError, ConfigError: as of `plan_permissions`; nothing was changed.
    """
    runner, permissions = declared.bigquery.runner(), declared.permissions
    bigquery, groups = declared.bigquery, declared.groups
    plan_datasets(bigquery, runner, permissions.datasets)
    members = plan_groups(groups, runner, permissions.groups) if groups is not None else []
    tried = [
        _tried(one.dataset, partial(apply_dataset, bigquery, ledger, runner, one))
        for one in permissions.datasets
    ]
    return tried + (apply_groups(groups, ledger, runner, members) if groups is not None else [])


def verify_permissions(declared: OpenPermissions) -> list[VerifiedAccess]:
    """Compare what is with what is declared. Datasets of which nothing is declared, and which
    somebody fills, are among them.

    Raises:
        BigQueryError: something declared is not there, or can't be asked.
        ModelError: a file of a table that is made elsewhere can't be read.
    """
    permissions = declared.permissions
    found = verify_datasets(declared.bigquery, declared.config, permissions.datasets)
    if declared.groups is not None:
        found += verify_groups(declared.groups, permissions.groups)
    return found


def verify_declared(config: Config) -> list[VerifiedAccess]:
    """`verify_permissions` by the permissions file beside a contract file.

    Raises:
        ConfigError: see `open_declared`.
        BigQueryError: something declared is not there, or can't be asked.
    """
    return verify_permissions(open_declared(config, permissions_path(config)))


def _tried(resource: str, act: Callable[[], AccessPlan]) -> TriedAccess:
    try:
        return TriedAccess(resource, act())
    except MirrorlakeError as error:
        return TriedAccess(resource, error=error)
