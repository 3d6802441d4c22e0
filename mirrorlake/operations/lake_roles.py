"""Who may do what with which namespaces of a catalog, as a script; nothing is changed here.

Iceberg's REST protocol has no word for rights: each server has an API of its own.

Source: Apache Polaris, "Role-Based Access Control"; Google Cloud, "Manage Lakehouse Iceberg REST
catalog table ACLs", `gcloud biglake iceberg namespaces set-iam-policy`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mirrorlake.config import Config
from mirrorlake.config.lake_permissions import LakePermissions
from mirrorlake.config.permission_sections import LAYERS
from mirrorlake.errors import ConfigError
from mirrorlake.operations.lake_policies import about_views, namespaces_with_files, shell_text

_SCRIPT: Final = Path(__file__).with_name("polaris_script.py")
_PLACE: Final = "DECLARED: dict[str, Any] = {}\n"
_POLARIS: Final = {
    "reader": (
        "NAMESPACE_LIST",
        "NAMESPACE_READ_PROPERTIES",
        "TABLE_LIST",
        "TABLE_READ_DATA",
        "TABLE_READ_PROPERTIES",
    ),
    "writer": (
        "NAMESPACE_FULL_METADATA",
        "TABLE_FULL_METADATA",
        "TABLE_READ_DATA",
        "TABLE_WRITE_DATA",
        "VIEW_FULL_METADATA",
    ),
}
_BIGLAKE: Final = {"reader": "roles/biglake.viewer", "writer": "roles/biglake.editor"}


def as_polaris(config: Config, declared: LakePermissions) -> str:
    """A script for Python that makes the catalog roles of Polaris what is declared.

    Raises:
        ConfigError: nothing is said of Polaris, or a namespace has two layers.
    """
    polaris = declared.polaris
    if polaris is None:
        raise _unsaid("polaris")
    spaces, views = namespaces_with_files(config)
    roles: dict[str, Any] = {}
    for layer in LAYERS:
        for access, privileges in _POLARIS.items():
            whom = sorted(name for name, role in polaris.layers[layer].items() if role == access)
            roles[f"{polaris.server.roles}_{layer}_{access}"] = {
                # A role that nobody has gives nothing.
                "namespaces": [name for name, of in spaces if of == layer and whom],
                "privileges": list(privileges),
                "principal_roles": whom,
            }
    written = {"url": polaris.server.url, "catalog": polaris.server.catalog, "roles": roles}
    heading = "\n".join(["#!/usr/bin/env python3", *_heading(views)])
    said = json.dumps(written, indent=4, ensure_ascii=False)
    script = re.sub(r"  # noqa: \w+", "", _SCRIPT.read_text("utf-8"))
    return f"{heading}\n" + script.replace(_PLACE, _PLACE.replace("{}", said))


def as_biglake(config: Config, declared: LakePermissions) -> str:
    """A script of `gcloud` commands that set the policy of each namespace.

    Raises:
        ConfigError: nothing is said of BigLake, or a namespace has two layers.
    """
    biglake = declared.biglake
    if biglake is None:
        raise _unsaid("biglake")
    spaces, views = namespaces_with_files(config)
    where = f"--catalog={shell_text(biglake.catalog)} --project={shell_text(biglake.project)}"
    lines = ["#!/bin/sh", "set -eu", *_heading(views), "policy=$(mktemp)"]
    for namespace, layer in spaces:
        bindings = [
            {"role": role, "members": members}
            for access, role in _BIGLAKE.items()
            if (members := sorted(m for m, r in declared.layers[layer].items() if r == access))
        ]
        lines += [
            "",
            f"# {layer}: {namespace}",
            "cat >\"$policy\" <<'POLICY'",
            json.dumps({"bindings": bindings}, indent=2, ensure_ascii=False),
            "POLICY",
            f"gcloud biglake iceberg namespaces set-iam-policy {shell_text(namespace)} "
            f'"$policy" {where}',
        ]
    return "\n".join([*lines, "", 'rm "$policy"', ""])


def _heading(views: Sequence[str]) -> Iterator[str]:
    yield "# Who may do what with the lake's namespaces. Written by `mirrorlake permissions lake`."
    yield "# Rights on the catalog or the project hold for each namespace: give readers none there."
    yield from about_views(views)


def _unsaid(section: str) -> ConfigError:
    return ConfigError(
        f"the permissions file says nothing of lake.{section}",
        next_step="docs/lake-permissions.md has a first one",
    )
