"""From files that land to the rows that people read: folded in order, or not at all."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LandingError, SchemaError
from mirrorlake.landing.files.columns import LandedColumn, LandedSchema
from mirrorlake.landing.files.frame import count_landed, landed_frame
from mirrorlake.landing.files.records import LandedFile, Reading
from mirrorlake.landing.land import (
    Arrived,
    RefusedSnapshot,
    fold_snapshots,
    land_table,
    look_for,
    take_snapshots,
)
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.operations.status.status import status_of
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.tasks import landing_errors
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows, share_session

IDS = [20260130000000, 20260131000000, 20260131120000, 20260131180000]
SCHEMA = {"version": 1, "columns": [
    {"name": "id", "type": "decimal(20,0)", "nullable": False, "mysql": "bigint unsigned"},
    {"name": "price", "type": "decimal(12,2)"},
    {"name": "on", "type": "date"},
    {"name": "mail", "type": "string"},
]}  # fmt: skip
COLUMNS = LandedSchema(
    (
        LandedColumn("id", "decimal(20,0)", False, 0, 2**64 - 1),
        LandedColumn("price", "decimal(12,2)"),
        LandedColumn("on", "date"),
        LandedColumn("mail", "string"),
    )
)
BIG = 2**64 - 1


def line(number: int, price: str | None = "1.50", on: str = "2026-01-30", mail: str = "m@x") -> str:
    return json.dumps({"id": str(number), "price": price, "on": on, "mail": mail})


class Feed:
    """A landing of the test's own, and an engine over it in the tests' one lake."""

    def __init__(
        self, place: Place, name: str, rules: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        rules = {"mail": {"pii": "mask"}} if rules is None else rules
        self.folder = place.folder / f"feed {name}"
        text = {
            "version": 1,
            "lake": dict(place.settings),
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {name: {"landing": {"url": self.folder.name}, "databases": {"d": {"tables": {
                "t": {"mode": "snapshot", "key": ["id"], "columns": rules,
                      "snapshot": settings}}}}}},
        }  # fmt: skip
        path = place.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(text))
        self.name = name
        self.workspace = Workspace.open(load_config(path), spark=place.spark)
        schema = self.folder / f"schemas/{name}/d/t.json"
        schema.parent.mkdir(parents=True)
        schema.write_text(json.dumps(SCHEMA))

    def land(self, snapshot: int, *chunks: list[str]) -> Path:
        folder = self.folder / f"json/{self.name}/d/t/dq/{snapshot // 1_000_000}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, lines in enumerate(chunks):
            (folder / f"{snapshot}_{number}.json").write_text("\n".join(lines))
        (folder / f"{snapshot}_SUCCESS").touch()
        return folder

    @property
    def contract(self) -> Any:
        return self.workspace.config.snapshot_table("t")

    def arrive(self) -> list[Arrived]:
        """Take what is new; a snapshot that is refused fails the test."""
        done = self.land_all()
        refused = [one for one in done if isinstance(one, RefusedSnapshot)]
        assert not refused
        return [one for one in done if isinstance(one, Arrived)]

    def land_all(self) -> list[Arrived | RefusedSnapshot]:
        found = look_for(self.workspace, self.contract)
        return list(land_table(self.workspace, self.contract, [one.id for one in found.ready]))

    def rows(self) -> dict[int, tuple[Any, ...]]:
        found = lake_rows(self.workspace, f"{self.name}_d", "t")
        return {
            int(r["id"]): (r["price"], r["_mirror_original"] or None, r["_mirror_snapshot"])
            for r in found
        }


def test_snapshots_become_rows_in_the_order_of_their_ids(place: Place) -> None:
    feed = Feed(place, "f1", complete="marker")
    feed.land(IDS[0], [line(1), line(BIG, None)], [line(2, on="0000-00-00")])
    feed.land(IDS[1], [line(1, "9.99"), line(BIG, None), line(2, on="0000-00-00")])
    done = feed.arrive()
    assert [(one.id, one.rows, one.changed) for one in done] == [(IDS[0], 3, 0), (IDS[1], 3, 1)]
    original = [{"column": "on", "text": "0000-00-00"}]
    expected = {
        1: (Decimal("9.99"), None, IDS[1]),
        2: (Decimal("1.50"), original, IDS[0]),
        BIG: (None, None, IDS[0]),
    }
    assert feed.rows() == expected
    assert feed.arrive() == []
    clean = place.spark.get().sql("SELECT * FROM lake.f1_d__clean.t WHERE id = 1").collect()
    assert [(row.id, row.price) for row in clean] == [(1, Decimal("9.99"))]
    assert clean[0].mail != "m@x"
    record = LandedSnapshots(feed.workspace.ledger).snapshot("f1.d.t", IDS[1])
    assert record is not None
    assert (record.state, record.files) == ("published", 1)

    # A malformed record: refused with its place, and the table is as it was.
    feed.land(IDS[2], [line(1), line(3)], [line(4), '{"id": 5, "price": 1.005}'])
    (refused,) = feed.land_all()
    assert isinstance(refused, RefusedSnapshot)
    assert "_1.json, line 2: lacks the column" in refused.reason
    assert feed.rows() == expected
    assert "line 2" in look_for(feed.workspace, feed.contract).refused[IDS[2]]

    # A file that is gone between its landing and its fold.
    folder = feed.land(IDS[3], [line(1), line(3)])
    take_snapshots(feed.workspace, feed.contract, [IDS[3]])
    (folder / f"{IDS[3]}_0.json").unlink()
    with pytest.raises(LandingError, match="is not there any more"):
        fold_snapshots(feed.workspace, feed.contract, [IDS[3]])
    assert feed.rows() == expected


@pytest.mark.full
def test_what_landed_is_sampled_for_personal_data(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In columns without a rule alone; the counts are said, a value never."""
    feed = Feed(place, "f_seen", {}, complete="marker")
    command = ["land", "--config", str(place.folder / "f_seen.yaml")]
    share_session(place, monkeypatch)
    feed.land(IDS[0], [line(1, mail="none"), line(2, mail="none")])
    quiet = CliRunner().invoke(cli, [*command, "--json"])
    assert (quiet.exit_code, json.loads(quiet.stdout)["suspected_pii"]) == (0, {})
    told = line(2, mail="see secret.person@example.com")
    feed.land(IDS[1], [line(1, mail="none"), told])
    loud = CliRunner().invoke(cli, command)
    assert loud.exit_code == 0
    words = (
        r"f_seen\.d\.t: clean may show personal data: mail: 1 of [12] sampled values hold an e-mail"
    )
    assert re.search(words, loud.stderr), loud.output
    assert "secret.person" not in loud.output
    for name in ("check", "status"):
        later = CliRunner().invoke(cli, [name, "f_seen.d.t", *command[1:], "--json"])
        told = json.loads(later.stdout)
        told = told[0] if name == "status" else told
        assert told["suspected_pii"].keys() == {"mail"}


