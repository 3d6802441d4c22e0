"""What runs of models did, as it is printed."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from mirrorlake.models.cli.run_and_show import runs_table
from mirrorlake.models.compute.model_run import ModelRun
from mirrorlake.models.ledger import ModelPartition


def printed(table: Table, width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def test_what_models_did_fits_on_a_screen_of_80() -> None:
    """Columns of what seldom happens are there only where it did."""
    part = ModelPartition("shop_reports.sales_by_day", "", "f", "t", 1, {}, 1_000_000, 400.0, "r")
    run = ModelRun(part.model, (part,) * 30, 1_000)
    (head, line) = printed(runs_table([run]), 80).split("\n")[1:4:2]
    assert head.split() == ["model", "computed", "unchanged", "rows", "seconds"]
    assert line.split() == [run.model, "30", "1,000", "30,000,000", "12,000.0"]
    missed = replace(run, missed=2)
    assert printed(runs_table([missed, run]), 120).split("\n")[1].split()[3] == "missed"
