"""Settings of a Spark session on which exact values depend, in sessions of ours and of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXACT_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # Both sides of an exact comparison must fail on what does not fit, never wrap or turn NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # By default Spark expands ${env:NAME} in every statement, between quotes too: a column called
    # so would put a secret of the driver's environment into errors, logs and views.
    "spark.sql.variable.substitute": "false",
    # Otherwise a backslash in a literal does not escape the quote that follows it.
    "spark.sql.parser.escapedStringLiterals": "false",
}
"""What a session must have so that values and names stay what they are."""


def changed_settings(found: Mapping[str, str | None]) -> list[str]:
    """The exact settings that ``found`` has with another value; names that it lacks don't count.

    >>> changed_settings({"spark.sql.ansi.enabled": "TRUE", "spark.ui.enabled": "false"})
    []
    >>> changed_settings({"spark.sql.ansi.enabled": "false"})
    ['spark.sql.ansi.enabled']
    """
    wanted = {name: value for name, value in EXACT_SETTINGS.items() if name in found}
    return [n for n, value in wanted.items() if str(found[n]).casefold() != value.casefold()]
