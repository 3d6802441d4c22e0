"""Commands for tables of mode ``snapshot``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.operations.publishers import Loaded, print_published, publish_all
from mirrorlake.runtime.outcomes import Failures
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.landing.files.listing import Looked
    from mirrorlake.landing.files.waiting_snapshots import ArrivingSnapshot
    from mirrorlake.landing.land import Arrived, RefusedSnapshot
    from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class _Choice:
    """What somebody decided about single snapshots of one table: ids, or a word for several."""

    skip: Sequence[str]
    retry: Sequence[str]
    accept_smaller: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.skip or self.retry or self.accept_smaller)


@dataclass
class _Printed:
    """Prints what becomes of each snapshot as soon as it is known, and keeps it for JSON."""

    quiet: bool
    arrived: list[Arrived] = field(default_factory=list["Arrived"])
    refused: list[RefusedSnapshot] = field(default_factory=list["RefusedSnapshot"])
    open: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    waiting: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    withdrawn: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    suspected: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    loaded: Loaded = field(default_factory=dict[str, Sequence[Any]])
    failures: Failures = field(default_factory=Failures)
    said: bool = False

    def line(self, text: str) -> None:
        self.said = True
        if not self.quiet:
            show.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def problem(self, text: str) -> None:
        self.said = True
        if not self.quiet:
            show.errors.print(text, markup=False, highlight=False, soft_wrap=True)

    def fail(self, table: str, error: MirrorlakeError) -> None:
        self.said = True
        self.failures.append((table, error))
        if not self.quiet:
            show.print_errors([(table, error)])

    def show_arrived(self, one: Arrived) -> None:
        self.arrived.append(one)
        left = f" ({one.left:,} with their day)" if one.left else ""
        counts = (
            f"{one.added:,} added, {one.changed:,} changed, {one.removed:,} removed{left}, "
            f"{one.missing:,} missing"
        )
        bad = f"; {one.bad:,} malformed left out" if one.bad else ""
        name = f"{one.table} {one.id:014d}"
        self.line(
            f"{name}: {plural(one.rows, 'row')}; {counts}{bad}; {one.strategy}, {one.seconds} s"
        )

    def show_refusal(self, one: RefusedSnapshot) -> None:
        self.refused.append(one)
        self.problem(f"{one.table} {one.id:014d} refused: {one.reason}")

    def show_waiting(self, table: str, one: ArrivingSnapshot, now: datetime) -> None:
        self.waiting.append({"table": table, **asdict(one)})
        files = plural(one.files, "file")
        seen = show.ago(now - one.seen_at)
        words = f"{files}, first seen {seen}; waits for {one.reason}"
        self.line(f"{table} {one.id:014d}: {words}")


@click.command(short_help="Take in the snapshots that have landed.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--all", "whole", is_flag=True, help="Look into the folders of all days.")
@click.option("--skip", multiple=True, metavar="ID", help="Leave this snapshot out for good.")
@click.option("--retry", multiple=True, metavar="ID", help="Take this refused snapshot again.")
@click.option(
    "--accept-smaller",
    multiple=True,
    metavar="ID",
    help="Take this snapshot though it is far smaller than the last.",
)
def land(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    whole: bool,
    skip: Sequence[str],
    retry: Sequence[str],
    accept_smaller: Sequence[str],
) -> None:
    """Take what has landed of TABLES (all of mode snapshot by default), fold and publish it.

    Snapshots are folded in the order of their ids. One that is refused does not stop newer ones,
    and a table that fails does not stop the others. --skip and --retry also take the words
    `refused` and `withdrawn`: all snapshots in that state. Ends with the code of the first refusal
    or failure, else with 10 if snapshots wait for a decision.
    """
    from mirrorlake.workspace import Workspace

    choice = _Choice(skip, retry, accept_smaller)
    config = open_contract(config_path)
    chosen = config.chosen_snapshots(tables)
    if choice and len(tables) != 1:
        raise ConfigError(
            "--skip, --retry and --accept-smaller are for snapshots of one table",
            next_step="Name it: mirrorlake land TABLE --skip ID",
        )
    printed = _Printed(as_json)
    with Workspace.open(config) as workspace:
        for contract in chosen:
            try:
                _land_one(workspace, contract, choice, printed, whole=whole)
            except MirrorlakeError as error:
                printed.fail(contract.name, error)
    _publish(config, chosen, printed)
    if as_json:
        _print_json(printed)
    elif not printed.said:
        show.console.print("Nothing new has landed.")
    codes = [*(one.code for one in printed.refused), *(e.exit_code for _, e in printed.failures)]
    if codes:
        sys.exit(codes[0])
    if printed.open or printed.withdrawn:
        sys.exit(ATTENTION)


def _publish(config: Config, chosen: Sequence[TableContract], printed: _Printed) -> None:
    """Load into BigQuery what is to be there of tables that did not fail."""
    failed = {table for table, _ in printed.failures}
    landed = [one for one in chosen if one.name not in failed]
    printed.loaded, failures = publish_all(config, landed)
    if not printed.quiet:
        print_published(printed.loaded)
    for table, error in failures:
        printed.fail(table, error)


def _land_one(
    workspace: Workspace,
    contract: TableContract,
    choice: _Choice,
    printed: _Printed,
    *,
    whole: bool,
) -> None:
    from mirrorlake.landing.decisions import chosen_ids, skip_snapshots
    from mirrorlake.landing.land import RefusedSnapshot, land_table, look_for
    from mirrorlake.landing.put_right import put_landing_right

    name, ledger = contract.name, workspace.ledger
    repaired, lost = put_landing_right(workspace, contract)
    for words in repaired:
        printed.line(words)
    # Words like "withdrawn" mean what this look finds.
    found = look_for(workspace, contract, whole=whole)
    for number in skip_snapshots(workspace, contract, choice.skip):
        printed.line(f"{name} {number:014d}: skipped, left out for good")
    if choice.skip:
        found = look_for(workspace, contract, whole=whole)
    smaller = chosen_ids(ledger, contract, choice.accept_smaller)
    again = chosen_ids(ledger, contract, choice.retry) | smaller
    again |= {n for n in lost if n in found.withdrawn}
    _show_found(workspace, contract, found, printed, besides=again)
    ids = again | {one.id for one in found.ready}
    gap = [number for number in found.withdrawn if number not in again]
    if gap:
        _show_gap(contract, gap, printed, stops=bool(ids - again))
        ids = again
    with _watching(printed, name, len(ids)) as report:
        for one in land_table(workspace, contract, ids, accept_smaller=smaller, report=report):
            if isinstance(one, RefusedSnapshot):
                printed.show_refusal(one)
                record = LandedSnapshots(ledger).snapshot(name, one.id)
                about = record.fingerprint if record is not None else ""
                SnapshotNotices(ledger).notice_snapshots(name, {one.id: (about, one.reason)})
                SnapshotNotices(ledger).report_notices(name)
            else:
                printed.show_arrived(one)
    if any(one.table == name for one in printed.arrived):
        _show_suspects(workspace, contract, printed)


def _show_suspects(workspace: Workspace, contract: TableContract, printed: _Printed) -> None:
    """Say which columns without a rule hold what looks personal, in a sample of what came."""
    from mirrorlake.serving.personal_audit import find_suspects, suspect_words

    found = find_suspects(workspace.lake, workspace.ledger, contract).found
    if found:
        printed.suspected[contract.name] = found
    for words in suspect_words(found):
        printed.problem(f"{contract.name}: clean may show personal data: {words}")


def _show_found(
    workspace: Workspace,
    contract: TableContract,
    found: Looked,
    printed: _Printed,
    *,
    besides: Collection[int],
) -> None:
    """Say what waits and what is refused: each refusal in full once, later its id alone."""
    name, now = contract.name, workspace.ledger.clock()
    for one in found.waiting:
        printed.show_waiting(name, one, now)
    new = {notice.id for notice in SnapshotNotices(workspace.ledger).report_notices(name)}
    for number, reason in sorted(found.refused.items()):
        if number not in besides:
            printed.open.append({"table": name, "id": number, "reason": reason})
            if number in new:
                printed.problem(f"{name} {number:014d} refused: {reason}")
    old = [n for n in sorted(found.refused) if n not in new and n not in besides]
    if old:
        listed = ", ".join(f"{n:014d}" for n in old[:5]) + (" …" if len(old) > 5 else "")
        printed.problem(
            f"{name}: {len(old)} refused before and not decided ({listed}): "
            f"`mirrorlake land {quote(name)} --retry ID` takes one again, `--skip ID` leaves it out"
        )
    for path in found.strange:
        printed.problem(f"{name}: {path} is no snapshot's")


def _show_gap(
    contract: TableContract, gap: Sequence[int], printed: _Printed, *, stops: bool
) -> None:
    """Say which published snapshots readers don't see; an error where that stops newer ones."""
    from mirrorlake.landing.rolled_back import gap_error

    error = gap_error(contract, gap)
    printed.withdrawn += [{"table": contract.name, "id": number} for number in gap]
    if stops:
        printed.fail(contract.name, error)
    else:
        printed.problem(f"{contract.name}: {error}")


