"""Tables that are made elsewhere: the commands of `external`, and what `show` prints of one.

What belongs here: options, and what is printed. What doesn't: looking, and verdicts
(`mirrorlake.models.checks.external_tables`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from mirrorlake.capabilities import Seam
from mirrorlake.cli import show as shown
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import DIFFERENT, UNDECIDED
from mirrorlake.config import Config
from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.runtime.outcomes import Failures
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.models.checks.external_tables import CheckedExternal
    from mirrorlake.models.files.external_table import ExternalDeclaration
    from mirrorlake.models.files.model_files import Unread
    from mirrorlake.models.show.external import ExternalSeen, ShownExternal


@click.group("external", short_help="Tables made elsewhere that models read.")
def external() -> None:
    """Tables that are made elsewhere, as files under models/ declare them."""


@external.command()
@click.argument("names", nargs=-1)
@shown.config_option
@shown.json_option
def check(names: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Check columns, freshness and rows of tables that are made elsewhere (all by default).

    By their metadata: no row is read.
    """
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.models.checks.external_tables import check_external
    from mirrorlake.models.contract_models import models_folder
    from mirrorlake.models.external_sources.own_places import OwnPlaces
    from mirrorlake.models.files.external_table import read_externals

    config = open_contract(config_path)
    declared, unread = read_externals(models_folder(config))
    chosen, failures = chosen_externals(config, names, declared, unread)
    lake, own, now = Lake(config.lake), OwnPlaces.of(config), datetime.now(UTC)
    found: dict[str, CheckedExternal] = {}
    for one in chosen:
        try:
            found[one.name] = check_external(one, lake, own, now)
        except MirrorlakeError as error:
            failures.append((one.name, error))
    if as_json:
        tables = [{"table": name, **asdict(one)} for name, one in found.items()]
        shown.print_json({"tables": tables, "errors": shown.errors_of(failures)})
    else:
        _print_checked(found)
        shown.print_errors(failures)
    sys.exit(failures[0][1].exit_code if failures else _code(found))


for _command in Seam[click.Command]("commands: external"):
    external.add_command(_command)


def chosen_externals(
    config: Config,
    names: Sequence[str],
    declared: Sequence[ExternalDeclaration],
    unread: Unread,
) -> tuple[Sequence[ExternalDeclaration], Failures]:
    """The declarations of these names, all without a name; and names whose files can't be read,
    each with its error: they hold up no other.

    Raises:
        ConfigError: a name is nobody's, or there is none.
    """
    known = {one.name: one for one in declared}
    for name in names:
        if name not in known and name not in unread.why:
            raise ConfigError(f"no file declares a table {name}{nearest(name, known)}")
    failures: Failures = [
        (name, error) for name, error in unread.why.items() if not names or name in names
    ]
    if not known and not failures:
        raise ConfigError(
            f"no file declares a table that is made elsewhere beside {config.path}",
            next_step="Write models/<dataset>/<name>.yaml: docs/external-tables.md",
        )
    wanted = [known[name] for name in dict.fromkeys(names) if name in known]
    return (wanted if names else declared), failures


def _code(found: Mapping[str, CheckedExternal]) -> int:
    verdicts = {one.verdict for checked in found.values() for one in checked.verdicts}
    if "failed" in verdicts:
        return DIFFERENT
    return 0 if verdicts <= {"passed"} else UNDECIDED


def _print_checked(found: Mapping[str, CheckedExternal]) -> None:
    colors = {"passed": "green", "failed": "red"}
    for name, checked in found.items():
        shown.console.print(f"{escape(name)}: {escape(_seen(checked.seen))}", highlight=False)
        for one in checked.verdicts:
            verdict = f"[{colors.get(one.verdict, 'yellow')}]{one.verdict}[/]"
            words = f"  {one.check}: {verdict}: {escape(one.words)}"
            shown.console.print(words, soft_wrap=True, highlight=False)


def print_external(found: ShownExternal, *, as_json: bool) -> None:
    """What `mirrorlake show` says of a table that no model makes."""
    if as_json:
        shown.print_json(_as_json(found))
        return
    console, seen = shown.console, found.seen
    kind = f"{found.format}, {found.owner}" if found.owner else found.format
    console.print(f"{escape(found.name)} ({escape(kind)}), made elsewhere: {escape(found.path)}")
    if found.description:
        console.print(escape(found.description))
    console.print(_columns_of(found))
    console.print(escape(f"{found.place}: {_seen(seen)}."), soft_wrap=True, highlight=False)
    if found.partition_by:
        console.print(f"Partitioned by {escape(', '.join(found.partition_by))}.")
    if found.view is not None:
        words = f"Readers have the view {escape(found.view)}: `mirrorlake external views` makes it."
        console.print(words, soft_wrap=True, highlight=False)
    console.print(f"Read by {escape(', '.join(found.read_by) or 'no model')}.")


def _columns_of(found: ShownExternal) -> Table:
    """Its columns; which have personal data, and what its view does with each, where that is said
    of any."""
    more = {"personal data": bool(found.hidden), "in the view": bool(found.in_view)}
    table = shown.table("column", "type", "NULL", *(name for name, said in more.items() if said))
    for one in found.columns:
        cells = [escape(one.name), escape(one.value.type), "yes" if one.value.nullable else "no"]
        if found.hidden:
            cells.append("yes" if one.name.lower() in found.hidden else "-")
        if found.in_view:
            cells.append(found.in_view.get(one.name, "-"))
        table.add_row(*cells)
    return table


def _seen(seen: ExternalSeen) -> str:
    rows = "rows unknown" if seen.rows is None else plural(seen.rows, "row")
    files = "" if seen.files is None else f" in {plural(seen.files, 'file')}"
    at = seen.changed_at
    written = "" if at is None else f", written {at:%Y-%m-%d %H:%M:%S} UTC"
    more = "" if seen.streamed is None else f", about {seen.streamed:,} more rows streamed in"
    return f"{rows}{files}, version {seen.version}{written}{more}"


def _as_json(found: ShownExternal) -> dict[str, Any]:
    columns = [
        {"name": one.name, "type": one.value.type, "nullable": one.value.nullable}
        for one in found.columns
    ]
    return {**asdict(found), "columns": columns}
