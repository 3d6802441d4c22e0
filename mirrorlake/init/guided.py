"""``mirrorlake init`` on a terminal: one screen for each thing that a person decides.

The dialogue only collects decisions. What is written, and by which rules, is what the options do:
the last screen says the command that writes the same file without a question.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.errors import ConfigError
from mirrorlake.init.by_log import LogProposal, refuse_unfollowed
from mirrorlake.init.choice import Choice, fits
from mirrorlake.init.decisions import (
    MODES,
    RULES,
    Decisions,
    decide,
    rules_for,
    with_mode,
    with_rule,
)
from mirrorlake.init.from_server import Written, refuse_taken, write_survey
from mirrorlake.init.guided_server import ask_databases, ask_server
from mirrorlake.init.prompts import ask, chosen_of, literal, say, size_words, title, until_right
from mirrorlake.init.suggest_tables import DECIDE, DECIDE_KEY, SuggestedTable
from mirrorlake.init.summary import count_modes, late_deletes, modes_in_words, warning_kinds
from mirrorlake.init.survey import Survey, survey_server
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.mysql.tables import Column

_PROPOSED: Final = "proposed"


def guide(
    url: str | None, name: str | None, output: Path, *, hashes: bool | None, force: bool
) -> tuple[Written, Path] | None:
    """Ask, and write the contract; None where the person says no at the end.

    Args:
        url: the server, if it is named already.
        output: the file that is proposed.
        hashes: whether hashes are proposed; None: where Spark is installed.

    Raises:
        Abort: Ctrl-C, or the end of the input: nothing was written.
        MirrorlakeError: a server that was named on the command line can't be used.
    """
    server, sizes = ask_server(url)
    choice = ask_databases(server, sizes)
    found = survey_server(server, name, choice, hashes=hashes)
    answers = _Answers(found, choice, hashes=hashes, named=name)
    answers.ask_tables()
    answers.ask_personal()
    output, force = _ask_file(output, force=force)
    return answers.finish(output, force=force)


@dataclass(frozen=True)
class _Question:
    """A column of which a rule is proposed, or of which a person has to decide."""

    table: SuggestedTable
    column: Column
    rule: str
    why: str

    @property
    def name(self) -> str:
        return f"{self.table.table}.{self.column.name}"


@dataclass
class _Answers:
    """What was proposed, and what a person made of it."""

    found: Survey
    choice: Choice
    hashes: bool | None
    named: str | None
    decisions: Decisions = field(default_factory=Decisions)
    left_out: set[int] = field(default_factory=set[int])

    @property
    def kept(self) -> Survey:
        """What was found, without the tables that are left out."""
        kept = tuple(t for n, t in enumerate(self.found.tables) if n not in self.left_out)
        return replace(self.found, tables=kept)

    @property
    def meant(self) -> Decisions:
        """What was decided of the tables that are kept."""
        kept = {_pattern_of(table) for table in self.kept.tables}
        modes = tuple(one for one in self.decisions.modes if one[0] in kept)
        rules = tuple(
            r for r in self.decisions.rules if any(r[0].startswith(f"{k}.") for k in kept)
        )
        return replace(self.decisions, modes=modes, rules=rules)

    def decided(self) -> tuple[list[SuggestedTable], LogProposal]:
        """The tables that are kept, as they will be written."""
        return decide(self.kept.tables, self.meant, self.found.missing)

    def ask_tables(self) -> None:
        """Which tables, and in which modes."""
        title(3)
        for one in self.found.skipped:
            say(f"Skipped {one.kind} {one.name}: {one.reason}", "dim")
        question = "Leave out (2, 4-6, log_*) or change (3=full, 3=proposed); Enter: go on"
        while True:
            self._show_tables()
            if until_right(question, self._take_tables):
                break
        self._ask_log()

    def _show_tables(self) -> None:
        table = show.table("table", "rows, about", "size", "key", "mode", "why…")
        decided, _ = decide(self.found.tables, self.decisions, self.found.missing)
        for number, one in enumerate(decided):
            out = number in self.left_out
            why = " ".join(one.notes).removeprefix(f"{one.mode}: ")
            cells = (
                f"{number + 1}. {escape(one.database)}.{escape(one.table)}",
                f"{one.estimated_rows:,}",
                size_words(one.bytes),
                escape(", ".join(one.key) or "none"),
                "left out" if out else one.mode,
                "" if out else escape(why),
            )
            table.add_row(*cells)
        show.console.print(table)

    def _take_tables(self, answer: str) -> bool:
        """Take an answer; true where there is nothing more to change."""
        if not answer:
            if len(self.left_out) == len(self.found.tables):
                raise ConfigError("no table is left", next_step="Name one again to take it in")
            return True
        tables, log = self.found.tables, self.found.missing

        def matches(one: SuggestedTable, word: str) -> bool:
            return fits(word, one.database, one.table)

        words, sign, mode = answer.rpartition("=")
        chosen = chosen_of(words if sign else answer, tables, matches)
        if not sign:
            self.left_out ^= chosen
            return False
        if mode not in (*MODES, _PROPOSED):
            raise ConfigError(
                f"{mode!r} is no mode here", next_step="Write 3=full, 3=binlog or 3=proposed"
            )
        made = list[tuple[str, str]]()
        for number in sorted(chosen):
            if mode != _PROPOSED:
                with_mode(tables[number], mode, log)
            made.append((_pattern_of(tables[number]), mode))
        others = tuple(one for one in self.decisions.modes if one[0] not in dict(made))
        self.decisions = replace(
            self.decisions, modes=(*others, *(m for m in made if m[1] != _PROPOSED))
        )
        return False

    def _ask_log(self) -> None:
        """Whether full copies are to follow the server's log, where it can be followed."""
        _, log = self.decided()
        if not log.tables:
            return
        try:
            refuse_unfollowed(self.found.missing)
        except ConfigError as error:
            say(f"{plural(log.tables, 'full copy', 'full copies')} could follow the binary log: "
                 f"{error}", "dim")  # fmt: skip
            return
        which = plural(log.tables, "full copy", "full copies")
        question = f"{which} can follow the server's binary log: changes and deletes at once. Do so"
        self.decisions = replace(self.decisions, by_log=click.confirm(question, default=False))

    def ask_personal(self) -> None:
        """What is to become of columns that look personal, secret or like card data."""
        title(4)
        while True:
            questions = [q for table in self.decided()[0] for q in _questions(table)]
            if not questions:
                say("No column looks personal, by its name or by a sample. A miss is possible.")
                return
            _show_questions(questions)
            hint = (
                f"Decide (2=mask, 3-5=drop, *.email=show; rules: {' '.join(RULES)}); Enter: go on"
            )
            if until_right(hint, lambda answer, q=questions: self._take_rules(answer, q)):
                return

    def _take_rules(self, answer: str, questions: Sequence[_Question]) -> bool:
        """Take an answer; true where there is nothing more to change."""
        if not answer:
            return True
        words, _, rule = answer.rpartition("=")
        if rule not in RULES or not words:
            raise ConfigError(
                f"{answer!r} is no NUMBER=RULE", next_step=f"Rules: {', '.join(RULES)}"
            )

        def matches(one: _Question, word: str) -> bool:
            return fits(word, one.table.table, one.column.name) or fits(word, "", one.name)

        made = list[tuple[str, str]]()
        for number in sorted(chosen_of(words, questions, matches)):
            one = questions[number]
            with_rule(one.table, one.column, rule)
            made.append((f"{_pattern_of(one.table)}.{literal(one.column.name)}", rule))
        others = tuple(known for known in self.decisions.rules if known[0] not in dict(made))
        decided = replace(self.decisions, rules=(*others, *made))
        decide(self.found.tables, decided, self.found.missing)
        self.decisions = decided
        return False

    def finish(self, output: Path, *, force: bool) -> tuple[Written, Path] | None:
        """Say what will be written, ask, and write it."""
        title(6)
        tables, log = self.decided()
        say(f"{output}: {modes_in_words(count_modes(tables))}", "bold")
        if late := late_deletes(count_modes(tables)):
            say(f"{late}.")
        for kind in warning_kinds(tables):
            say(f"- {kind}")
        if log.tables and not log.written:
            say(f"{plural(log.tables, 'table')} could follow the binary log: docs/binlog.md")
        say("The same without questions:")
        show.console.print(escape(f"  {self._command(output, force=force)}"), soft_wrap=True)
        if not click.confirm("Write it", default=True):
            say("Nothing was written.")
            return None
        return write_survey(self.kept, output, self.meant), output

    def _command(self, output: Path, *, force: bool) -> str:
        """The command that writes the same."""
        words = ["mirrorlake", "init", "--from", self.found.url.shown]
        words += ["--name", self.named] if self.named else []
        words += [w for one in self.choice.databases for w in ("--database", one)]
        for number in sorted(self.left_out):
            words += ["--exclude", _pattern_of(self.found.tables[number])]
        words += ["--mode", "binlog"] if self.decisions.by_log else []
        words += [w for p, mode in self.meant.modes for w in ("--mode", f"{p}={mode}")]
        words += [w for p, rule in self.meant.rules for w in ("--column", f"{p}={rule}")]
        words += ["--no-hash"] if self.hashes is False else []
        words += ["--output", str(output)] if str(output) != "mirrorlake.yaml" else []
        words += ["--force"] if force else []
        return shlex.join([*words, "--yes"])


