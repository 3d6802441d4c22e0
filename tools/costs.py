"""What a mirror costs a month, from measured figures and given prices: ``python -m tools.costs``
prints it, ``--write`` puts it into docs/costs.md.

Figures come from the committed results of the benchmarks `first`, `scale-latency` and
`scale-rows`; prices and the mirror from benchmarks/prices.yaml, whose numbers are examples. What
belongs here: the arithmetic. What doesn't: any number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import yaml

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PRICES = ROOT / "benchmarks" / "prices.yaml"
PAGE = ROOT / "docs" / "costs.md"
_BEGIN, _END = "<!-- computed: python -m tools.costs --write -->", "<!-- end of computed -->"
_DAYS = 30


@dataclass(frozen=True)
class Measured:
    """What was measured; each a mean.

    Attributes:
        first_a, first_b: calls of class A and B for a table's first load.
        load_a, load_b: for one more load of few rows.
        load_cpu: CPU seconds of such a load.
        ledger_kb, catalog_kb, bucket_kb: what such a load leaves.
        stored: bytes in raw and deduped for a byte in MySQL.
        first_cpu, check_cpu: CPU seconds a million rows, of a first sync and of a check.
        first_server, check_server: the MySQL server's, for the same.
    """

    first_a: float
    first_b: float
    load_a: float
    load_b: float
    load_cpu: float
    ledger_kb: float
    catalog_kb: float
    bucket_kb: float
    stored: float
    first_cpu: float
    check_cpu: float
    first_server: float
    check_server: float


@dataclass(frozen=True)
class Prices:
    """What one cloud takes, in one currency."""

    bucket: str
    gb_month: float
    class_a_1000: float
    class_b_1000: float
    cpu_hour: float
    database_month: float


@dataclass(frozen=True)
class Mirror:
    """Whose month is computed; see benchmarks/prices.yaml."""

    tables: int
    source_gb: float
    source_rows: float
    moving: int
    loads_a_day: float
    rows_a_day: float
    checks_a_month: float
    kept_days: float

    @property
    def loads(self) -> float:
        """Loads in a month."""
        return self.moving * self.loads_a_day * _DAYS


@dataclass(frozen=True)
class Month:
    """What a mirror uses in a month, before prices."""

    class_a: float
    class_b: float
    stored_gb: float
    databases_gb: float
    cpu_hours: float
    server_hours: float

    def cost(self, prices: Prices) -> dict[str, float]:
        """What each part costs."""
        return {
            "calls": self.class_a / 1000 * prices.class_a_1000
            + self.class_b / 1000 * prices.class_b_1000,
            "stored": self.stored_gb * prices.gb_month,
            "CPU": self.cpu_hours * prices.cpu_hour,
            "Postgres": prices.database_month,
        }


def month_of(mirror: Mirror, measured: Measured) -> Month:
    """What a mirror uses in a month after its first sync.

    A row that changed costs as much CPU as one of a first sync, beside what its load costs.
    """
    checked = mirror.source_rows / 1e6 * mirror.checks_a_month
    brought = mirror.rows_a_day * _DAYS / 1e6
    kept = mirror.loads / _DAYS * mirror.kept_days
    return Month(
        class_a=mirror.loads * measured.load_a,
        class_b=mirror.loads * measured.load_b,
        stored_gb=mirror.source_gb * measured.stored + kept * measured.bucket_kb / 1e6,
        databases_gb=mirror.loads * (measured.ledger_kb + measured.catalog_kb) / 1e6,
        cpu_hours=(
            mirror.loads * measured.load_cpu
            + brought * measured.first_cpu
            + checked * measured.check_cpu
        )
        / 3600,
        server_hours=(brought * measured.first_server + checked * measured.check_server) / 3600,
    )


def first_of(mirror: Mirror, measured: Measured) -> Month:
    """What its first sync uses, once."""
    rows = mirror.source_rows / 1e6
    return Month(
        class_a=mirror.tables * measured.first_a,
        class_b=mirror.tables * measured.first_b,
        stored_gb=mirror.source_gb * measured.stored,
        databases_gb=0,
        cpu_hours=rows * measured.first_cpu / 3600,
        server_hours=rows * measured.first_server / 3600,
    )


# --- read -----------------------------------------------------------------------------------------


def read_prices(path: Path = PRICES) -> tuple[dict[str, Prices], Mirror, dict[str, str]]:
    """Prices by cloud, the mirror, and where the prices are from."""
    text = yaml.safe_load(path.read_text("utf-8"))
    clouds = {name: Prices(**values) for name, values in text["clouds"].items()}
    about = {name: str(text[name]) for name in ("as_of", "source")}
    return clouds, Mirror(**text["mirror"]), about


def read_measured(folder: Path = RESULTS) -> Measured:
    """The figures, by their places in the results.

    Raises:
        ClickException: one is not there.
    """
    calls = _rows(folder, "scale-latency", "What is called for a table")
    load = next(iter(_rows(folder, "scale-latency", "One more load of few rows").values()))
    steps = _rows(folder, "scale-rows", "Many rows on a cluster")
    sync, check = steps["first sync, proved"], steps["`check`, every row"]
    large = _section(folder, "first", "The first sync of a large table, beside dlt")
    found = re.match(r"lineitem, ([\d,]+) rows", large["about"])
    million = int(found[1].replace(",", "")) / 1e6 if found else 0
    first = _rows(folder, "first", large["title"])["mirrorlake sync"]
    stored = _rows(folder, "scale-rows", "What is stored")["lineitem"]
    return Measured(
        first_a=calls["first"]["class A a table"],
        first_b=calls["first"]["class B a table"],
        load_a=load["class A a load"],
        load_b=load["class B a load"],
        load_cpu=load["CPU s a load"],
        ledger_kb=load["ledger, kB a load"],
        catalog_kb=load["catalog, kB a load"],
        bucket_kb=load["bucket, kB a load"],
        stored=stored["the lake of MariaDB's"],
        first_cpu=first["median CPU s"] / million,
        check_cpu=check["our CPU s a million rows"],
        first_server=sync["server's"],
        check_server=check["server's"],
    )


def _section(folder: Path, part: str, title: str) -> dict[str, Any]:
    # The whole part, or as much of it as was run.
    paths = [folder / f"{part}.json", *sorted(folder.glob(f"{part}-*.json"), reverse=True)]
    record = json.loads(next(path for path in paths if path.exists()).read_text("utf-8"))
    for section in record["figures"]:
        if section["title"] == title:
            return section
    raise click.ClickException(f"{part}.json has no section {title!r}: run that part again")


def _rows(folder: Path, part: str, title: str) -> dict[str, Mapping[str, float]]:
    """By the first cell of each row its numbers, by column."""
    section, found = _section(folder, part, title), dict[str, Mapping[str, float]]()
    for row in section["rows"]:
        pairs = zip(section["columns"][1:], row[1:], strict=True)
        found[row[0]] = {
            name: float(cell.replace(",", ""))
            for name, cell in pairs
            if re.fullmatch(r"[\d,]+(\.\d+)?", cell)
        }
    return found


# --- shown ----------------------------------------------------------------------------------------


def computed() -> str:
    """The part of the page that is computed."""
    clouds, mirror, about = read_prices()
    measured = read_measured()
    month, first = month_of(mirror, measured), first_of(mirror, measured)
    lines = [
        f"{mirror.tables:,} tables with {mirror.source_gb:,g} GB and {mirror.source_rows:,.0f} "
        f"rows, of which {mirror.moving:,} are loaded {mirror.loads_a_day:g} times a day with "
        f"{mirror.rows_a_day:,.0f} rows in all; every row is checked {mirror.checks_a_month:g} "
        f"times a month; versions of {mirror.kept_days:g} days are kept.",
        "",
        "| | a month | the first sync, once |",
        "|---|---|---|",
    ]
    names = {
        "class_a": ("calls of class A", ",.0f"),
        "class_b": ("calls of class B", ",.0f"),
        "stored_gb": ("GB in the bucket", ",.1f"),
        "databases_gb": ("GB more in ledger and catalog", ",.2f"),
        "cpu_hours": ("hours of one core of ours", ",.1f"),
        "server_hours": ("hours of one core of MySQL's", ",.1f"),
    }
    for field in fields(Month):
        name, form = names[field.name]
        values = (getattr(of, field.name) for of in (month, first))
        lines.append(f"| {name} | " + " | ".join(f"{value:{form}}" for value in values) + " |")
    parts = list(month.cost(next(iter(clouds.values()))))
    lines += ["", f"At prices that are **examples** ({about['source']}, {about['as_of']}), in US "]
    lines[-1] += "dollars a month:"
    lines += ["", f"| cloud | bucket | {' | '.join(parts)} | together | the first sync, once |"]
    lines.append("|---|---|" + "---|" * (len(parts) + 2))
    for name, prices in clouds.items():
        cost, once = month.cost(prices), first.cost(prices)
        cells = [f"{cost[part]:,.2f}" for part in parts]
        whole, first_cost = sum(cost.values()), once["calls"] + once["CPU"]
        lines.append(
            f"| {name} | {prices.bucket} | {' | '.join(cells)} | {whole:,.2f} | {first_cost:,.2f} |"
        )
    return "\n".join(lines)


def page_with(text: str, part: str) -> str:
    """The page with its computed part replaced."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{part}\n{_END}{after}"


@click.command()
@click.option("--write", is_flag=True, help="Put it into docs/costs.md.")
def main(write: bool) -> None:
    """What the mirror of benchmarks/prices.yaml costs, at its prices."""
    part = computed()
    click.echo(part)
    if write:
        PAGE.write_text(page_with(PAGE.read_text("utf-8"), part), "utf-8")


if __name__ == "__main__":
    main()
