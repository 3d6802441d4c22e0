"""`alert`: hooks are notified.

What belongs here: options and what is printed. What doesn't: what is sent, and to whom
(`mirrorlake.alerts.late_tables`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
from rich.markup import escape

from mirrorlake.alerts.config import AlertsConfig
from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ConfigError


@click.command(short_help="Notify hooks of tables that became late or failing.")
@show.config_option
@show.json_option
@click.option("--test", is_flag=True, help="Send every hook a test message instead.")
def alert(config_path: Path, as_json: bool, test: bool) -> None:
    """Notify the contract file's hooks of tables that became late or failing, or no longer are.

    Each is sent once. Queries no source.
    """
    from mirrorlake.alerts.late_tables import send_alerts, send_test
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    if not config.section(AlertsConfig).hooks:
        raise ConfigError(
            f"{config_path} has no hook under alerts",
            next_step="Name a webhook, slack, email or services there",
        )
    if test:
        _print_test(send_test(config), as_json=as_json)
        return
    deliveries = send_alerts(config, Ledger(config.ledger.url, config.ledger.wait))
    if as_json:
        show.print_json([asdict(one) for one in deliveries])
    elif not deliveries:
        show.console.print("Nothing to report.")
    else:
        table = show.table("hook", "table", "kind", "event", "delivered…")
        for one in deliveries:
            words = "yes" if one.delivered else str(one.error)
            table.add_row(one.hook, escape(one.table), one.kind, one.event, escape(words))
        show.console.print(table)
    if any(not one.delivered for one in deliveries):
        sys.exit(1)


def _print_test(errors: Mapping[str, str | None], *, as_json: bool) -> None:
    """What became of the test message at each hook."""
    if as_json:
        found = [{"hook": h, "delivered": e is None, "error": e} for h, e in errors.items()]
        show.print_json(found)
    else:
        for hook, error in errors.items():
            words = "the test message was delivered" if error is None else f"not delivered: {error}"
            show.console.print(f"{hook}: {escape(words)}", highlight=False, soft_wrap=True)
    if any(error is not None for error in errors.values()):
        sys.exit(1)
