"""Files that would cost a reader its stack or its memory end in one line with a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.config import load_config
from mirrorlake.config.yaml.yaml_file import MOST_BYTES, YamlFile
from mirrorlake.errors import ConfigError

TOP = "version: 1\nsources:\n  s:\n    host: 127.0.0.1\n    user: u\n"


def laughs(levels: int) -> str:
    """Each list holds the one before ten times."""
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    rest = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, levels))
    return first + "".join(rest)


def merges(levels: int) -> str:
    """Each mapping is merged ten times into the next."""
    lines = ["m0: &m0 {a: 1}\n"]
    for n in range(1, levels):
        more = ", ".join(f"k{i}: *m{n - 1}" for i in range(10))
        lines.append(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}], {more}}}\n")
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TOP + "x: " + "[" * 50_000, "m.yaml:6:54: not valid YAML: more than 50 levels"),
        (TOP + "x: " + "{a: " * 50_000, "more than 50 levels"),
        (TOP + "x:\n" + "".join(" " * n + "- \n" for n in range(1, 200)), "more than 50 levels"),
        (TOP + laughs(9), "m.yaml:6{any}: its aliases stand for more than 250,000 values"),
        (TOP + merges(9), "its aliases stand for more than 250,000 values"),
        ("#" * (MOST_BYTES + 1), "m.yaml is larger than 16 MB"),
    ],
    ids=["brackets", "braces", "dashes", "aliases", "merges", "size"],
)
def test_such_a_file_is_refused_at_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    first, _, last = words.partition("{any}")
    assert first in str(caught.value)
    assert last in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_a_person_writes_is_far_from_the_limits() -> None:
    """A contract for two thousand tables that share their rules by an alias."""
    rules = "r: &r {a: {pii: drop}, b: {pii: hash}}\nt:\n"
    file = YamlFile(rules + "".join(f"  t{n}: {{columns: *r}}\n" for n in range(2_000)))
    assert file.problems == []
