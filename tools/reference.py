"""Writes the reference pages from the code: ``python -m tools.reference``.

- docs/cli.md: commands, arguments and options as click has them, exit codes as `mirrorlake.cli`
  names them.
- docs/reference/configuration.md: sections and fields as the pydantic models describe them.
- docs/runbook.md and docs/reference/errors.md: what `mirrorlake explain` says.
- docs/reference/json.md: between its marks, the fields of what ``--json`` prints, as the
  dataclasses' docstrings describe them.
- docs/performance.md and docs/reliability.md with their charts, from the figures that are kept.

A test compares each page with what this writes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mirrorlake.cli.explain.explanations import exit_codes
from tools import runbook

ROOT = Path(__file__).resolve().parent.parent
CLI = ROOT / "docs" / "cli.md"
CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"
JSON = ROOT / "docs" / "reference" / "json.md"

GUIDES = {
    "try": "quickstart.md",
    "init": "configuration.md#what-mirrorlake-init-proposes",
    "explain": "runbook.md",
    "plan": "models.md#changing-a-model",
    "backfill": "models-dagster.md#backfills",
    "invalidate": "models-dagster.md#backfills",
    "alert": "alerts.md",
    "report": "report.md",
    "cut": "cuts.md",
    "at": "cuts.md",
    "cuts": "cuts-running.md",
    "records": "records.md",
    "rekey": "columns.md",
    "check": "proof.md",
    "repair": "repair.md",
    "proof": "proof.md#what-is-kept",
    "readers": "proof-of-layers.md#engines-that-read-one-table",
    "refold": "guarantees.md#made-again-from-raw",
    "tenants": "tenants.md",
    "preflight": "preflight.md",
    "run": "models-running.md",
    "show": "models.md",
    "test": "models-checks.md#tests",
    "models generate": "models-checks.md#first-models",
    "models prune": "models-running.md#retention",
    "external": "external-tables.md",
    "land": "snapshots.md",
    "publish": "snapshots-running.md#publish",
    "clone": "snapshots-running.md#clones",
    "export": "snapshots.md#landing",
    "bigquery": "bigquery.md",
    "permissions": "bigquery-permissions.md",
    "maintain": "snapshots-running.md#maintenance",
    "backup": "backup.md",
    "restore": "backup.md",
    "lake": "backup.md",
    "schema": "schema-changes.md",
}
"""The how-to that explains a command."""

TABLE = "sources.<name>.databases.<db>.tables.<table>"
SECTIONS: Mapping[str, str | None] = {
    "The file": None,
    "lake": "LakeConfig",
    "lake.catalog": "CatalogConfig",
    "ledger": "LedgerConfig",
    "spark": "SparkConfig",
    "privacy": "PrivacyConfig",
    "bigquery": "BigQueryConfig",
    "readers": "ReadersConfig",
    "readers.trino": "TrinoConfig",
    "alerts": "AlertsConfig",
    "alerts.email": "EmailConfig",
    "cuts": "CutsConfig",
    "cuts.sources.<source>": "SourceCuts",
    "records": "RecordsConfig",
    "records.destinations.<name>": "DestinationConfig",
    "defaults": "DefaultsConfig",
    "freshness": "Freshness",
    "sources.<name>": "SourceSection",
    "sources.<name>.landing": "LandingConfig",
    "sources.<name>.back_off": "BackOff",
    "sources.<name>.tls": "TlsConfig",
    "sources.<name>.databases.<db>": "DatabaseSection",
    "sources.<name>.databases.<db>.namespaces": "NamespacesSection",
    TABLE: "TableSection",
    f"{TABLE}.snapshot": "SnapshotConfig",
    f"{TABLE}.bigquery": "BigQueryLayout",
    f"{TABLE}.columns.<column>": "ColumnRule",
    f"{TABLE}.entity": "EntitySection",
    "tenants.<name>": "TenantsSection",
    "tenants.<name>.tables.<table>": "TenantTableSection",
}
"""Headings of the configuration's reference, and their definitions in the JSON schema."""