def reading(
    folder: Path, form: str, **more: Any
) -> Callable[..., tuple[Reading, list[LandedFile]]]:
    store = FolderStore(str(folder))

    def made(**files: bytes) -> tuple[Reading, list[LandedFile]]:
        listed: list[LandedFile] = []
        for name, content in files.items():
            path = f"{name}.{form}"
            (folder / path).write_bytes(content)
            entry = store.entry(path)
            assert entry is not None
            listed.append(LandedFile(path, entry.bytes, entry.version))
        return Reading(store, "t", form, COLUMNS, **more), listed

    return made


def parquet(prices: list[Any], kind: pa.DataType) -> bytes:
    out = io.BytesIO()
    rows = {
        "id": pa.array([Decimal(n) for n in range(len(prices))], pa.decimal128(20, 0)),
        "price": pa.array(prices, kind),
        "on": pa.array([0] * len(prices), pa.date32()),
        "mail": pa.array([None] * len(prices), pa.string()),
    }
    pq.write_table(pa.table(rows), out)
    return out.getvalue()


def test_frames_hold_the_contracts_types(place: Place, tmp_path: Path) -> None:
    spark = place.spark.get()
    folder = tmp_path / "läke {a,b} *"
    folder.mkdir()
    native = reading(folder, "parquet")(a=parquet([Decimal("1.10"), None], pa.decimal128(12, 2)))
    texts = reading(folder, "parquet")(b=parquet(["1.1", None], pa.string()))
    lines = [line(0, "1.1", "1970-01-01"), line(1, None, "1970-01-01")]
    plain = reading(folder, "json")(c="\n".join(lines).encode())
    with spark_errors("t"):
        frames = [landed_frame(spark, *one) for one in (native, texts, plain)]
        assert len({str(frame.dtypes) for frame in frames}) == 1
        assert "Scan" in frames[0]._jdf.queryExecution().toString() or frames[0].inputFiles()
        wanted = [(Decimal(0), Decimal("1.10")), (Decimal(1), None)]
        for frame in frames:
            assert sorted((row.id, row.price) for row in frame.collect()) == wanted


