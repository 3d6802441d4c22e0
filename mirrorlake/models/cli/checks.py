"""What a model expects of its rows, and what was found of that, as `mirrorlake show` says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli import show as shown
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.models.checks.before_publishing import ShownExpectation
    from mirrorlake.models.ledger import PartitionChecks
    from mirrorlake.models.partition_states.states import States


@dataclass(frozen=True)
class ShownChecks:
    """What `mirrorlake show` says of expectations.

    Attributes:
        checks: of the partition that is shown, what was found of its rows in main, and of newer
            ones that were not published.
    """

    expectations: tuple[ShownExpectation, ...]
    checks: tuple[PartitionChecks, ...]


def checks_of(states: States, name: str, key: str | None) -> ShownChecks:
    """What was found of a model's expectations.

    Args:
        key: the partition that is shown; None if none is.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    from mirrorlake.models.checks.before_publishing import newest_checks, show_expectations

    model = states.project.models[name]
    if not model.expectations:
        return ShownChecks((), ())
    checks = ModelRecords(states.ledger).checks(model.name)
    published = states.records(model)
    of_main, refused = newest_checks(checks, published)
    looks = [one[key] for one in (of_main, refused) if key in one]
    return ShownChecks(show_expectations(model, checks, published), tuple(looks))


def print_checks(found: ShownChecks) -> None:
    """Print what is expected, and what was found."""
    if not found.expectations:
        return
    console = shown.console
    table = shown.table("expects", "else", "looked at", "not looked at", "not so", "what…")
    for one in found.expectations:
        table.add_row(
            escape(one.name),
            "refused" if one.severity == "error" else "warning",
            plural(one.looked_at, "partition"),
            f"{one.not_looked_at:,}",
            f"{one.warned:,}",
            escape(one.words),
        )
    console.print(table)
    for one in found.expectations:
        if one.refused:
            named = ", ".join(key or "its rows" for key in one.refused[:5])
            more = f" and {len(one.refused) - 5:,} more" if len(one.refused) > 5 else ""
            words = f"Not published because of {one.name}: {named}{more}"
            console.print(escape(words), highlight=False, soft_wrap=True)
    for look in found.checks:
        _print_look(look)


def _print_look(look: PartitionChecks) -> None:
    what = "not published" if look.refused else "in main"
    at = f"{look.checked_at:%Y-%m-%d %H:%M:%S} UTC" if look.checked_at else "-"
    table = shown.table("expected", "found", "", f"{what}: {plural(look.rows, 'row')}, {at}…")
    for one in look.results:
        word = "as expected" if one.passed else "warning" if one.severity == "warn" else "refused"
        table.add_row(escape(one.name), escape(one.said), word, escape(one.words))
    shown.console.print(table)
