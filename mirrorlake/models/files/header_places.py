"""Where something stands in a file whose YAML header holds a query as a value.

YAML takes quotes, indentation and line ends out of a text; what is left are the characters that are
no blanks, in their order. So a place is found by counting those.

What belongs here: places. What doesn't: reading YAML (`mirrorlake.config.yaml.yaml_file`).
"""

from __future__ import annotations

from collections.abc import Iterator

TextPlace = tuple[int, int]
"""Line and column, from 1."""


def place_in_header(text: str, start: TextPlace, value: str, inside: TextPlace) -> TextPlace:
    """Where a place of a scalar stands in the file.

    Args:
        text: the file.
        start: where the scalar begins there, its quote or ``|`` included.
        value: the scalar, as YAML gives it.
        inside: the place in it.

    >>> place_in_header("a:\\n  b: SELECT x\\n    FROM t", (2, 6), "SELECT x FROM t", (1, 15))
    (3, 10)
    """
    lines = value.split("\n")
    before = "".join(lines[: inside[0] - 1]) + lines[inside[0] - 1][: inside[1] - 1]
    count = sum(not one.isspace() for one in before)
    for place in _written(text.split("\n"), start):
        if count == 0:
            return place
        count -= 1
    return start


def _written(lines: list[str], start: TextPlace) -> Iterator[TextPlace]:
    """The places of a scalar's characters that are no blanks."""
    row, column = start[0] - 1, start[1] - 1
    quote = lines[row][column : column + 1]
    if quote in ("|", ">"):
        row, column = row + 1, 0
    elif quote in ('"', "'"):
        column += 1
    while row < len(lines):
        line = lines[row]
        while column < len(line):
            # In quotes two characters stand for one.
            pair = line[column : column + 2]
            width = (
                2 if (quote == "'" and pair == "''") or (quote == '"' and "\\" in pair[:1]) else 1
            )
            if not line[column].isspace():
                yield row + 1, column + 1
            column += width
        row, column = row + 1, 0
