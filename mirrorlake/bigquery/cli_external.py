"""`external views`: views for readers of tables that services write in BigQuery themselves.

What belongs here: options, and what is printed. What doesn't: what a view shows
(`mirrorlake.bigquery.external_clean`), and making it (`mirrorlake.bigquery.external_views`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.outcomes import Outcomes

if TYPE_CHECKING:
    from mirrorlake.models.files.external_table import ExternalDeclaration


@click.command("views")
@click.argument("names", nargs=-1)
@show.config_option
@show.json_option
def external_views(names: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Make the views for readers of tables in BigQuery whose files say `clean` (all by default).

    One that is there as it must be is left alone.
    """
    from mirrorlake.bigquery.external_views import keep_clean_view
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.models.cli.external import chosen_externals
    from mirrorlake.models.contract_models import models_folder
    from mirrorlake.models.external_sources.inspect import compare_declared
    from mirrorlake.models.external_sources.own_places import OwnPlaces
    from mirrorlake.models.files.external_table import read_externals

    config = open_contract(config_path)
    lake, own = Lake(config.lake), OwnPlaces.of(config)
    made = Outcomes[dict[str, str]]()

    def keep_view(one: ExternalDeclaration) -> dict[str, str]:
        look = compare_declared(one, lake, own)
        view, state = keep_clean_view(look, config, declared)
        return {"table": one.name, "view": view, "state": state}

    # A file that can't be read makes no view.
    declared, unread = read_externals(models_folder(config))
    chosen, unreadable = chosen_externals(config, names, declared, unread)
    made.failures.extend(unreadable)
    for one in _with_view(chosen, named=bool(names), others=bool(unreadable)):
        made.attempt(one.name, partial(keep_view, one))
    show.end_with(made, _print_views, as_json=as_json, key="views")


def _print_views(made: Sequence[Mapping[str, str]]) -> None:
    for line in made:
        words = f"{escape(line['table'])}: {escape(line['view'])} {line['state']}"
        show.console.print(words, soft_wrap=True, highlight=False)


def _with_view(
    declared: Sequence[ExternalDeclaration], *, named: bool, others: bool
) -> Sequence[ExternalDeclaration]:
    """Those whose files say `clean`.

    Args:
        others: whether there are files that can't be read.

    Raises:
        ConfigError: there is none, or one that was named says nothing.
    """
    found = [one for one in declared if one.clean is not None]
    if (not found and not others) or (named and len(found) < len(declared)):
        without = next((one for one in declared if one.clean is None), None)
        named_one = f"{without.path} does not" if named and without is not None else "no file does"
        raise ConfigError(
            f"{named_one} say `clean`, so there is no view to make",
            next_step="Write `clean: {}` in the table's file: "
            "docs/external-tables.md#views-for-readers",
        )
    return found
