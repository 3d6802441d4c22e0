"""The checks of a source's cuts: its tables equal MySQL's, and its foreign keys hold.

They are about the newest cut, as the ledger has it, and read no table: the comparison was the
cut's. The job reports the same verdicts. One more reads the cut's rows again: `still_as_proved`,
when it is executed by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.cuts.asset import cuts_key, followed_by_source
from dagster_mirrorlake.markdown import markdown
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.cuts.ledger import Cut
    from mirrorlake.cuts.recheck import CutAgain

EQUAL, KEYS, STILL = "equals_mysql", "foreign_keys", "still_as_proved"
"""The checks' names."""
DESCRIPTIONS = {
    EQUAL: "Every table of the newest cut equals MySQL at its place, row by row. A table that was "
    "not compared, or is not in the cut, is a warning.",
    KEYS: "Of each foreign key between tables of the newest cut, no row is without its parent. A "
    "key that could not be compared, or seen, is a warning.",
    STILL: "Every row of the newest cut is read again, and is what was proved: no file of it is "
    "damaged, no tag was moved. MySQL is not asked. Execute it by itself: it reads whole tables.",
}
_ERROR, _WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@dataclass(frozen=True)
class CutCheck:
    """What one check says of a cut."""

    passed: bool
    severity: dg.AssetCheckSeverity
    words: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_result(self) -> dg.AssetCheckResult:
        """The same as Dagster has it."""
        return dg.AssetCheckResult(
            passed=self.passed,
            severity=self.severity,
            description=self.words,
            metadata=self.metadata,
        )


def build_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """All of them, for each source with cuts."""
    return [
        check
        for source, tables in followed_by_source(mirror).items()
        for check in (*(_check(source, tables, name) for name in VERDICTS), _still(source, tables))
    ]


