"""What may be wrong with the section `cuts`, and how that is said."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import Config, load_config
from mirrorlake.cuts.config import CutsConfig
from mirrorlake.errors import ConfigError


def config(folder: Path, sources: Any, mode: str = "binlog", **database: Any) -> Config:
    tables = {"a": {"mode": mode, "key": ["id"]}}
    one = {"host": "h", "user": "u", "databases": {"d": {"tables": tables, **database}}}
    path = folder / "mirrorlake.yaml"
    text = {"version": 1, "sources": {"s": one}, "cuts": {"sources": sources}}
    path.write_text(yaml.safe_dump(text))
    return load_config(path)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"t": {}}, "no source is called 't'"),
        ({"s": {"every": "30s", "keep": "1d"}}, "a minute is the least"),
        ({"s": {"every": "1h"}}, "name `every` and `keep`"),
        ({"s": {"keep": "1h"}}, "name `every` and `keep`"),
        ({"s": {"every": "1h", "keep": "2d", "keep_daily": "1d"}}, "is for longer than `keep`"),
        ({"s": {"others": True}}, "set `prove`"),
        ({"s": {"publish": True}}, "no table of it has `publish: "),
        ({"s": {"evry": "1h"}}, "evry"),
    ],
)
def test_mistakes(tmp_path: Path, said: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        config(tmp_path, said)


def test_a_source_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no table of it has `mode: binlog`"):
        config(tmp_path, {"s": {}}, mode="full")


def test_a_namespace_that_would_hold_two_kinds_of_tables(tmp_path: Path) -> None:
    spaces = {"raw": "x__raw", "deduped": "x", "clean": "x__at_cut"}
    with pytest.raises(ConfigError, match="namespace x__at_cut is a table's own"):
        config(tmp_path, {"s": {"at_cut": True}}, namespaces=spaces)


def test_what_is_left_out(tmp_path: Path) -> None:
    said = {"s": {"every": "15m", "keep": "1d", "keep_daily": "30d"}}
    found = config(tmp_path, said).section(CutsConfig)
    assert found.of("s").every == timedelta(minutes=15)
    assert (found.of("s").prove, found.of("s").at_cut, found.of("s").models) == (False, False, True)
    assert found.of("t").every is None
