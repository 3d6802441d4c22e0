"""Who may read which files of the lake, as text for Terraform or gcloud: nothing is changed.

Each namespace is a folder of the bucket, and each folder has a policy of its own: a managed folder
of Cloud Storage. A policy replaces the one that is there.

Source: Google Cloud, "Cloud Storage: managed folders", "IAM for Cloud Storage".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlparse

from mirrorlake.config import Config
from mirrorlake.config.lake_permissions import LakePermissions
from mirrorlake.config.permission_sections import LAYERS
from mirrorlake.destinations.iceberg.folders import table_uri, warehouse_uri
from mirrorlake.errors import ConfigError

_ROLES = {"reader": "roles/storage.objectViewer", "writer": "roles/storage.objectUser"}


@dataclass(frozen=True)
class FolderPolicy:
    """Who may do what with the files of one namespace.

    Attributes:
        folder: inside the bucket, with a `/` at its end.
        bindings: role as Google has it → members, both in order.
    """

    layer: str
    namespace: str
    bucket: str
    folder: str
    bindings: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class LakePolicies:
    """The policies of a lake.

    Attributes:
        views: tables whose clean is a view, which has no files.
    """

    folders: Sequence[FolderPolicy]
    views: Sequence[str]


def lake_policies(config: Config, declared: LakePermissions) -> LakePolicies:
    """The policy of each namespace that a contract's tables have files in.

    Raises:
        ConfigError: the files are not in a bucket of Cloud Storage, or files of two layers are in
            one folder.
    """
    place = declared.place or warehouse_uri(config.lake.warehouse)
    if not place.startswith("gs://"):
        raise ConfigError(
            f"the warehouse {place} is in no bucket of Cloud Storage",
            next_step="Files of a folder have one mode: see lake.permissions. Where the lake is "
            "copied to a bucket, write lake.place in permissions.yaml",
        )
    bucket, path = urlparse(place).netloc, urlparse(place).path.strip("/")
    ordered, views = namespaces_with_files(config)
    folders = [
        FolderPolicy(
            layer=layer,
            namespace=namespace,
            bucket=bucket,
            folder=table_uri(path, [namespace]).lstrip("/") + "/",
            bindings=_bindings(declared.layers[layer]),
        )
        for namespace, layer in ordered
    ]
    return LakePolicies(folders, views)


def namespaces_with_files(config: Config) -> tuple[list[tuple[str, str]], list[str]]:
    """Each namespace with its layer, in the layers' order, and the tables whose clean is a view.

    Raises:
        ConfigError: one has files of two layers.
    """
    found: dict[str, str] = {}
    views: list[str] = []
    for one in (*config.tables, *config.snapshots, *config.tenants):
        spaces = {"raw": one.namespaces.raw, "deduped": one.namespaces.deduped}
        if one.clean == "view":
            views.append(one.name)
        else:
            spaces["clean"] = one.namespaces.clean
        for layer, namespace in spaces.items():
            if found.setdefault(namespace, layer) != layer:
                raise ConfigError(
                    f"{namespace} has files of {found[namespace]} and of {layer}: who may read "
                    "one may read the other",
                    table=one.name,
                    next_step="Give each layer namespaces of its own",
                )
    ordered = sorted(found.items(), key=lambda one: (LAYERS.index(one[1]), one[0]))
    return ordered, sorted(views)


def _bindings(principals: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for principal, role in sorted(principals.items()):
        found.setdefault(_ROLES[role], []).append(principal.removeprefix("special:"))
    return dict(sorted(found.items()))


def _heading(policies: LakePolicies) -> Iterator[str]:
    yield "# Who may read which files of the lake. Written by `mirrorlake permissions lake`."
    yield "# Rights on the bucket or the project hold for each folder: give readers none there."
    yield "# Whoever may read a file reads all of its columns: raw and deduped have personal data."
    yield from about_views(policies.views)


def about_views(views: Sequence[str]) -> Iterator[str]:
    """A comment on tables whose clean is a view."""
    if views:
        some = ", ".join(views[:5]) + (" …" if len(views) > 5 else "")
        yield f"# Clean views have no files, so nobody is given any: {some}"


def as_terraform(policies: LakePolicies) -> str:
    """The policies as resources of Terraform's provider `google`."""
    parts = ["\n".join(_heading(policies))]
    for one in policies.folders:
        name = _identifier(one.namespace)
        parts.append(
            f'resource "google_storage_managed_folder" "{name}" {{\n'
            f"  bucket = {_hcl(one.bucket)}\n"
            f"  name   = {_hcl(one.folder)}\n}}"
        )
        bindings = "".join(_binding(role, members) for role, members in one.bindings.items())
        parts.append(f'data "google_iam_policy" "{name}" {{\n{bindings}}}')
        parts.append(
            f'resource "google_storage_managed_folder_iam_policy" "{name}" {{\n'
            f"  bucket         = google_storage_managed_folder.{name}.bucket\n"
            f"  managed_folder = google_storage_managed_folder.{name}.name\n"
            f"  policy_data    = data.google_iam_policy.{name}.policy_data\n}}"
        )
    return "\n\n".join(parts) + "\n"


def _binding(role: str, members: Iterable[str]) -> str:
    lines = "".join(f"      {_hcl(member)},\n" for member in members)
    return f"  binding {{\n    role = {_hcl(role)}\n    members = [\n{lines}    ]\n  }}\n"


def _identifier(namespace: str) -> str:
    """A name that Terraform takes; the same for the same namespace.

    >>> _identifier("shop_shop__raw"), _identifier("größe")
    ('lake_shop_shop__raw', 'lake_gr__e_d353a2')
    """
    plain = re.sub(r"\W", "_", namespace, flags=re.ASCII)
    if plain == namespace:
        return f"lake_{plain}"
    return f"lake_{plain}_{hashlib.sha256(namespace.encode()).hexdigest()[:6]}"


def _hcl(text: str) -> str:
    """A text in quotes, in which nothing is expanded."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.replace("${", "$${").replace("%{", "%%{")


def as_gcloud(policies: LakePolicies) -> str:
    """The policies as a script of `gcloud` commands."""
    lines = ["#!/bin/sh", "set -eu", *_heading(policies), "policy=$(mktemp)"]
    for one in policies.folders:
        url = shell_text(f"gs://{one.bucket}/{one.folder}")
        bindings = [{"role": role, "members": list(m)} for role, m in one.bindings.items()]
        described = f"gcloud storage managed-folders describe {url} >/dev/null 2>&1"
        lines += [
            "",
            f"# {one.layer}: {one.namespace}",
            f"{described} || gcloud storage managed-folders create {url}",
            "cat >\"$policy\" <<'POLICY'",
            json.dumps({"bindings": bindings}, indent=2, ensure_ascii=False),
            "POLICY",
            f'gcloud storage managed-folders set-iam-policy {url} "$policy"',
        ]
    return "\n".join([*lines, "", 'rm "$policy"', ""])


def shell_text(text: str) -> str:
    """A text in quotes, in which a shell expands nothing."""
    return "'" + text.replace("'", "'\\''") + "'"
