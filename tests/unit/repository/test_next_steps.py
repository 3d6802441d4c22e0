"""Every error's next step is of a kind that is known, and names commands that there are; where it
is a sync or another command that changes something, the error is retryable, or a test takes the step
and sees it help."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from mirrorlake import errors
from mirrorlake.cli.main import cli
from mirrorlake.errors import MirrorlakeError

ROOT = Path(__file__).parents[3]
PACKAGES = ("mirrorlake", "dagster_mirrorlake")
SYNCS = re.compile(r"\b[Ss]ync (again|it|the table)\b")
LOAD, OPERATIONS = "tests/integration/load", "tests/integration/operations"
BACKUPS = "tests/integration/backups"
OF_MODELS = "tests/integration/models"
TENANTS = f"{OPERATIONS}/test_tenants.py"
STEPS = f"{OPERATIONS}/test_steps_help.py::test_a_sync_that_is_advised_helps"
OF_TENANTS = f"{OPERATIONS}/test_steps_help.py::test_steps_that_are_advised_of_tenants_help"
OF_SNAPSHOTS = f"{OPERATIONS}/test_steps_help.py::test_steps_that_are_advised_of_snapshots_help"
PROVED = {
    "See that the warehouse has room and can be written, then sync again": (
        f"{LOAD}/test_broken_reads.py::test_a_data_file_that_finds_no_room"
    ),
    "Nothing of it is visible; it stays on branch … of … for a day. Look there, then sync again, "
    "and report it if it stays": (
        f"{LOAD}/test_verified.py::test_what_is_not_as_mysql_said_is_never_shown"
    ),
    "Nothing of it is visible: sync again, and report it if it stays": (
        f"{TENANTS}::test_rows_that_are_lost_on_their_way_are_seen"
    ),
    "Rename or drop that table, then sync again: the view is made again": (
        f"{OPERATIONS}/test_hands.py::test_views_are_made_again_and_no_table_of_others_makes_way"
    ),
    "Sync again: its tenants are then read again": f"{TENANTS}::test_raw_that_was_damaged_is_read_again",
    "Sync it: a complete copy is made": (
        f"{LOAD}/test_delta_copies.py"
        "::test_a_delta_that_files_alone_tell_of_is_never_taken_for_the_table"
    ),
    "Rename the lake table (one that is dropped is registered again), then sync again: it is "
    "rebuilt from raw": STEPS,
    "Raw holds what MySQL said, and nothing else: set its main back to version … (Iceberg's "
    "set_current_snapshot), then sync again": (
        f"{OPERATIONS}/test_hands.py::test_what_only_a_person_can_put_right_is_refused_by_name"
    ),
    "Sync it first": STEPS,
    "Sync it first: a new version's first load reads every row": STEPS,
    "Sync it first; what sync refuses, it explains": STEPS,
    "Sync it first: it is folded again by this rule": STEPS,
    "Sync the table: its clean layer is then made again": STEPS,
    "Sync it: a new copy records it": (
        f"{OPERATIONS}/test_steps_help.py::test_a_new_copy_that_is_advised_helps"
    ),
    "Rename … (one that is dropped is registered again), then sync again": OF_TENANTS,
    "Nothing of it is visible. See whether somebody wrote into raw, and sync again: these tenants "
    "are then read again": OF_TENANTS,
}
"""A step of errors that are not retryable → the test in which it is taken, and helps."""
BY_READING = {
    "Deduped is as it was. Sync again once they can be read; of tenants that are gone, restore "
    "their raw table, or write `dropped: remove`": "what was not there is, or is not needed",
    "The table was set back, or is an older copy than the ledger: put back the newest one "
    "(Iceberg's register_table), or sync the table, which says what becomes of these loads": (
        "test_hands.py syncs tables that were set back; maintenance then finds nothing to refuse"
    ),
    "mirrorlake run … takes the one of now": "only where its day ends while a run begins",
    "Nothing of it is visible. `mirrorlake refold …` makes it again from raw": (
        "a fold that wrote other rows than raw has: by no hand but a defect's"
    ),
}
"""The same, where no test takes the step → why it helps."""
LAND = "tests/integration/landing/test_decisions.py::test_a_rollback_leaves_a_gap_that_nothing_is_folded_over"
FIND = (
    f"{OPERATIONS}/test_lake_identity.py"
    "::test_a_lost_catalog_is_refused_before_one_is_made_and_the_tables_are_found"
)
HANDS = f"{OPERATIONS}/test_hands.py::test_a_sync_puts_right_what_other_hands_did"
PERSON = f"{OPERATIONS}/test_hands.py::test_what_only_a_person_can_put_right_is_refused_by_name"
OF_KINDS = (
    f"{OPERATIONS}/test_hands_of_kinds.py::test_one_command_puts_it_right_or_names_a_step_that_does"
)
RESTORED = f"{BACKUPS}/test_refusals.py::test_a_restore_over_a_finished_one_says_so"
MOVED_BY_HAND = f"{BACKUPS}/test_refusals.py::test_a_folder_that_was_moved_by_hand"
MODELS = f"{OF_MODELS}/test_models.py"
CHANGED = f"{MODELS}::test_a_changed_model_makes_its_partitions_stale_and_a_comment_does_not"
COMMANDS = {
    "Rename its lake table (one that is dropped is registered again), then `mirrorlake land …`: "
    "its snapshots are folded again from their files": (
        "tests/integration/operations/test_hands_of_kinds.py"
        "::test_a_damaged_table_of_a_landing_is_renamed_and_folded_again"
    ),
    "Name one of them; `mirrorlake restore …/…` puts back the newest": RESTORED,
    "`mirrorlake sync` goes on from it; to restore it once more, move away this lake, its catalog "
    "and its ledger first; nothing was changed": RESTORED,
    "Put the folder back to …, then `mirrorlake lake move` with the place where it should be: it "
    "copies the files; nothing was changed": (
        f"{BACKUPS}/test_rest.py::test_a_folder_that_was_moved_by_hand_is_put_back_first"
    ),
    "Set ledger.url back to it, or remove this copy of the project; if the copy is to go on by "
    "itself, `mirrorlake lake move` with a new place gives it a lake of its own; if this ledger "
    "takes the place of the other one, move … away": (
        f"{BACKUPS}/test_moves.py::test_a_copied_ledger_is_refused_before_its_first_load"
    ),
    "Set lake.catalog to this lake's own; if that was lost, to an empty one, and run `mirrorlake "
    "lake find`": (f"{OPERATIONS}/test_lake_identity.py::test_another_lakes_catalog_is_refused"),
    "`mirrorlake land` takes what has landed of them, again where the ledger was lost": LAND,
    "`mirrorlake land` takes what has landed of it": LAND,
    "`mirrorlake refold` makes deduped and clean again from raw; raw itself comes from a backup "
    "(`mirrorlake restore`). If the whole lake was moved, nothing is lost: `mirrorlake lake move` "
    "writes its paths again": MOVED_BY_HAND,
    "Put both back from a backup; or run `mirrorlake lake find`, which registers the tables again "
    "from their newest metadata files, then `mirrorlake ledger rebuild`. To begin again from "
    "nothing, give lake.warehouse another folder. Nothing was made": (
        f"{OPERATIONS}/test_lake_identity.py::test_the_catalog_and_the_ledger_are_lost_together"
    ),
    "Name another ledger.url, and make the ledger again from the lake: `mirrorlake ledger rebuild`": (
        f"{OPERATIONS}/test_rebuild.py::test_a_lost_ledger_is_refused_and_rebuilt"
    ),
    "Look whether MySQL should hold so few. If it should: `mirrorlake repair … --deletes "
    "--accept-smaller` takes them out": (
        f"{LOAD}/test_shrink.py::test_deletes_of_most_rows_are_held_until_they_are_accepted"
    ),
    "`mirrorlake check` and `mirrorlake refold` say and put right what they can; else put the lake "
    "back from a backup: `mirrorlake restore`": (
        f"{BACKUPS}/test_mixtures.py::test_mixtures_of_ages"
    ),
    "Put back the table's folder (…) from a backup, as it was after load … (version …), then run "
    "`mirrorlake lake find`, which has the catalog name it; or mirror the table again under other "
    "namespaces": (
        f"{OPERATIONS}/test_lake_identity.py"
        "::test_loads_that_raw_lost_are_not_forgotten_where_they_cannot_be_read_again"
    ),
    "Put version … back: by the catalog's newest copy, by `mirrorlake lake find`, or by its folder "
    "from a backup and `mirrorlake lake find`": OF_KINDS,
    "If the catalog is an old copy, or was lost, put back the newest one, or run `mirrorlake lake "
    "find`; if another project uses this folder, give each its own lake.warehouse; if nobody needs "
    "that file, move it away": FIND,
    "Put the catalog back from a backup, or set lake.catalog to it; or run `mirrorlake lake find`, "
    "which registers the tables again from their newest metadata files. If the lake's folder was "
    "moved, run `mirrorlake lake move` with where it is now. If its files are gone, `mirrorlake "
    "restore` a backup. Nothing was made": FIND,
    "This ledger was lost or is an old copy, or another one's project (such as a copy of this one) "
    "loads into this lake: give that a lake of its own. Then run `mirrorlake ledger rebuild`": f"{OPERATIONS}/test_rebuild.py::test_an_old_copy_of_the_ledger_is_refused_and_completed",
    "Look whether MySQL should hold so few. If it should: `mirrorlake sync … --accept-smaller`, or "
    "under Dagster a run with the tag mirrorlake/accept-smaller: true": (
        f"{LOAD}/test_shrink.py::test_nothing_is_changed_until_it_is_accepted"
    ),
    "Look whether MySQL should hold so few. If it should: `mirrorlake sync` with the table of "
    "tenants, `--tenant … --accept-smaller`": f"{TENANTS}::test_many_databases_are_one_table_and_only_what_moved_is_read",
    "Bring the file back, or roll back to an earlier version: mirrorlake publish": OF_SNAPSHOTS,
    "mirrorlake sync …": (
        f"{OPERATIONS}/test_name_in_lake.py::test_entities_and_models_know_the_lakes_names"
    ),
    "`mirrorlake refold …` makes clean again from raw": (
        f"{OPERATIONS}/test_layers.py::test_a_check_of_the_whole_table_proves_every_layer"
    ),
    "Fold one first: `mirrorlake land`": OF_SNAPSHOTS,
    "`mirrorlake publish … --rollback` shows the version before it; then it can be skipped": (
        OF_SNAPSHOTS
    ),
    "`mirrorlake run … --again` takes its newest partition again": (
        f"{OF_MODELS}/test_snapshot_models.py::test_each_day_is_taken_once_and_stays"
    ),
    "`mirrorlake run … --upstream --cut …` computes the models that it reads at that cut": (
        "tests/integration/cuts/test_models_at_cuts.py"
        "::test_a_model_that_can_not_be_read_at_a_cut_reads_main_of_each_and_says_so"
    ),
    "mirrorlake run … --rebuild computes all of them": CHANGED,
    "mirrorlake run … computes what can be": (
        f"{OF_MODELS}/test_snapshot_models.py::test_what_was_missed_is_said_and_never_made_up"
    ),
    "mirrorlake run …, or --upstream": (
        f"{MODELS}::test_partitions_are_computed_once_and_again_where_their_inputs_moved"
    ),
    "mirrorlake backfill --invalid": (
        f"{OF_MODELS}/test_backfills.py"
        "::test_days_declared_invalid_are_loaded_and_what_derives_from_them_is_computed"
    ),
    "mirrorlake run … --rebuild computes all of them again, and then shows the new table in its "
    "place": CHANGED,
    "Put the ledger back from a backup, set ledger.url to it, or run `mirrorlake ledger rebuild`, "
    "which writes down what the lake holds. A second project with tables of the same names needs a "
    "lake of its own (lake.warehouse, lake.catalog)": (
        f"{OPERATIONS}/test_lake_identity.py::test_a_lost_ledger_is_refused_by_whatever_comes_first"
    ),
    "`mirrorlake sync …` reads it again": HANDS,
    "`mirrorlake sync` (of a landing `land`, of a model `run`) puts it right, or says what does": (
        HANDS
    ),
    "Rename or drop the table that stands in its place, then put ours back: by its name, or by "
    "`mirrorlake lake find`": PERSON,
    "Put back the newest catalog, or run `mirrorlake lake find`, which registers tables again from "
    "their newest metadata files": PERSON,
    "Set repair to ask or auto, or load the days again with mirrorlake backfill": STEPS,
    "Two servers' answers are not one history: point the contract back, or, if this is the source "
    "now, run `mirrorlake accept …`: …": (
        f"{OPERATIONS}/test_upkeep.py"
        "::test_another_server_than_last_time_is_refused_until_it_is_accepted"
    ),
    "If this is what the source is to be from now on, run `mirrorlake accept …`: what follows its "
    "log is read again as a whole": (
        f"{OPERATIONS}/test_follow_mysql_failover.py"
        "::test_a_server_that_was_restored_from_an_older_backup"
    ),
    "`mirrorlake sync` reads them": OF_TENANTS,
    "`mirrorlake tenants` lists them, by the names of their databases; `mirrorlake sync` finds new "
    "ones": f"{TENANTS}::test_many_databases_are_one_table_and_only_what_moved_is_read",
    "Nothing newer is folded over the gap. Fold them again: `mirrorlake land … --retry ID` (or "
    "`--retry withdrawn` for all); or leave them out: `--skip ID` (or `--skip withdrawn`); or show "
    "their version again: `mirrorlake publish … --rollback ID`": LAND,
    "Materialise the table's chain first, or `mirrorlake sync` it": STEPS,
    "Materialise its raw partition first, or run `mirrorlake land`": OF_SNAPSHOTS,
    "Set the old key again, or run `mirrorlake rekey`, which rewrites the clean tables under the "
    "new one": (
        "tests/integration/table/test_contract_changes.py"
        "::test_another_hash_key_is_refused_until_the_clean_table_is_rewritten"
    ),
    "What it changes is read afterwards; `mirrorlake hold … --release` ends it": (
        f"{OPERATIONS}/test_upkeep.py"
        "::test_a_held_source_is_left_alone_and_its_backlog_is_read_afterwards"
    ),
    "It is the catalog of another lake, or a copy of one: a copied project would write into the original's files. If its ledger was copied too, `mirrorlake lake move …` makes the copy a lake of its own; else `mirrorlake restore` one into a place of its own (lake.warehouse, lake.catalog, ledger.url)": f"{BACKUPS}/test_refusals.py::test_a_copied_project_becomes_one_of_its_own",
    "If the setting alone was changed, put it back. If the lake was moved or copied here, ledger and all, run `mirrorlake lake move …`: it writes its absolute paths again. A copied project, or a second one, needs a ledger of its own (ledger.url): see `mirrorlake restore`": MOVED_BY_HAND,
    "Put the setting back; or, if the folder was moved, name where it is: `mirrorlake lake move FOLDER`": MOVED_BY_HAND,
    "If its folder was moved, name where it is: `mirrorlake lake move FOLDER`; else put it back from a backup: `mirrorlake restore`": MOVED_BY_HAND,
    "Give the copy a catalog of its own (lake.catalog), and a ledger of its own (ledger.url), and `mirrorlake restore` a backup into them; or remove the old folder, if this one takes its place": f"{BACKUPS}/test_refusals.py::test_a_copied_project_becomes_one_of_its_own",
    "If it was moved, run `mirrorlake lake move` with where it is now; else put it back from a backup: `mirrorlake restore`. Nothing was made": MOVED_BY_HAND,
}
"""A step that runs another command than a sync, or a sync by its name → the test in which it is
taken, and helps."""
EDITS = f"{OPERATIONS}/test_steps_help.py::test_an_edit_that_is_advised_helps"
CLASSES = {
    "ConfigError": EDITS,
    "ModelError": CHANGED,
    "MachineError": "tests/unit/repository/test_bootstrap.py::test_a_python_without_pip_and_venv",
    "SourceError": COMMANDS[
        "Two servers' answers are not one history: point the contract back, or, "
        "if this is the source now, run `mirrorlake accept …`: …"
    ],
    "LogPurged": f"{OPERATIONS}/test_follow_log.py::test_a_purged_log_has_its_tables_read_again",
    "SourceHeld": COMMANDS[
        "What it changes is read afterwards; `mirrorlake hold … --release` ends it"
    ],
    "LandingError": OF_SNAPSHOTS,
    "SchemaError": EDITS,
    "LakeError": OF_TENANTS,
    "SnapshotRefused": LAND,
    "RecordsError": "tests/integration/records/test_record_kills.py::test_a_follower_publishes_within_its_rounds",
    "LakeDamaged": f"{OPERATIONS}/test_refold.py::test_every_kind_of_table",
    "LedgerError": COMMANDS[
        "This ledger was lost or is an old copy, or another one's project (such as a copy of this "
        "one) loads into this lake: give that a lake of its own. Then run `mirrorlake ledger "
        "rebuild`"
    ],
    "ProofError": STEPS,
    "TooFewRows": f"{LOAD}/test_shrink.py::test_nothing_is_changed_until_it_is_accepted",
}
"""A class of errors that are not retryable → a test in which the step of one is taken, and helps."""
OTHERS = {
    "MirrorlakeError": "of none by itself",
    "TypeRefused": "`pci: never` leaves a column out, as EDITS do one with a name of Iceberg's",
    "SourceBusy": "retryable", "TableLocked": "retryable", "ReadGivenUp": "retryable",
    "LandingClosed": "retryable", "LedgerLost": "retryable", "SchemaMoved": "retryable", "CommitConflict": "retryable",
    "CatalogFailed": "retryable", "RowsMiscounted": "retryable", "CommitUnknown": "retryable", "LeaseHeld": "retryable",
    "DdlRefused": "a migration is written otherwise: test_preflight.py has each form",
    "LogUnreadable": "the next sync reads its tables again by itself",
    "ReaderMissing": "a package is to be installed",
    "BigQueryError": "rights in Google's cloud: the live suite",
    "NotProved": "STEPS takes those of ProofError; a proof's own is a repair",
    "ExpectationFailed": "rows of a person's model",
}  # fmt: skip
"""The others → what is done about them."""


def test_every_class_of_errors_has_a_step_that_is_taken_in_a_test() -> None:
    def below(kind: type[MirrorlakeError]) -> Iterator[type[MirrorlakeError]]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    there = {one.__name__ for one in below(MirrorlakeError) if one.__module__ == errors.__name__}
    assert there == CLASSES.keys() | OTHERS.keys()
    assert not CLASSES.keys() & OTHERS.keys()


@dataclass(frozen=True)
class Step:
    """A next step as it stands in the code."""

    place: str
    words: str
    retryable: bool


@cache
def nodes() -> tuple[tuple[str, ast.expr], ...]:
    """Every call and every text of both packages, with its place."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.Constant | ast.JoinedStr)
    )


