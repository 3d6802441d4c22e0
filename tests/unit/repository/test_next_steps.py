"""Where an error's next step is a sync, a sync helps: the error is retryable, or a test takes the
step and sees it help."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SYNCS = re.compile(r"\b[Ss]ync (again|it|the table)\b")
LOAD, OPERATIONS = "tests/integration/load", "tests/integration/operations"
TENANTS = f"{OPERATIONS}/test_tenants.py"
STEPS = f"{OPERATIONS}/test_steps_help.py::test_a_sync_that_is_advised_helps"
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
    "Sync again: its tenants are then read again": f"{TENANTS}::test_raw_that_was_damaged_is_read_again",
    "Sync it: a complete copy is made": (
        f"{LOAD}/test_delta_copies.py"
        "::test_a_delta_that_files_alone_tell_of_is_never_taken_for_the_table"
    ),
    "Rename or drop the lake table, then sync again: it is rebuilt from raw": STEPS,
    "Raw holds what MySQL said, and nothing else: set its main back to version … (Iceberg's "
    "set_current_snapshot), then sync again": (
        f"{OPERATIONS}/test_hands.py::test_what_only_a_person_can_put_right_is_refused_by_name"
    ),
    "Sync it first": STEPS,
    "Sync it first: a new version's first load reads every row": STEPS,
    "Sync it first; what sync refuses, it explains": STEPS,
    "Sync it first: it is folded again by this rule": STEPS,
    "Sync the table: its clean layer is then made again": STEPS,
}
"""A step of errors that are not retryable → the test in which it is taken, and helps."""
BY_READING = {
    "Check the warehouse's storage, then sync again": "storage fails here by no fault of ours",
    "Rename or drop …, then sync again": "without deduped, tenants are folded from raw as a whole",
    "Deduped is as it was. Sync again once they can be read; of tenants that are gone, restore "
    "their raw table, or write `dropped: remove`": "what was not there is, or is not needed",
    "Nothing of it is visible. See whether somebody wrote into raw, and sync again: these tenants "
    "are then read again": "their terms are forgotten, as of raw that was damaged",
    "The table was set back, or is an older copy than the ledger: put back the newest one "
    "(Iceberg's register_table), or sync the table, which says what becomes of these loads": (
        "test_hands.py syncs tables that were set back; maintenance then finds nothing to refuse"
    ),
    "Sync it: a new copy records it": "a copy's receipt says what it read",
}
"""The same, where no test takes the step → why it helps."""


@dataclass(frozen=True)
class Step:
    """A next step as it stands in the code."""

    place: str
    words: str
    retryable: bool


def steps() -> Iterator[Step]:
    for package in ("mirrorlake", "dagster_mirrorlake"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                named = {k.arg: k.value for k in node.keywords}
                if "next_step" not in named:
                    continue
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                for words in alternatives(named["next_step"]):
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
    assert (PROVED | BY_READING).keys() <= advised.keys(), "nobody says that any more"


def test_every_test_that_proves_a_step_is_there() -> None:
    for named in PROVED.values():
        path, _, name = named.partition("::")
        names = Counter(
            node.name
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
            if isinstance(node, ast.FunctionDef)
        )
        assert names[name] == 1, named
