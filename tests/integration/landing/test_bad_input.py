"""Whatever is wrong with a snapshot: an error that names it, and the published table as it was."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LandingError, MirrorlakeError
from mirrorlake.landing.files.land import TakenSnapshot
from mirrorlake.landing.land import fold_snapshots, look_for, take_snapshots
from tests.integration.conftest import Place
from tests.integration.landing.test_landing import IDS, Feed, line
from tests.support import gcs

WHOLE = gzip.compress("\n".join(line(n) for n in range(500)).encode())
pytestmark = pytest.mark.full
CASES: dict[str, tuple[str, bytes, str]] = {
    "truncated gzip": (".json.gz", WHOLE[:-20], r"_0\.json\.gz is cut short"),
    "damaged gzip": (".json.gz", WHOLE[:40] + b"\0" * 9 + WHOLE[49:], r"_0\.json\.gz is damaged"),
    "invalid UTF-8": (".json", line(1).encode().replace(b"m@x", b"\xff"), r"line 1: byte \d+ is no UTF-8"),
    "number out of range": (".json", line(2**64).encode(), r"line 1: column 'id' is a number out of range"),
    "too many decimals": (".json", line(1, "1.005").encode(), r"line 1: column 'price' has more"),
    "missing column": (".json", b'{"id": 1, "price": null, "on": null}', r"line 1: lacks the column 'mail'"),
    "extra column": (".json", line(1).replace("}", ', "new": 1}').encode(), r"line 1: has the column 'new', which"),
    "key is NULL": (".json", line(1).replace('"1"', "null").encode(), r"line 1: column 'id' is NULL"),
}  # fmt: skip


class Fed(Feed):
    """A feed with one published snapshot, which nothing bad may change."""

    def __init__(self, place: Place, name: str, **settings: Any) -> None:
        super().__init__(place, name, complete="marker", **settings)
        self.land(IDS[0], [line(n) for n in (1, 2)])
        self.arrive()
        self.before = self.published()

    def published(self) -> tuple[Any, ...]:
        table = self.workspace.lake.load(Identifier(f"{self.name}_d", "t"))
        assert table is not None
        head = table.current_snapshot()
        return (head.snapshot_id if head else None, self.rows())

    def put(self, snapshot: int, name: str, content: bytes) -> Path:
        folder = self.folder / f"json/{self.name}/d/t/dq/{snapshot // 1_000_000}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{snapshot}{name}").write_bytes(content)
        (folder / f"{snapshot}_SUCCESS").touch()
        return folder

    def take(self, snapshot: int) -> None:
        take_snapshots(self.workspace, self.contract, [snapshot])
        fold_snapshots(self.workspace, self.contract, [snapshot])

    def refuses(self, words: str, snapshot: int = IDS[1]) -> MirrorlakeError:
        with pytest.raises(MirrorlakeError, match=words) as caught:
            self.take(snapshot)
        assert caught.value.next_step
        assert self.published() == self.before
        return caught.value


def check(fed: Fed, case: str) -> None:
    ending, content, words = CASES[case]
    fed.put(IDS[1], f"_0{ending}", content)
    fed.refuses(words)
    for path in (fed.folder / f"json/{fed.name}").rglob(f"{IDS[1]}_*"):
        path.unlink()


def test_a_stream_that_is_cut_short_changes_nothing(place: Place) -> None:
    check(Fed(place, "b0"), "truncated gzip")


def test_bad_records_change_nothing(place: Place) -> None:
    """And what is landed after them under the same id, mended, is taken."""
    fed = Fed(place, "b1")
    for case in CASES:
        check(fed, case)
    fed.land(IDS[1], [line(1, "7.00"), line(2)])
    (done,) = fed.arrive()
    assert (done.id, done.changed) == (IDS[1], 1)
    fed.before = fed.published()
    fed.put(IDS[2], "_0.json", f"{line(1)}\n{line(1, '2.00')}".encode())
    fed.refuses("1 key more than once", IDS[2])


def test_an_extra_column_is_read_past_by_the_contracts_word(place: Place) -> None:
    fed = Fed(place, "b2", extra_columns="ignore")
    fed.put(IDS[1], "_0.json", CASES["extra column"][1])
    (done,) = fed.arrive()
    assert (done.published, done.missing) == (True, 1)


def test_ids_that_are_no_ids_change_nothing(place: Place) -> None:
    """A column of another type; rows of two ids; one id for two contents."""
    fed = Fed(place, "b3")
    fed.contract.snapshot.__dict__["id_column"] = "mail"
    fed.land(IDS[1], [line(1)])
    fed.refuses("the snapshot's id is in 'mail', which is string")
    fed.contract.snapshot.__dict__["id_column"] = "id"
    fed.land(IDS[2], [line(1), line(2)])
    fed.refuses("don't have one number in 'id'", IDS[2])


def test_one_id_has_one_content(place: Place) -> None:
    fed = Fed(place, "b4")
    fed.land(IDS[0], [line(1, "9.99"), line(2)])
    fed.refuses("has another content than when it was taken", IDS[0])


def test_a_manifest_that_names_a_missing_file_changes_nothing(place: Place) -> None:
    fed = Fed(place, "b5")
    fed.contract.snapshot.__dict__["complete"] = "manifest"
    folder = fed.land(IDS[1], [line(1)])
    files = [{"name": f"{IDS[1]}_{n}.json", "bytes": len(line(1))} for n in (0, 1)]
    manifest = json.dumps({"version": 1, "files": files})
    (folder / f"{IDS[1]}_manifest.json").write_text(manifest)
    fed.refuses(f"lacks {IDS[1]}_1.json, which its manifest names")
    assert f"lacks {IDS[1]}_1.json" in look_for(fed.workspace, fed.contract).refused[IDS[1]]


@pytest.mark.parametrize("happens", ["gone", "written again"])
def test_a_file_that_vanishes_while_it_is_read_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    """Between the look at the files, just before the fold, and the reading of them; or between two
    readings."""
    fed = Fed(place, f"b6{happens[0]}")
    file = fed.land(IDS[1], [line(1, "3.00")], [line(2)]) / f"{IDS[1]}_1.json"
    looks: Callable[[TakenSnapshot], None] = TakenSnapshot.check_files

    def then(taken: TakenSnapshot) -> None:
        looks(taken)
        if happens == "gone":
            file.unlink(missing_ok=True)
        else:
            file.write_text(line(2, "8.88"))

    monkeypatch.setattr(TakenSnapshot, "check_files", then)
    wanted = "is not there any more" if happens == "gone" else "was written again"
    fed.refuses(wanted)


def test_a_bucket_without_permission_changes_nothing(place: Place) -> None:
    fed = Fed(place, "b7")
    with gcs.forbidding() as endpoint:
        landing = fed.workspace.config.landings["b7"]
        forbidden = landing.model_copy(update={"url": "gs://landed", "endpoint": endpoint})
        fed.workspace.config.landings["b7"] = forbidden  # pyright: ignore[reportIndexIssue]
        with pytest.raises(LandingError, match=r"gs://landed/.* can't be read: Forbidden 403"):
            look_for(fed.workspace, fed.contract)
        fed.refuses("Forbidden 403")