@cache
def steps() -> tuple[Step, ...]:
    return tuple(_steps())


def _steps() -> Iterator[Step]:
    for place, node in nodes():
        named = {k.arg: k.value for k in node.keywords} if isinstance(node, ast.Call) else {}
        for words in alternatives(named["next_step"]) if "next_step" in named else ():
            # Of a name, `retryable=passes`, the step is the one that is said when it is.
            flag = named.get("retryable")
            off = flag is None or (isinstance(flag, ast.Constant) and not flag.value)
            yield Step(place, words, not off)


def alternatives(step: ast.expr) -> Iterator[str]:
    """The texts that an expression may give; ``…`` for what is filled in."""
    if isinstance(step, ast.IfExp):
        yield from alternatives(step.body)
        yield from alternatives(step.orelse)
    elif isinstance(step, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "…" for one in step.values]
        yield "".join(map(str, parts))
    elif isinstance(step, ast.Constant):
        yield str(step.value)


def test_where_a_sync_is_advised_it_helps() -> None:
    advised = {one.words: one for one in steps() if SYNCS.search(one.words) and not one.retryable}
    unproved = {
        words: one.place for words, one in advised.items() if words not in PROVED | BY_READING
    }
    assert unproved == {}, "take the step in a test and name it above, or advise what helps"
    said = {one.words for one in steps()}
    assert (PROVED | BY_READING).keys() <= said, "nobody says that any more"


