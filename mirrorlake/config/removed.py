"""What a file may still say that this release took out, and what to do instead.

What belongs here: one line for each key that was removed. What doesn't: keys that never were.
"""

from __future__ import annotations

import re
from typing import Final

from mirrorlake.config.yaml_file import Path as YamlPath

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
_REMOVED: Final = (
    (r"defaults/bigquery", _LOAD),
    (r"sources/[^/]+/databases/[^/]+/tables/[^/]+/bigquery/load", _LOAD),
    (r"tenants/[^/]+/tables/[^/]+/bigquery/load", _LOAD),
    (r"datasets/[^/]+/tables", _POLICIES),
    (r"lake", _LAKE),
)


def removed_key(path: YamlPath) -> str | None:
    """What to say of a key that was removed; None of any other."""
    text = "/".join(str(part).replace("/", " ") for part in path)
    return next((words for form, words in _REMOVED if re.fullmatch(form, text)), None)
