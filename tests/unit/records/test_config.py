"""What may be wrong with the section `records`, and how that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError
from mirrorlake.records.config import RecordsConfig
from mirrorlake.records.publish import open_destination

TABLES = {
    "a": {"mode": "binlog", "key": ["id"]},
    "b": {"mode": "binlog", "key": ["id"]},
    "f": {"mode": "full", "key": ["id"]},
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", "x")


def config(folder: Path, destinations: Any, lake: str = "lake") -> Config:
    text = {
        "version": 1,
        "lake": {"warehouse": lake},
        "sources": {
            "s": {
                **{"host": "h", "user": "u", "password": "${env:P}"},
                "databases": {"d": {"tables": TABLES}},
            }
        },
        "records": {"destinations": destinations},
    }
    path = folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text))
    return load_config(path)


@pytest.mark.parametrize(
    ("destination", "words"),
    [
        ({"kind": "kafka", "to": "x"}, "'kafka' is not 'files', 'spool' or 'pubsub'"),
        ({"kind": "files"}, "is missing"),
        ({"kind": "files", "to": "http://x"}, "files go to a folder, gs://… or s3://…"),
        ({"kind": "files", "to": "projects/p/topics/ttt"}, "a topic is of kind pubsub"),
        ({"kind": "spool", "to": "gs://b/x"}, "a spool is a folder"),
        ({"kind": "pubsub", "to": "changes"}, "projects/<project>/topics/<topic>"),
        ({"kind": "files", "to": "x", "tables": ["d.f"]}, "s.d.f has mode full"),
        ({"kind": "files", "to": "x", "tables": ["s.d.aa"]}, "did you mean 's.d.a'?"),
        ({"kind": "files", "to": "x", "max_rows": 0}, "greater than or equal to 1"),
        ({"kind": "files", "to": "x", "topic": "y"}, "unknown key"),
    ],
)
def test_bad_input(tmp_path: Path, destination: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(tmp_path, {"out": destination})
    assert words in str(raised.value)
    assert "mirrorlake.yaml:" in str(raised.value)


def test_a_name_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 32 letters"):
        config(tmp_path, {"../x": {"kind": "files", "to": "x"}})


def test_which_tables_go_where(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        {
            "all": {"kind": "files", "to": "x"},
            "one": {"kind": "spool", "to": "y", "tables": ["d.b"]},
            "none": {"kind": "spool", "to": "z", "tables": []},
        },
    )
    section = found.section(RecordsConfig)
    chosen = {one.table: sorted(section.of_table(one)) for one in found.tables}
    assert chosen == {"a": ["all"], "b": ["all", "one"], "f": []}


@pytest.mark.parametrize("to", ["lake", "lake/records", "./x/../lake/y", "link"])
def test_a_folder_inside_the_lake_is_refused(tmp_path: Path, to: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    found = config(tmp_path, {"out": {"kind": "files", "to": to}})
    [settings] = found.section(RecordsConfig).destinations.values()
    with pytest.raises(ConfigError, match=r"records\.destinations\.out\.to is inside the lake"):
        open_destination(found, found.table("a"), "out", settings)
    beside = settings.model_copy(update={"to": "lake2"})
    open_destination(found, found.table("a"), "out", beside)