OF_COMMANDS = re.compile(r"/cli(/|\.py)|_command\.py")
"""Modules of the command line itself: what their errors advise is another way to call it."""
CHANGES = re.compile(
    r"`?mirrorlake (accept|backfill|hold|invalidate|land|ledger rebuild|lake find|lake move|models prune|plan"
    r"|publish|refold|rekey|repair|restore|run|sync)\b(?! TABLE`? lists|`? (lists|says|shows)|[^`]*` lists)"
)
"""A command that changes something, where the step is to run it: not to look at what it lists."""


def test_where_another_command_is_advised_it_helps() -> None:
    advised = {
        one.words: one.place
        for one in steps()
        if CHANGES.search(one.words) and not one.retryable and not OF_COMMANDS.search(one.place)
    }
    known = PROVED | COMMANDS | BY_READING
    unproved = {words: place for words, place in advised.items() if words not in known}
    assert unproved == {}, "take the step in a test and name it above, or advise what helps"
    assert COMMANDS.keys() <= advised.keys(), "nobody says that any more"


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command, and its options."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from commands(one, (*path, name))
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path), {name for one in command.params for name in one.opts}


def test_every_command_that_anything_names_is_there() -> None:
    """In errors, warnings and findings: `mirrorlake repair TABLE --yes`."""
    known, wrong = dict(commands(cli)), dict[str, str]()
    for place, node in nodes():
        for words in alternatives(node) if not isinstance(node, ast.Call) else ():
            for said in re.finditer(r"(?<!runpip )mirrorlake ((?:[a-z]+ ?)+)([^`]*)", words):
                two = said[1].split()[:2]
                if two[0] in ("load", "looks"):  # by which a DBA knows our statements
                    continue
                name = next((one for one in (" ".join(two), two[0]) if one in known), None)
                options = set(re.findall(r"--[a-z-]+", said[2]))
                if name is None or not options <= known[name]:
                    wrong[said[0]] = place
    assert wrong == {}


def test_every_test_that_proves_a_step_is_there() -> None:
    for named in (*PROVED.values(), *COMMANDS.values(), *CLASSES.values()):
        path, _, name = named.partition("::")
        names = Counter(
            node.name
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
            if isinstance(node, ast.FunctionDef)
        )
        assert names[name] == 1, named
