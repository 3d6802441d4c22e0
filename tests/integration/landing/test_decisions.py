"""One bad snapshot stops neither newer ones nor other tables; a rollback's gap is nobody's guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import LakeError, SnapshotRefused
from mirrorlake.landing.land import RefusedSnapshot, fold_snapshots, land_table, take_snapshots
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.landing.test_landing import Feed, line

IDS = [20260130000000 + hour * 10_000 for hour in range(8)]
NEXT_DAY = 20260203000000
MANY = [line(n, on="2026-01-29" if n < 2 else "2026-02-01") for n in range(40)]


class Commands(Feed):
    """A feed beside a table whose landing has no schema, and the commands over both."""

    def __init__(self, place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, name, complete="marker", day="on", retention_days=3)
        path = Path(str(self.workspace.config.path))
        text = yaml.safe_load(path.read_text())
        broken = {"mode": "snapshot", "key": ["id"], "snapshot": {"complete": "marker"}}
        text["sources"][name]["databases"]["d"]["tables"]["broken"] = broken
        path.write_text(yaml.safe_dump(text))
        self.workspace = Workspace.open(load_config(path), spark=place.spark)
        self.table = f"{name}.d.t"
        share_session(place, monkeypatch)

    def run(self, *command: str) -> Any:
        return CliRunner().invoke(cli, [*command, "--config", str(self.workspace.config.path)])

    def land_json(self, *command: str) -> dict[str, Any]:
        return json.loads(self.run("land", *command, "--json").stdout)

    def status(self) -> dict[str, Any]:
        (found,) = json.loads(self.run("status", self.table, "--json").stdout)
        return found

    def break_other(self) -> None:
        """A snapshot of the table without a schema."""
        folder = self.folder / f"json/{self.name}/d/broken/dq/20260130"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{IDS[0]}_0.json").write_text(line(1))
        (folder / f"{IDS[0]}_SUCCESS").touch()


def ids(listed: list[dict[str, Any]]) -> list[int]:
    return [one["id"] for one in listed]


@pytest.mark.full
def test_one_bad_snapshot_stops_neither_newer_ones_nor_other_tables(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Commands(place, "d1", monkeypatch)
    feed.break_other()
    feed.land(IDS[0], MANY)
    feed.land(IDS[1], [*MANY, MANY[0]])  # a key twice
    feed.land(IDS[2], MANY[:3])  # 92 % fewer rows
    feed.land(IDS[3], [*MANY[:-1], line(39, "2.00", on="2026-02-01")])
    feed.land(IDS[4], MANY)
    (feed.folder / f"json/d1/d/t/dq/20260130/{IDS[4]}_SUCCESS").unlink()
    done = feed.run("land")
    assert done.exit_code == LakeError.exit_code, done.output
    said = done.stdout
    assert f"{feed.table} {IDS[0]}: 40 rows; 40 added" in said
    assert f"{feed.table} {IDS[3]}: 40 rows; 0 added, 1 changed, 0 removed, 0 missing" in said
    assert f"waits for its marker {IDS[4]}_SUCCESS" in said
    reasons = done.stderr
    # What stops a table is marked as an error, as it is by every command.
    assert [li for li in reasons.splitlines() if li.startswith("error: ") and "d1.d.broken" in li]
    assert f"{IDS[1]} refused: table {feed.table}: snapshot {IDS[1]} holds 1 key more" in reasons
    assert f"{IDS[2]} has 3 rows" in reasons
    assert f"mirrorlake land {feed.table} --accept-smaller ID" in reasons
    assert "there is no schema" in reasons
    assert len(feed.rows()) == 40
    # Said once, then their ids alone, until somebody decides.
    again = feed.run("land", "d1.d.t")
    assert again.exit_code == 10
    assert "2 refused before and not decided" in again.stderr
    assert "more than once" not in again.stderr
    assert feed.run("land", feed.table, "--skip", str(IDS[1])).exit_code == 10
    found = feed.land_json(feed.table)
    assert (ids(found["open"]), ids(found["waiting"])) == ([IDS[2]], [IDS[4]])
    # What somebody looked at is taken: it is late by now, and takes nothing away.
    found = feed.land_json(feed.table, "--accept-smaller", str(IDS[2]))
    assert ids(found["snapshots"]) == [IDS[2]]
    assert len(feed.rows()) == 40
    # Rows that leave with their day are among those removed.
    feed.land(NEXT_DAY, MANY[2:39])
    (one,) = feed.land_json(feed.table)["snapshots"]
    assert (one["removed"], one["left"], one["missing"]) == (2, 2, 1)
    assert len(feed.rows()) == 38
    # A rollback is said, and undone without a fold.
    rolled = feed.run("publish", feed.table, "--rollback", str(IDS[3]))
    assert f"snapshots {NEXT_DAY} were published" in rolled.stderr
    assert ids(feed.land_json(feed.table)["withdrawn"]) == [NEXT_DAY]
    assert feed.run("publish", feed.table, "--rollback", str(NEXT_DAY)).stderr == ""
    assert feed.land_json(feed.table)["withdrawn"] == []
    with_none = feed.run("land", "--skip", str(IDS[1]))
    assert "are for snapshots of one table" in str(with_none.exception)


@pytest.mark.full
def test_a_rollback_leaves_a_gap_that_nothing_is_folded_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Commands(place, "d2", monkeypatch)
    for number, price in enumerate(("1.00", "2.00", "3.00")):
        feed.land(IDS[number], [line(1, price, on="2026-02-01"), line(number + 5)])
    assert len(feed.land_json(feed.table)["snapshots"]) == 3
    assert feed.run("check", feed.table).exit_code == 0
    assert feed.status()["proved"]["loads_since"] == 0
    rolled = feed.run("publish", feed.table, "--rollback", str(IDS[0]))
    assert rolled.exit_code == 0
    # What was proved is not what readers see now.
    assert feed.status()["proved"] is None
    assert feed.status()["checks"].endswith("and readers see other snapshots now")
    assert f"snapshots {IDS[1]}, {IDS[2]} were published" in rolled.stderr
    before = feed.rows()
    assert set(before) == {1, 5}
    # Nothing new: it says what is missing, which waits for a decision.
    quiet = feed.run("land", feed.table)
    assert quiet.exit_code == 10
    assert "--retry withdrawn" in quiet.stderr
    assert "Nothing new has landed" not in quiet.output
    # Something new: it is not folded over the gap, by the command or a run of Dagster's.
    feed.land(IDS[3], [line(1, "4.00", on="2026-02-01")])
    stopped = feed.run("land", feed.table)
    assert stopped.exit_code == LakeError.exit_code
    take_snapshots(feed.workspace, feed.contract, [IDS[3]])
    with pytest.raises(LakeError, match="Nothing newer is folded over the gap"):
        fold_snapshots(feed.workspace, feed.contract, [IDS[3]])
    assert feed.rows() == before
    # Going forward again is one way out, folding again another; one of them may be left out.
    assert feed.run("publish", feed.table, "--rollback", str(IDS[2])).exit_code == 0
    assert feed.land_json(feed.table, "--skip", str(IDS[7]))["errors"]  # nobody saw that one
    assert ids(feed.land_json(feed.table)["snapshots"]) == [IDS[3]]
    assert set(feed.rows()) == {1, 5, 6, 7}
    feed.run("publish", feed.table, "--rollback", str(IDS[0]))
    found = feed.land_json(feed.table, "--skip", str(IDS[1]), "--retry", str(IDS[2]))
    assert ids(found["snapshots"]) == [IDS[2]]
    assert ids(found["withdrawn"]) == [IDS[3]]
    assert ids(feed.land_json(feed.table, "--retry", "withdrawn")["snapshots"]) == [IDS[3]]
    assert set(feed.rows()) == {1, 5, 7}
    assert feed.run("land", feed.table).stdout == "Nothing new has landed.\n"


@pytest.mark.full
def test_a_failure_that_is_not_about_the_snapshot_is_not_overtaken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Commands(place, "d3", monkeypatch)
    feed.land(IDS[0], MANY)
    feed.land(IDS[1], MANY)

    def fails(*_: Any, **__: Any) -> None:
        raise LakeError("the storage is away")

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.landing.land.fold_snapshot", fails)
        with pytest.raises(LakeError, match="the storage is away"):
            list(land_table(feed.workspace, feed.contract, IDS[:2]))
    records = LandedSnapshots(feed.workspace.ledger).snapshots(feed.table)
    assert [(one.id, one.state) for one in records] == [(IDS[0], "landed")]

    def refuses(*_: Any, **__: Any) -> None:
        raise SnapshotRefused("bad")

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.landing.land.fold_snapshot", refuses)
        done = list(land_table(feed.workspace, feed.contract, IDS[:2]))
    assert [type(one) for one in done] == [RefusedSnapshot, RefusedSnapshot]