_MARK = re.compile(r"<!-- fields of ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)
_DURATION = re.compile(r"^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$")
_BY_PUBLISHER = "by publisher, "
_WRITTEN = "<!-- Written by `python -m tools.reference`: change the code's own words, not this. -->"


def cli_page() -> str:
    """docs/cli.md."""
    from demo.__main__ import demo
    from mirrorlake.cli.main import SECTIONS as GROUPS
    from mirrorlake.cli.main import cli

    lines = [
        "# Command line",
        "",
        _WRITTEN,
        "",
        "`mirrorlake` is the engine without Dagster: the same functions, lake and ledger. Results "
        "go to standard output; progress, logs and errors to standard error. Every command takes "
        "`--help`, and those that read the contract `--config` (`mirrorlake.yaml` by default). "
        "With `--json` a command prints one value and nothing else: "
        "[its fields](reference/json.md). `TABLES` are names (`source.db.table`, or any end that "
        "only one table has) or quoted patterns with `*` and `?`.",
        "",
        *_options(cli),
    ]
    for title, group in GROUPS.items():
        lines += ["", f"## {title}"]
        for name in group:
            lines += _command("mirrorlake", cli.commands[name])
    lines += ["", "## The demo", "", "It needs a clone: it is not in the installed package."]
    lines += _command("python -m", demo, "demo")
    lines += ["", "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in exit_codes().items()]
    lines += ["", "Where several tables fail, the code is the first failure's."]
    return "\n".join(lines) + "\n"


def _command(before: str, command: click.Command, name: str | None = None) -> Iterator[str]:
    full = f"{before} {name or command.name}"
    yield from ("", f"### {full}", "", _help(command))
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    if arguments:
        words = " ".join(p.make_metavar(click.Context(command)) for p in arguments)
        yield from ("", f"Usage: `{full} {words}`")
    links = [
        f"[{page.partition('#')[0]}]({page})"
        for page in [GUIDES.get(full.removeprefix("mirrorlake "), "").removeprefix("")]
        if page
    ]
    if any("--json" in p.opts for p in command.params):
        anchor = full.replace(" ", "-")
        links.append(f"[JSON](reference/json.md#{anchor})")
    if links:
        yield from ("", f"See {', '.join(links)}.")
    table = _options(command)
    if table:
        yield from ("", *table)
    if isinstance(command, click.Group):
        for sub in sorted(command.commands.values(), key=lambda one: str(one.name)):
            yield from _command(full, sub)


def _help(command: click.Command) -> str:
    """A command's help in Markdown: a line for each paragraph, options in code."""
    parts = inspect.cleandoc(command.help or "").split("\n\n")
    return _with_code("\n\n".join(" ".join(part.split()) for part in parts))


def _with_code(words: str) -> str:
    """Words whose options are in code."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]+)(?![`\w])", r"`\1`", words)


def _options(command: click.Command) -> list[str]:
    """The table of a command's own options; none where it has only what all have."""
    rows = [
        f"| {', '.join(f'`{o}`' for o in (*p.opts, *p.secondary_opts))} | {_default(p)} "
        f"| {_with_code(_cell(p.help or ''))} |"
        for p in command.params
        if isinstance(p, click.Option) and p.opts[0] not in ("--config", "--json")
    ]
    return ["| option | default | meaning |", "|---|---|---|", *rows] if rows else []


def _default(option: click.Option) -> str:
    known = isinstance(option.default, str | int | float | Path) and not option.is_flag
    if known and str(option.default):
        return f"`{option.default}`"
    return "required" if option.required else "–"


def configuration_page() -> str:
    """docs/reference/configuration.md."""
    from mirrorlake.config import config_schema

    schema = config_schema()
    lines = [
        "# Configuration: every setting",
        "",
        _WRITTEN,
        "",
        "How to write `mirrorlake.yaml`: [configuration](../configuration.md). `–`: there is no "
        "default; in a table's contract, what `defaults` say.",
    ]
    for heading, name in SECTIONS.items():
        section = schema if name is None else schema["$defs"][name]
        title = heading if name is None else f"`{heading}`"
        lines += ["", f"## {title}", "", _paragraph(section.get("description", ""))]
        lines += ["", "| field | default | meaning |", "|---|---|---|"]
        required = section.get("required", ())
        for field, about in section["properties"].items():
            linked = schema["$defs"].get(str(about.get("$ref", "")).rpartition("/")[2], {})
            words = about.get("description") or linked.get("description", "")
            # A section of its own has its fields' defaults.
            default = "–" if linked else _value(about.get("default"))
            default = "required" if field in required else default
            lines.append(f"| `{field}` | {default} | {_cell(words)} |")
    return "\n".join(lines) + "\n"


def _value(default: Any) -> str:
    """A default as the file has it."""
    if default is None or default in ("", [], {}):
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, Mapping):
        return "`{" + ", ".join(f"{k}: {_plain(v)}" for k, v in default.items()) + "}`"
    if isinstance(default, Sequence) and not isinstance(default, str):
        return "`[" + ", ".join(map(_plain, default)) + "]`"
    return f"`{_plain(default)}`"


def _plain(value: Any) -> str:
    """A value as YAML has it; a duration as the file writes it."""
    found = _DURATION.match(str(value)) if len(str(value)) > 1 else None
    if not found:
        return str(value)
    return "".join(f"{n}{u}" for n, u in zip(found.groups(), "dhms", strict=True) if n)


def json_page() -> str:
    """docs/reference/json.md: its own words, with the fields that dataclasses describe."""
    return _MARK.sub(lambda found: _marked(found[1]), JSON.read_text("utf-8"))


def json_types() -> list[type]:
    """The dataclasses whose fields are on the page."""
    return [_type(name) for name in re.findall(r"<!-- fields of ([\w.]+) -->", _json_text())]


def _json_text() -> str:
    return JSON.read_text("utf-8")


def _type(name: str) -> type:
    module, _, of_class = name.rpartition(".")
    return getattr(import_module(module), of_class)


def _marked(name: str) -> str:
    of_class = _type(name)
    known = described(of_class)
    rows: dict[str, list[str]] = {}
    for field in fields(of_class):
        for shown, words in _as_printed(field.name, known[field.name]):
            rows.setdefault(words, []).append(f"`{shown}`")
    lines = [f"| {', '.join(names)} | {_null(words)} |" for words, names in rows.items()]
    table = "\n".join(["| field | meaning |", "|---|---|", *lines])
    return f"<!-- fields of {name} -->\n{table}\n<!-- end -->"


def _as_printed(field: str, words: str) -> Iterator[tuple[str, str]]:
    """A field as JSON has it: what publishers say (``by publisher, …``) is a field of each."""
    if not words.startswith(_BY_PUBLISHER):
        yield field, words
        return
    from mirrorlake.operations.publishers import PUBLISHERS

    for name, publisher in PUBLISHERS.added.items():
        yield name, words.replace(_BY_PUBLISHER, f"of {publisher.title}, ", 1)


def described(of_class: type) -> dict[str, str]:
    """What a dataclass says of its fields under ``Attributes:``.

    Raises:
        KeyError: it says nothing of one.
    """
    text = (inspect.getdoc(of_class) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    known: dict[str, str] = {}
    for entry in re.split(r"\n(?= {4}\w)", text):
        # A line may go on with the next field: "rows: of it. bytes: of its files."
        for names, words in _entries(" ".join(entry.split())):
            known.update((name.strip(), words) for name in names.split(","))
    missing = [field.name for field in fields(of_class) if field.name not in known]
    if missing:
        raise KeyError(f"{of_class.__qualname__} does not describe {', '.join(missing)}")
    return known


def _entries(entry: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"(?:^|(?<=[.;]) )(\w+(?:, \w+)*): ", entry)
    for names, words in zip(parts[1::2], parts[2::2], strict=True):
        yield names, words.rstrip(";")


def _null(words: str) -> str:
    """A meaning as of JSON, which has no None."""
    return re.sub(r"\bNone\b", "null", _cell(words))


def _paragraph(words: str) -> str:
    return " ".join(words.replace("``", "`").split())


def _cell(words: str) -> str:
    return _paragraph(words).replace("|", "\\|")


PAGES = {CLI: cli_page, CONFIGURATION: configuration_page, JSON: json_page, **runbook.PAGES}


def main() -> None:
    """Write every page, and those of kept figures with their charts."""
    from benchmarks import report
    from tests.soak import report as soak_report

    for path, page in PAGES.items():
        path.write_text(page(), "utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    for figures in (report, soak_report):
        figures.write_page()
        sys.stdout.write(f"{figures.PAGE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
