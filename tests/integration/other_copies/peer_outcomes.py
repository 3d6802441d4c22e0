"""What each tool made of each type, on the tables of `peer_table`: seen, and kept so by a test."""

from __future__ import annotations

from collections.abc import Mapping

from tests.integration.other_copies.peer_table import COLUMNS


def _but(others: Mapping[str, str], without: str = "") -> dict[str, str]:
    """Column → outcome; ``equal`` for all that are not named.

    Args:
        others: outcome → columns.
        without: a column that the tool's server has not.
    """
    named = {name: outcome for outcome, names in others.items() for name in names.split()}
    return {name: named.get(name, "equal") for name in COLUMNS if name != without}


OUTCOMES: dict[str, dict[str, str]] = {
    "dlt, sqlalchemy": _but(
        {
            "fails": "big_u sett vbin",
            "float_to_6_digits": "f",
            "float_rounded, sign_of_zero": "d",
            "zero_date_to_null": "dat dtm",
            "partial_date_to_null": "dtm6",
            "shifted, zero_date_to_null": "ts",
            "shifted": "ts6",
            "time_wrapped": "tim tim6",
        },
    ),
    "dlt, pyarrow": _but(
        {
            "fails": "big_u dat dtm dtm6 ts vbin",
            "float_to_6_digits": "f",
            "float_rounded, sign_of_zero": "d",
            "shifted": "ts6",
            "time_wrapped": "tim tim6",
        },
    ),
    "dlt, connectorx": _but(
        {
            "fails": "dec38 dec65 dat dtm dtm6 ts tim tim6 pnt",
            "shifted": "ts6",
        },
    ),
    "Spark JDBC": _but(
        {
            "boolean": "flag",
            "digits_cut": "dec65",
            "float_to_6_digits": "f",
            "bit_digits": "bit9",
            "fails": "y uid",
            "zero_date_to_null": "dat dtm",
            "partial_date_to_date": "dtm6",
            "shifted, zero_date_to_null": "ts",
            "shifted": "ts6",
            "time_wrapped": "tim6",
            "spaces_added": "chr enm sett",
        },
    ),
    "rivet": _but(
        {
            "boolean": "flag",
            "zero_date_to_null": "dat dtm ts",
            "partial_date_to_null": "dtm6",
            "fails": "tim tim6 pnt",
        },
        without="uid",
    ),
}
"""Tool → column → ``equal``, what was lost, or ``fails`` where it copies no row of such a table."""

_SHORT = {
    "boolean": "2 → true",
    "digits_cut": "digits cut",
    "float_to_6_digits": "6 digits",
    "float_rounded": "rounded",
    "sign_of_zero": "-0.0 → 0.0",
    "bit_digits": "other bits",
    "zero_date_to_null": "zero date → NULL",
    "partial_date_to_null": "`2024-00-15` → NULL",
    "partial_date_to_date": "`2024-00-15` → `2023-12-15`",
    "shifted": "shifted by 2 h",
    "time_wrapped": "days lost",
    "spaces_added": "spaces added",
}


def matrix() -> str:
    """The table of the docs: the types that any tool loses or refuses."""
    lines = [
        f"| MySQL | {' | '.join(OUTCOMES)} |",
        f"|---|{'---|' * len(OUTCOMES)}",
    ]
    for name, kind in COLUMNS.items():
        found = [outcomes.get(name, "–") for outcomes in OUTCOMES.values()]
        if set(found) - {"equal", "–"}:
            cells = (", ".join(_SHORT.get(k, k) for k in one.split(", ")) for one in found)
            lines.append(f"| `{kind}` | {' | '.join(cells)} |")
    return "\n".join(lines)