def _check(source: str, tables: Sequence[MirroredTable], name: str) -> dg.AssetChecksDefinition:
    names, followed = tables[0].names, [table.contract.name for table in tables]

    @dg.asset_check(
        asset=cuts_key(source, names),
        name=name,
        required_resource_keys=names.all_of({"ledger"}),
        description=DESCRIPTIONS[name],
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        from mirrorlake.cuts.ledger import Cuts

        with dagster_errors():
            cuts = Cuts(names.resources(context).ledger.ledger).all(source)
        found = VERDICTS[name](cuts[-1] if cuts else None, followed)
        return found.as_result()

    return check


def _still(source: str, tables: Sequence[MirroredTable]) -> dg.AssetChecksDefinition:
    names = tables[0].names

    @dg.asset_check(
        asset=cuts_key(source, names),
        name=STILL,
        required_resource_keys=names.all_of({"mirrorlake"}),
        description=DESCRIPTIONS[STILL],
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        from mirrorlake.cuts.ledger import Cuts
        from mirrorlake.cuts.recheck import look_again

        with dagster_errors():
            workspace = names.resources(context).mirrorlake.workspace
            cuts = Cuts(workspace.ledger).all(source)
            again = look_again(workspace, cuts[-1], say=context.log.info) if cuts else None
            if again is not None and again.failures:
                raise again.failures[0][1]  # that it could not be looked at is no verdict
        found = still_verdict(cuts[-1], again) if again is not None else _NONE
        return found.as_result()

    return check


def cut_evaluations(
    cut: "Cut", names: Names, followed: Sequence[str]
) -> list[dg.AssetCheckEvaluation]:
    """The verdicts that read no table, of a step that is not the checks'.

    Args:
        followed: the source's tables that follow its log.
    """
    found = {name: verdict(cut, followed) for name, verdict in VERDICTS.items()}
    return [
        dg.AssetCheckEvaluation(
            asset_key=cuts_key(cut.source, names),
            check_name=name,
            passed=one.passed,
            severity=one.severity,
            description=one.words,
            metadata=one.metadata,
        )
        for name, one in found.items()
    ]


# --- verdicts -------------------------------------------------------------------------------------


def equal_verdict(cut: "Cut | None", followed: Sequence[str]) -> CutCheck:
    """Whether every table is in the cut, and equal to MySQL there."""
    from mirrorlake.cuts.report import names_of

    if cut is None:
        return _NONE
    deduped = [one for one in cut.tables if one.layer == "deduped"]
    states = {state: [o.table for o in deduped if o.proved == state] for state in _STATES}
    absent = [name for name in followed if name not in cut.names]
    rows = [(o.table, o.proved, o.words) for o in deduped if o.proved != "equal"]
    rows += [(name, "not in the cut", "") for name in absent]
    metadata = {**_of(cut), **{f"tables {state}": len(names) for state, names in states.items()}}
    if rows:
        table = markdown(("table", "verdict", ""), rows)
        metadata |= {"tables not in the cut": len(absent), "not equal": dg.MetadataValue.md(table)}
    parts = [
        f"{plural(len(names), f'table {one}', f'tables {many}')}: {names_of(names)}"
        for names, one, many in (
            (states["different"], "differs", "differ"),
            (states["not compared"], "was not compared", "were not compared"),
            (absent, "is not in the cut", "are not in the cut"),
        )
        if names
    ]
    if parts:
        severity = _ERROR if states["different"] else _WARN
        return CutCheck(False, severity, "; ".join(parts), metadata)
    number = plural(len(deduped), "table equals", "tables equal")
    return CutCheck(True, _ERROR, f"{number} MySQL at {cut.place}", metadata)


def keys_verdict(cut: "Cut | None", _: Sequence[str] = ()) -> CutCheck:
    """Whether the foreign keys between the cut's tables hold."""
    from mirrorlake.cuts.report import key_name, keys_sentence

    if cut is None:
        return _NONE
    keys, words = cut.foreign_keys, keys_sentence(cut.foreign_keys)
    if keys is None:
        return CutCheck(False, _WARN, words, _of(cut))
    orphans, counted = keys.with_orphans, [o.orphans for o in keys.keys if o.orphans is not None]
    metadata = {**_of(cut), "keys": len(keys.keys), "orphans": sum(counted)}
    if keys.keys:
        rows = [(key_name(o), _number(o.orphans), o.verdict, o.words) for o in keys.keys]
        table = markdown(("foreign key", "orphans", "verdict", ""), rows)
        metadata["foreign keys"] = dg.MetadataValue.md(table)
    if keys.hidden:
        metadata["tables whose keys are hidden"] = ", ".join(keys.hidden)
    # Without MySQL's own count it may have them, too.
    wrong = any(one.in_mysql is not None for one in orphans)
    unsure = keys.hidden or any(one.verdict == "not compared" for one in keys.keys)
    passed = not orphans and not unsure
    return CutCheck(passed, _ERROR if passed or wrong else _WARN, words, metadata)


def still_verdict(cut: "Cut", again: "CutAgain") -> CutCheck:
    """Whether what was proved of a cut is still what its versions have."""
    rows = [(one.table, one.layer, one.verdict, one.words) for one in again.tables]
    table = markdown(("table", "layer", "verdict", ""), rows)
    keys = [(f"{o.table} {o.name}", o.verdict, o.words) for o in again.foreign_keys]
    metadata = {**_of(cut), "versions": dg.MetadataValue.md(table)}
    if keys:
        listed = markdown(("foreign key", "verdict", ""), keys)
        metadata["foreign keys"] = dg.MetadataValue.md(listed)
    if again.shown:
        metadata["shown otherwise"] = "; ".join(again.shown)
    passed = again.verdict == "as proved"
    unsure = again.verdict == "not compared"
    wrong = [f"{one.table} ({one.layer}): {one.words}" for one in again.tables
             if one.verdict == again.verdict]  # fmt: skip
    words = "; ".join([f"{plural(len(again.tables), 'version')}: {again.verdict}", *wrong[:3]])
    if passed:
        words = f"{plural(len(again.tables), 'version')}: as proved"
    return CutCheck(passed, _WARN if unsure else _ERROR, words, metadata)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _of(cut: "Cut") -> dict[str, Any]:
    return {"cut": cut.name, "as of (UTC)": f"{cut.at:%Y-%m-%d %H:%M:%S}", "place": cut.place}


_STATES = ("equal", "different", "not compared")
_NONE = CutCheck(False, _WARN, "There is no cut yet: the job makes one")
VERDICTS: dict[str, Callable[["Cut | None", Sequence[str]], CutCheck]] = {
    EQUAL: equal_verdict,
    KEYS: keys_verdict,
}