@contextmanager
def _watching(printed: _Printed, table: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show on a terminal what is being done, gone with the block."""
    if printed.quiet or not total or not show.errors.is_terminal:
        yield lambda _, __: None
        return
    begun: list[int] = []
    with show.errors.status("") as status:

        def report(number: int, words: str) -> None:
            if number not in begun:
                begun.append(number)
            place = f"{len(begun)} of {total}"
            status.update(f"{escape(table)} {number:014d} ({place}): {words}")

        yield report


def _print_json(printed: _Printed) -> None:
    errors = show.errors_of(printed.failures)
    show.print_json(
        {
            "snapshots": [asdict(one) for one in printed.arrived],
            "refused": [asdict(one) for one in printed.refused],
            "open": printed.open,
            "waiting": printed.waiting,
            "withdrawn": printed.withdrawn,
            "suspected_pii": printed.suspected,
            "errors": errors,
            **{name: [asdict(one) for one in done] for name, done in printed.loaded.items()},
        }
    )


@click.command(short_help="Write a table as MySQL has it now into a landing.")
@click.argument("table", shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--to", required=True, help="The landing: a folder, gs://… or s3://….")
@click.option("--endpoint", help="Another address of the bucket's API.")
@click.option("--gzip", "packed", is_flag=True, help="Compress the files.")
def export(
    table: str, config_path: Path, as_json: bool, to: str, endpoint: str | None, packed: bool
) -> None:
    """Write TABLE as MySQL has it now into a landing: one snapshot in JSON, its manifest last."""
    from mirrorlake.landing.export import export_table
    from mirrorlake.sources.files.stores import store_of
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    with Workspace.open(config) as workspace:
        place = store_of(to, endpoint)
        done = export_table(workspace, config.table(table), place, packed=packed)
    if as_json:
        show.print_json(asdict(done))
        return
    words = (
        f"{plural(done.rows, 'row')} in {plural(done.files, 'file')}: snapshot {done.snapshot:014d}"
    )
    show.console.print(f"{words} in {done.folder}", markup=False)