def test_malformed_records_are_counted_over_all_files(place: Place, tmp_path: Path) -> None:
    bad = f"{line(1)}\nnonsense\n{line(2)}".encode()
    spark = place.spark.get()
    told = count_landed(spark, *reading(tmp_path, "json", max_bad=1)(a=bad, b=line(3).encode()))
    assert [(rows, count) for rows, _, count in told] == [(2, 1), (1, 0)]
    assert told[0][1][0].line == 2
    strict, files = reading(tmp_path, "json")(a=bad)
    with pytest.raises(LandingError, match=r"a\.json, line 2: no JSON"), landing_errors("t"):
        landed_frame(spark, strict, files).collect()


@pytest.mark.full
def test_the_clean_view_is_read_after_a_column_became_wider(place: Place) -> None:
    """Its text is the same, and Spark takes no longer decimal for the one that it declares."""
    feed = Feed(place, "wider", complete="marker")
    feed.land(IDS[0], [line(1)])
    feed.arrive()
    clean = "lake.wider_d__clean.t"
    spark = feed.workspace.spark.get()
    assert [row.price for row in spark.table(clean).collect()] == [Decimal("1.50")]
    columns = [
        c | {"type": "decimal(20,2)"} if c["name"] == "price" else c for c in SCHEMA["columns"]
    ]
    (feed.folder / "schemas/wider/d/t.json").write_text(json.dumps({**SCHEMA, "columns": columns}))
    feed.land(IDS[1], [line(1, "12345678901234.50")])
    feed.arrive()
    assert [row.price for row in spark.table(clean).collect()] == [Decimal("12345678901234.50")]


@pytest.mark.full
def test_status_says_why_a_snapshot_is_not_in_what_readers_see(place: Place) -> None:
    feed = Feed(place, "f_why", complete="marker")
    identifier = Identifier("f_why_d", "t")

    def why() -> str | None:
        [found] = status_of(feed.workspace.config, feed.workspace.ledger, [feed.contract])
        return found.error

    feed.land(IDS[0], [line(1), line(1), line(2)])
    [refused] = feed.land_all()
    assert isinstance(refused, RefusedSnapshot)
    said = why() or ""
    assert said.startswith(f"snapshot {IDS[0]} is refused: ")
    assert "holds 1 key more than once" in said
    # Readers of an empty table would take the source for empty.
    assert feed.workspace.lake.load(identifier) is None
    feed.land(IDS[1], ['{"id": "3", "mail": "never ends}'])
    [refused] = feed.land_all()
    assert isinstance(refused, RefusedSnapshot)
    assert "Unterminated string starting at character 21" in refused.reason
    assert (why() or "").count("is refused") == 2
    folder = feed.land(IDS[2], [line(1)])
    feed.arrive()
    for snapshot in IDS[:2]:
        SnapshotNotices(feed.workspace.ledger).skip_snapshot(feed.contract.name, snapshot)
    assert why() is None
    # Files that are written again after it was published.
    (folder / f"{IDS[2]}_0.json").write_text(line(9))
    look_for(feed.workspace, feed.contract)
    assert f"snapshot {IDS[2]} is published, and its files are others now: " in (why() or "")
    SnapshotNotices(feed.workspace.ledger).acknowledge_notice(feed.contract.name, IDS[2])
    # A column of another type: the snapshot stays landed, and it is said why.
    retyped = {**SCHEMA, "columns": [*SCHEMA["columns"][:2], {"name": "on", "type": "string"},
                                     SCHEMA["columns"][3]]}  # type: ignore[index]  # fmt: skip
    (feed.folder / "schemas/f_why/d/t.json").write_text(json.dumps(retyped))
    feed.land(IDS[3], [line(1)])
    with pytest.raises(SchemaError):
        feed.land_all()
    said = why() or ""
    assert said.startswith(f"snapshot {IDS[3]} is landed, and not published: ")
    assert "'on'" in said
