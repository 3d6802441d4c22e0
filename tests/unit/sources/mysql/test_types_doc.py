"""The table in docs/types.md says what the code does, type by type.

``python -m tests.unit.sources.mysql.test_types_doc`` prints the table again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mirrorlake.sources.mysql.tables import Column
from mirrorlake.sources.mysql.types import registry
from mirrorlake.sources.mysql.types.collations import UNFAITHFUL
from mirrorlake.sources.mysql.types.exact_types import exact_column

DOC = Path(__file__).parents[4] / "docs" / "types.md"
HEAD = ("MySQL", "Iceberg", "selected as", "kept beside it")
CHARSETS = ("utf8mb3", "latin1", "ascii", "gbk", "sjis", "utf16", "ucs2")
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
# Every type of MySQL 8 and 9 and of MariaDB, with sizes on both sides of each boundary.
TYPES = (
    *(
        f"{size}int{sign}"
        for size in ("tiny", "small", "medium", "", "big")
        for sign in ("", " unsigned")
    ),
    "year",
    "decimal(10,2)",
    "decimal(10,2) unsigned",
    "decimal(28,10)",
    "decimal(28,9)",
    "decimal(12,11)",
    "decimal(38,0)",
    "decimal(39,0)",
    "decimal(39,0) zerofill",
    "float",
    "double",
    "bit(63)",
    "bit(64)",
    *(f"{text} in utf8mb4" for text in TEXTS),
    *(f"varchar in {charset}" for charset in CHARSETS),
    "enum in gbk",
    "json",
    *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    "date",
    "datetime",
    "datetime(6)",
    "timestamp",
    "timestamp(6)",
    "time",
    "time(6)",
    *("geometry", "point", "linestring", "polygon"),
    *("multipoint", "multilinestring", "multipolygon", "geometrycollection"),
    "geomcollection",
    "vector",
    *("uuid", "inet4", "inet6"),
)
# What `information_schema.COLUMNS.DATA_TYPE` may say, in MySQL 8 and 9 and in MariaDB 11.
KNOWN = frozenset(
    re.findall(
        r"\w+",
        """tinyint smallint mediumint int bigint year decimal float double bit json
        char varchar tinytext text mediumtext longtext enum set
        binary varbinary tinyblob blob mediumblob longblob date datetime timestamp time
        geometry point linestring polygon multipoint multilinestring multipolygon
        geometrycollection geomcollection vector uuid inet4 inet6 xmltype""",
    )
)


def column_of(text: str) -> Column:
    """The column that a server would describe so; ``varchar in gbk`` is a charset's."""
    kind, _, charset = text.partition(" in ")
    sizes = [int(n) for n in re.findall(r"\d+", kind.partition("(")[2])]
    fractional = kind.startswith(("time", "date"))
    return Column(
        name="c",
        ordinal=1,
        data_type=re.split(r"[ (]", kind)[0],
        column_type=kind,
        nullable=True,
        charset=charset or None,
        collation=f"{charset}_bin" if charset else None,
        precision=sizes[0] if sizes and not fractional else None,
        scale=sizes[1] if len(sizes) > 1 else None,
        length=64 if charset else None,
        fraction=sizes[0] if sizes and fractional else None,
        extra="",
        comment="",
    )


def row_of(text: str) -> str:
    exact = exact_column(column_of(text))
    if exact is None:
        return f"| `{text}` | refused | – | – |"
    plain = exact.select.replace("`", "")
    selected = "itself" if plain == "c" else f"`{plain}`"
    beside = "–"
    if exact.original is not None:
        beside = f"`{exact.original.replace('`', '')}`"
        beside += " (the value stays)" if exact.keeps_value else ""
    elif exact.has_original:
        beside = "its text, where no calendar has the date"
    return f"| `{text}` | `{exact.iceberg}` | {selected} | {beside} |"


def table() -> list[str]:
    head = f"| {' | '.join(HEAD)} |"
    return [head, "|" + "---|" * len(HEAD), *map(row_of, TYPES)]


def documented() -> list[str]:
    _, _, rest = DOC.read_text(encoding="utf-8").partition(table()[0])
    return [table()[0], *rest.partition("\n\n")[0].strip("\n").splitlines()]


def test_the_table_has_every_type_once() -> None:
    assert len(set(TYPES)) == len(TYPES)


@pytest.mark.parametrize("number", range(len(TYPES)), ids=TYPES)
def test_the_row_is_what_the_code_does(number: int) -> None:
    found = {line.partition("| ")[2].partition(" |")[0]: line for line in documented()}
    assert found.get(f"`{TYPES[number]}`") == row_of(TYPES[number]), (
        "print the table again: python -m tests.unit.sources.mysql.test_types_doc"
    )


def test_the_table_has_no_other_row() -> None:
    assert documented() == table()


def test_every_type_that_the_code_names_has_a_row() -> None:
    """A type that is newly handled must be listed: its name is a literal in the module."""
    source = (Path(str(registry.__file__))).read_text("utf-8")
    code = source.partition("from __future__")[2]
    named = {w for w in re.findall(r'"([a-z0-9]+)"', code) if w in KNOWN}
    assert named <= {column_of(text).data_type for text in TYPES}


def test_every_known_type_has_a_row() -> None:
    left_out = {"xmltype"}  # newer than 11.4
    assert KNOWN - left_out <= {column_of(text).data_type for text in TYPES}


def test_every_collation_that_no_key_may_have_is_named_with_its_reason() -> None:
    rows = re.findall(
        r"^\| (`[a-z0-9_]+_c[is]`.*) \| (.+) \|$", DOC.read_text("utf-8"), re.MULTILINE
    )
    found = {name: why for names, why in rows for name in re.findall(r"`(\w+)`", names)}
    assert found == UNFAITHFUL


if __name__ == "__main__":
    print("\n".join(table()))