def _pattern_of(table: SuggestedTable) -> str:
    return f"{literal(table.database)}.{literal(table.table)}"


def _questions(table: SuggestedTable) -> list[_Question]:
    """The columns of a table that are to be decided, in the table's order."""
    rules = {one.column: one for one in table.rules}
    open_ = {w.column: w for w in table.warnings if w.kind in (DECIDE, DECIDE_KEY)}
    found = list[_Question]()
    for column in table.source.columns if table.source is not None else ():
        rule, warned = rules.get(column.name), open_.get(column.name)
        if rule is not None:
            named = "never" if rule.rule.pci else str(rule.rule.pii)
            reason = f"{rule.reason}; it is the key" if warned is not None else rule.reason
            found.append(_Question(table, column, named, reason))
        elif warned is not None:
            reason = warned.text.partition(": ")[2].partition(";")[0]
            found.append(_Question(table, column, "show", f"decide: {reason}"))
    return found


def _show_questions(questions: Sequence[_Question]) -> None:
    table = show.table("column", "type", "in clean", "why…", "it can be…")
    for number, one in enumerate(questions, 1):
        can = " ".join(rules_for(one.table, one.column))
        name = f"{number}. {one.table.database}.{one.name}"
        cells = (name, one.column.column_type, one.rule, one.why, can)
        table.add_row(*map(escape, cells))
    show.console.print(table)


def _ask_file(output: Path, *, force: bool) -> tuple[Path, bool]:
    """Where the contract goes, and whether what is there is overwritten."""
    title(5)
    while True:
        output = Path(ask(f"Write the contract to (Enter: {output})", str(output)).strip())
        try:
            refuse_taken(output, force=force)
        except ConfigError:
            if not click.confirm(f"{output} is there already. Overwrite it", default=False):
                continue
            return output, True
        return output, force
