"""What `check` does with a table of tenants, and how it is printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.checking.whole import CheckTerms, WholeCheck
from mirrorlake.cli.reports import Checked
from mirrorlake.config import TenantTable
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.tenants.verdicts import TenantsChecked
    from mirrorlake.workspace import Workspace

MOST_SHOWN = 20
"""Tenants that are not equal are listed up to this many; ``--json`` has them all."""


def _check_tenant_table(workspace: Workspace, table: TenantTable, terms: CheckTerms) -> Checked:
    """Compare tenants with MySQL."""
    from mirrorlake.operations.tenants.checks import check_tenants

    found = check_tenants(workspace, table, frozenset(terms.databases))
    words = {
        "table": found.table,
        "verdict": found.verdict,
        "tenants": [asdict(one) for one in found.verdicts],
        "clean": asdict(found.clean),
        "unread": list(found.unread),
        "left_out": dict(found.left_out),
    }
    rows = (
        sum(one.mysql_rows or 0 for one in found.verdicts),
        sum(one.lake_rows or 0 for one in found.verdicts),
    )
    notes = (plural(len(found.verdicts), "tenant"),)
    show_it = partial(_print_checked, found)
    return Checked(found.table, found.verdict, words, show_it, rows, notes)


def _print_checked(found: TenantsChecked) -> None:
    counts = Counter(one.verdict for one in found.verdicts)
    words = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(counts.items()))
    rows = sum(one.mysql_rows or 0 for one in found.verdicts if one.verdict == "equal")
    line = (
        f"{escape(found.table)}: {found.verdict} ({words}; "
        f"{plural(rows, 'row is', 'rows are')} equal)"
    )
    show.console.print(line, highlight=False, soft_wrap=True)
    clean = found.clean
    notes = "; ".join(note for note in (clean.compared, clean.words) if note)
    line = f"  clean (a {clean.kind}): {clean.verdict or 'not compared'} ({notes})"
    show.console.print(escape(line), highlight=False, soft_wrap=True)
    others = [one for one in found.verdicts if one.verdict != "equal"]
    for one in others[:MOST_SHOWN]:
        words = f"  {one.source}.{one.database}: {one.verdict}: {one.words}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if len(others) > MOST_SHOWN:
        more = f"  and {len(others) - MOST_SHOWN:,} more: --json lists them all"
        show.console.print(more, highlight=False)
    if any(one.verdict == "different" for one in others):
        again = f"`mirrorlake sync {quote(found.table)} --tenant DATABASE --again`"
        words = f"  Next: {again} reads a tenant that differs again; then check it"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if found.unread:
        some = ", ".join(found.unread[:MOST_SHOWN])
        words = f"  {plural(len(found.unread), 'tenant')} that no sync has seen yet: {some}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    for name, why in list(found.left_out.items())[:MOST_SHOWN]:
        words = f"  not compared, as it is no tenant: {name}: {why}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)


OF_TENANTS = WholeCheck("a table of tenants", "--json or --tenant", _check_tenant_table)
