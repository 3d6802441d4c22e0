"""`mirrorlake init --from-landing`: a first contract from files that landed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.runtime.plural import plural

_OPTIONS = (
    click.option(
        "--from-landing",
        "landing",
        help="The folder, gs://… or s3://… in which snapshots land, in place of a server.",
    ),
    click.option("--endpoint", help="Another address of the bucket's API."),
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="DB.TABLE.COLUMN=TYPE",
        help="The type of a column whose files don't show it.",
    ),
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="DB.TABLE=COLUMN,…",
        help="The columns that tell a table's rows apart.",
    ),
)


class Landing:
    """`mirrorlake.init.contract_origins.Beginning`: files that landed."""

    options = _OPTIONS

    def write(
        self,
        url: str | None,
        name: str | None,
        output: Path,
        options: dict[str, Any],
        *,
        chosen: Sequence[str],
        force: bool,
        as_json: bool,
    ) -> None:
        """Write the contract of a landing, and say what is open.

        Raises:
            UsageError: neither a server nor a landing is named, or both are; or tables are chosen
                by patterns.
            MirrorlakeError: see `write_landing_contract`.
        """
        from mirrorlake.landing.first_contract.write import write_landing_contract

        landing = options["landing"]
        if landing is None and any(options.values()):
            raise click.UsageError("--endpoint, --type and --key are for --from-landing.")
        if landing is None or url is not None:
            raise click.UsageError("Give one of --from (a server) and --from-landing (files).")
        if chosen:
            raise click.UsageError("--database, --tables and --exclude choose tables of a server.")
        written = write_landing_contract(
            landing,
            name,
            output,
            force=force,
            endpoint=options["endpoint"],
            types=options["types"],
            keys=options["keys"],
        )
        if as_json:
            show.print_json(asdict(written))
            return
        tables = "1 table" if written.tables == 1 else f"{written.tables} tables"
        rows = plural(written.rows, "row")
        warned = f"; {written.warnings} comments want a decision" if written.warnings else ""
        lines = [
            f"Wrote {output}: {tables}, from {rows} that were read{warned}.",
            *(f"Wrote {path}" for path in written.schemas),
        ]
        for table, questions in written.open.items():
            lines.append(f"{table} is not kept yet:")
            lines += [f"  {question}" for question in questions]
        if written.open:
            lines.append("Answer, and run this again with --force.")
        if written.tables:
            lines += ["Read the file, then:", f"  mirrorlake land --config {quote(str(output))}"]
        for line in lines:
            show.console.print(escape(line), highlight=False, soft_wrap=True)


LANDING = Landing()
