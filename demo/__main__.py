"""``python -m demo`` runs the demo; ``sabotage`` damages a table of it, for the UI to show;
``faults`` plants every fault there is, and repairs it; ``shop`` starts its server alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.main import main
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from demo.sabotage import Sabotaged

MISSED = 9
"""The exit code where a fault was not caught, or not repaired."""

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(".mirrorlake/demo"),
    help="The demo's folder.",
)


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--once", is_flag=True, help="Then run every check of Dagster and stop; start no UI.")
@_folder
@click.option("--port", type=int, help="The embedded server's port; a free one by default.")
@click.option(
    "--changes",
    type=int,
    default=2_000,
    show_default=True,
    help="Live changes between the two rounds.",
)
@click.pass_context
def demo(context: click.Context, once: bool, folder: Path, port: int | None, changes: int) -> None:
    """Mirror real flights and an invented, changing shop from an embedded MariaDB."""
    if context.invoked_subcommand is not None:
        return
    from demo.run import run_demo

    sys.exit(run_demo(folder, port=port, changes=changes, once=once, console=show.console))


@demo.command()
@_folder
@click.option("--port", type=int, help="The embedded server's port; a free one by default.")
@click.option("--customers", type=int, default=400, show_default=True, help="The shop's size.")
def shop(folder: Path, port: int | None, customers: int) -> None:
    """Start the embedded server with the shop alone, to mirror it by hand; Ctrl-C stops it."""
    from demo.serve import serve_shop

    serve_shop(folder, port, customers, show.console)


@demo.command()
@click.argument("statement")
@_folder
def sql(statement: str, folder: Path) -> None:
    """Run one statement on the running demo's server, as its application would."""
    from demo.serve import run_statement

    for row in run_statement(folder, statement):
        click.echo("\t".join(map(str, row)))


@demo.command()
@_folder
@click.option("--seed", type=int, help="Which rows; others each time by default.")
def sabotage(folder: Path, seed: int | None) -> None:
    """Damage a table of the running demo: a row is lost, and a number of another is wrong.

    It stays so until somebody repairs it: what to press in Dagster's UI is printed.
    """
    from demo.damage import damage_table

    done = damage_table(folder, Random(seed))  # noqa: S311
    lines = (
        f"[bold]{escape(done.table)} is damaged[/], in the lake's deduped layer:",
        f"  the row {_shown(done.lost)} is lost",
        f"  the row {_shown(done.altered)} has {done.column} {done.after}; in MySQL {done.before}",
        *(_steps_in_dagster(done.page) if done.ui else ()),
    )
    for line in lines:
        show.console.print(line, highlight=False, soft_wrap=True)


def _steps_in_dagster(page: str) -> Sequence[str]:
    return (
        "In Dagster:",
        f"  1. Open {escape(page)}",
        "  2. Execute exact_match (beside its name): it goes red, and lists both rows",
        "  3. Follow its link “Put it right” to the job repair; Launch Run",
        "  4. Back on that page it is green: both rows were read again from MySQL, and proved",
        "[dim]Nobody presses anything? The schedule “proofs” finds it within two hours.[/]",
    )


def _shown(key: Sequence[object]) -> str:
    return " ".join(map(str, key))


@demo.command()
@_folder
@click.option(
    "--fault",
    "names",
    multiple=True,
    help="Only this fault, as the output names it; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="A cell of every type; without a key too.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which rows, and which type.")
@show.json_option
def faults(folder: Path, names: Sequence[str], everything: bool, seed: int, as_json: bool) -> None:
    """Plant every kind of fault in the running demo's lake, show what finds it, and repair it.

    Only a lake and a server that a demo made are touched, and there only two tables that are made
    for it. Ends with 0 if every fault was caught and repaired, else with 9.
    """
    from demo.sabotage import EVERY, NAMES, victims
    from demo.sabotage import sabotage as plant

    unknown = [name for name in names if name not in EVERY]
    if unknown:
        raise ConfigError(
            f"there is no fault {unknown[0]!r}", next_step=f"Faults: {', '.join(EVERY)}"
        )
    chosen = names or (EVERY if everything else NAMES)
    rng = Random(seed)  # noqa: S311
    found: list[Sabotaged] = []
    with victims(folder) as both:
        for victim in both if everything else both[-1:]:
            for name in chosen:
                found.append(plant(victim, name, rng))
                if not as_json:
                    _print(found[-1])
    if as_json:
        show.print_json([asdict(one) for one in found])
    sys.exit(0 if all(one.caught and one.repaired for one in found) else MISSED)


def _print(one: Sabotaged) -> None:
    word = "[green]caught[/]" if one.caught else "[red]NOT CAUGHT[/]"
    after = "[green]repaired[/]" if one.repaired else "[red]NOT REPAIRED[/]"
    show.console.print(
        f"{escape(one.fault)} ({one.table}): {word} by {one.by} in {one.seconds:.1f} s "
        f"(counts: {one.counts}), {after} in {one.repair_seconds:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
    show.console.print(f"  {escape(one.said[:300])}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(demo)
