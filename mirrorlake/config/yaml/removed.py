"""What a file may still say that this release took out, and what to do instead.

What belongs here: one line for each key that was removed. What doesn't: keys that never were.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel

from mirrorlake.config.yaml.yaml_file import Path as YamlPath

_LOAD: Final = (
    "was removed: a table in BigQuery is loaded from deduped, always. Remove it; the next sync"
    " loads the table, in place of a view over raw"
)
_POLICIES: Final = (
    "was removed: policies of rows and columns are BigQuery's own DDL, and those that were applied"
    " are still there. Remove it, and show less by a view of your own"
)
_LAKE: Final = (
    "was removed: Mirrorlake writes no policies for files or namespaces of the lake. Remove it; the"
    " folders that they are for are in docs/deploy.md"
)
# By the section that the whole file is.
_REMOVED: Final = (
    ("ConfigSections", r"defaults/bigquery", _LOAD),
    ("ConfigSections", r"sources/[^/]+/databases/[^/]+/tables/[^/]+/bigquery/load", _LOAD),
    ("ConfigSections", r"tenants/[^/]+/tables/[^/]+/bigquery/load", _LOAD),
    ("PermissionsFile", r"datasets/[^/]+/tables", _POLICIES),
    ("PermissionsFile", r"lake", _LAKE),
)


def removed_key(path: YamlPath, root: type[BaseModel]) -> str | None:
    """What to say of a key that was removed; None of any other.

    Args:
        root: the section that the whole file is.
    """
    text = "/".join(str(part).replace("/", " ") for part in path)
    for file, form, words in _REMOVED:
        if root.__name__ == file and re.fullmatch(form, text):
            return words
    return None
