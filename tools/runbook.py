"""docs/runbook.md and docs/reference/errors.md, from the texts of `mirrorlake explain`."""

from __future__ import annotations

from pathlib import Path

from mirrorlake.cli.explain.explanations import (
    Explanation,
    classes,
    exit_codes,
    explain_class,
    explain_code,
    symptoms,
)

ROOT = Path(__file__).resolve().parent.parent
SYMPTOMS = ROOT / "docs" / "runbook.md"
ERRORS = ROOT / "docs" / "reference" / "errors.md"
_WRITTEN = "<!-- Written by `python -m tools.reference`, from mirrorlake/cli/explain. -->"


def symptoms_page() -> str:
    """docs/runbook.md."""
    lines = [
        "# Runbook: what you see, and what to do",
        "",
        _WRITTEN,
        "",
        "On the command line: `mirrorlake explain` with an error's class, an exit code, or a whole "
        "message in quotes. `mirrorlake doctor` looks at every piece, and with `--fix` "
        "repairs what needs no decision. Every class of errors: "
        "[errors, one by one](reference/errors.md).",
        "",
        "## By exit code",
        "",
        "| code | means | do |",
        "|---|---|---|",
    ]
    for code in exit_codes():
        one = explain_code(code)
        lines.append(f"| {code} | {_cell(one.means)} | {_cell(one.do)} {_link(one)} |")
    lines += ["", "## By the message's words", "", "| it says | means | do |", "|---|---|---|"]
    for one in symptoms():
        lines.append(f"| `{one.of}` | {_cell(one.means)} | {_cell(one.do)} {_link(one)} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """docs/reference/errors.md."""
    lines = [
        "# Errors, one by one",
        "",
        _WRITTEN,
        "",
        "By what you see: [runbook](../runbook.md). A message names the thing, the place and the "
        "next step; this page says what all of its kind have in common. “Left alone” is what "
        "was not changed when it ended.",
    ]
    for name in classes():
        one = explain_class(name)
        lines += [
            "",
            f"## {name}",
            "",
            f"{one.means} Exit code {one.code}.",
            "",
            f"**Left alone**: {one.unchanged} **Do**: {one.do} {_link(one, '../')}",
        ]
    return "\n".join(lines) + "\n"


def _link(one: Explanation, up: str = "") -> str:
    page = one.page.removeprefix("docs/")
    name = page.partition("#")[0].removesuffix(".md").rpartition("/")[2].replace("-", " ")
    return f"([{name}]({up}{page}))"


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


PAGES = {SYMPTOMS: symptoms_page, ERRORS: errors_page}
