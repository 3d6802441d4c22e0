"""What ``dg scaffold defs dagster_mirrorlake.MirrorlakeComponent my_mirror`` writes."""

import os
import re
from pathlib import Path
from typing import Any

import click
import dagster as dg
from pydantic import BaseModel, Field

from mirrorlake.init.from_server import write_first_contract
from mirrorlake.init.render import lake_and_ledger
from mirrorlake.runtime.plural import plural

CONTRACT = "mirrorlake.yaml"
_NO_TABLE = """\
sources:
  shop: # the server's name in keys of assets; letters, digits and _
    host: 127.0.0.1
    port: 3306
    user: mirror # SELECT is enough; REPLICATION CLIENT and PROCESS show late commits
    # password: ${env:SHOP_PASSWORD}
    databases: {} # in place of {}:
      # shop:
      #   tables:
      #     orders:
      #       mode: incremental # or append, full
      #       key: [id]
      #       cursor: updated_at
      #       columns:
      #         email: {pii: mask} # in clean
"""


class ScaffoldParams(BaseModel):
    """What a person can say of the contract file's beginning."""

    url: str | None = Field(
        default=None,
        description="mysql://user@host:port/database: its tables are introspected. The password "
        "comes from MIRRORLAKE_INIT_PASSWORD.",
    )
    source: str | None = Field(
        default=None, description="The source's name; by default its database's or host's."
    )


class MirrorlakeScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes ``defs.yaml`` and, if there is none, a first contract file beside it."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """`ScaffoldParams`."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the files.

        Raises:
            ConfigError, SourceError: the server can't be introspected; nothing is written then.
        """
        folder = request.target_path
        name = re.sub(r"\W", "_", folder.name, flags=re.ASCII)
        name = name if name[0].isalpha() else f"mirror_{name.strip('_')}"
        contract = folder / CONTRACT
        if not contract.exists():
            self._write_contract(contract, _home(request, name), request.params)
        attributes: dict[str, Any] = {"config": CONTRACT, "name": name, "in_process": True}
        dg.scaffold_component(request, attributes)

    def _write_contract(self, path: Path, home: str, params: ScaffoldParams) -> None:
        if params.url is None:
            lines = "\n".join(lake_and_ledger(home))
            path.write_text(
                "# What Mirrorlake mirrors, and how: one contract per table. `mirrorlake init "
                "--from mysql://…`\n# writes them all, by what the server shows.\n"
                f"{lines}\n{_NO_TABLE}",
                encoding="utf-8",
            )
            return
        written = write_first_contract(params.url, params.source, path, force=False, home=home)
        click.echo(
            f"Wrote {path}: {plural(written.tables, 'table')}. Read it before the first run."
        )
        if written.variables:
            click.echo(f"Set {', '.join(written.variables)} in the environment.")


def _home(request: dg.ScaffoldRequest[ScaffoldParams], name: str) -> str:
    """Where the lake and the ledger are, as the contract file says it: in the project's folder, not
    among its modules."""
    if request.project_root is None:
        return ".mirrorlake"
    home = request.project_root.absolute() / ".mirrorlake" / name
    return os.path.relpath(home, request.target_path.absolute())
