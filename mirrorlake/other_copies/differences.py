"""Rows that differ, found by a join on the key, and what became of each of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrorlake.other_copies.paired_columns import PairedColumns
from mirrorlake.other_copies.pairings.kinds import KINDS
from mirrorlake.other_copies.verdict import CopyDifference
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.plural import plural

EXAMPLES = 5
_DETAILS = 3
_CLOCKS = ("updated_at", "modified_at", "changed_at", "last_updated", "last_modified", "updated_on")
"""Names of columns that say when a row was changed, where the server's schema does not."""
_LOSSLESS = ", ".join(f"'{name}'" for name, kind in KINDS.items() if kind.lossless)


class DifferingRows:
    """The rows of two views (`ours`, `theirs`) that are not equal.

    Args:
        key: MySQL's columns, by which rows are paired.
        show_values: whether values are kept with the examples.
    """

    def __init__(
        self, database: Any, paired: PairedColumns, key: Sequence[str], show_values: bool
    ) -> None:
        self._database, self._paired, self._show = database, paired, show_values
        self._key = [paired.number(name) for name in key]
        self._clock = self._clock_column()

    def find(self, rows: int) -> tuple[list[CopyDifference], int]:
        """The differences, and how many of MySQL's rows are equal in all columns.

        Args:
            rows: MySQL's.

        Raises:
            ConfigError: the key keeps MySQL's rows not apart.
        """
        self._number_keys()
        self._refuse_ambiguous()
        self._join()
        found = [*self._of_rows(), *self._of_columns()]
        wrong = "missing OR (NOT extra AND (stale OR differs))"
        [(apart,)] = self._ask(f"SELECT count(*) FROM found WHERE {wrong}")
        return found, rows - apart

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql).fetchall()

    def _clock_column(self) -> int | None:
        """The column that says when a row was changed, if one does."""
        moments = [
            (number, one.ours.column)
            for number, one in enumerate(self._paired.columns)
            if one.ours.column.data_type in ("datetime", "timestamp")
            and one.kind.kind in ("timestamp", "timestamptz", "text")
        ]
        surest = [n for n, column in moments if "on update" in column.extra.lower()]
        named = [n for n, column in moments if column.name.lower() in _CLOCKS]
        return next(iter((*surest, *named)), None)

    # --- the join ---------------------------------------------------------------------------------

    def _number_keys(self) -> None:
        """Views of both sides with the forms of their keys in k0, k1 …"""
        for name, letter in (("ours", "o"), ("theirs", "t")):
            forms = [
                self._paired.columns[number].pairing.ours
                if letter == "o"
                else self._paired.columns[number].pairing.theirs
                for number in self._key
            ]
            keys = ", ".join(f"TRY({form}) AS k{n}" for n, form in enumerate(forms))
            self._database.execute(
                f"CREATE TEMP VIEW {name}_keyed AS SELECT *, {keys}, true AS there "  # noqa: S608
                f"FROM {name} {letter}"
            )
        keys = self._key_list()
        self._database.execute(
            f"CREATE TEMP TABLE doubled AS SELECT {keys}, count(*) AS times FROM theirs_keyed "  # noqa: S608
            f"GROUP BY ALL HAVING count(*) > 1"
        )

    def _key_list(self, prefix: str = "") -> str:
        return ", ".join(f"{prefix}k{n}" for n in range(len(self._key)))

    def _refuse_ambiguous(self) -> None:
        keys = self._key_list()
        grouped = f"SELECT {keys} FROM ours_keyed GROUP BY ALL HAVING count(*) > 1"  # noqa: S608
        [(several,)] = self._ask(f"SELECT count(*) FROM ({grouped})")  # noqa: S608
        if several:
            names = ", ".join(self._paired.columns[number].name for number in self._key)
            raise ConfigError(
                f"{names} is no key: {plural(several, 'value is', 'values are')} in several rows "
                "of MySQL",
                next_step="Name more columns with --key",
            )

    def _join(self) -> None:
        """The table `found`: a row for each pair that is not equal, and for each row without one;
        of a key that the copy has several times, the one that is most alike."""
        both, keys = "o.there AND t.there", range(len(self._key))
        same = " AND ".join(f"o.k{n} = t.k{n}" for n in keys)
        outcomes = self._paired.outcomes()
        cells = [f"CASE WHEN {both} THEN {sql} END AS d{n}" for n, sql in enumerate(outcomes)]
        names = [f"coalesce({_shown(f'o.c{n}')}, {_shown(f't.c{n}')})" for n in self._key]
        key = names[0] if len(names) == 1 else f"concat_ws(', ', {', '.join(names)})"
        shown = [f"coalesce(CAST(o.k{n} AS VARCHAR), CAST(t.k{n} AS VARCHAR))" for n in keys]
        parts = [
            "o.there IS NULL AS extra",
            "t.there IS NULL AS missing",
            "coalesce(o.w, t.w) AS w",
            f"{key} AS key",
            "coalesce(o.k0, t.k0) AS sorted",
            f"[{', '.join(shown)}] AS whole",
            *cells,
            *self._clock_cells(both),
        ]
        if self._show:
            parts += [
                f"[{_shown(f'o.c{n}', f'o.x{n}')}, {_shown(f't.c{n}')}] AS v{n}"
                for n in range(len(outcomes))
            ]
        select = f"SELECT {', '.join(parts)} FROM ours_keyed o FULL JOIN theirs_keyed t ON {same}"  # noqa: S608
        real = " + ".join(f"CAST({_is_loss(f'd{n}')} AS INTEGER)" for n in range(len(outcomes)))
        any_ = " OR ".join(f"d{n} IS NOT NULL" for n in range(len(outcomes)))
        # Of a doubled key all are kept at first, so that one that is equal can win.
        [(several,)] = self._ask("SELECT count(*) FROM doubled")
        twice = self._twice() if several else "false"
        self._database.execute(
            f"CREATE TEMP TABLE found AS SELECT *, real > 0 AS differs FROM (SELECT *, {real} AS "  # noqa: S608
            f"real, {any_} AS noted, {twice} AS twice FROM ({select}) WHERE w) "
            "WHERE extra OR missing OR noted OR twice"
        )
        if several:
            self._database.execute(
                "CREATE TEMP TABLE best AS SELECT * FROM found WHERE NOT twice UNION ALL "
                "SELECT * FROM found WHERE twice QUALIFY row_number() OVER "
                "(PARTITION BY whole ORDER BY real) = 1"
            )
            self._database.execute("DROP TABLE found; ALTER TABLE best RENAME TO found")

    def _twice(self) -> str:
        texts = ", ".join(f"CAST(k{n} AS VARCHAR)" for n in range(len(self._key)))
        return f"whole IN (SELECT [{texts}] FROM doubled)"  # noqa: S608

    def _clock_cells(self, both: str) -> list[str]:
        if self._clock is None:
            return ["false AS stale", "NULL AS clock"]
        number, pairing = self._clock, self._paired.columns[self._clock].pairing
        older = f"{both} AND d{number} = 'other' AND TRY({pairing.ours} > {pairing.theirs})"
        return [f"coalesce({older}, false) AS stale", f"{pairing.ours} AS clock"]

    # --- what was found ---------------------------------------------------------------------------

    def _of_rows(self) -> Iterator[CopyDifference]:
        for kind, where in (("missing", "missing"), ("extra", "extra"), ("stale", "stale")):
            count, keys = self._examples(where)
            if count:
                yield CopyDifference(kind, None, count, self._row_detail(kind), keys)
        [(count, rows)] = self._ask("SELECT count(*), coalesce(sum(times - 1), 0) FROM doubled")
        if count:
            text = ", ".join(f"CAST(k{n} AS VARCHAR)" for n in range(len(self._key)))
            listed = self._ask(
                f"SELECT coalesce(concat_ws(', ', {text}), 'NULL') FROM doubled "  # noqa: S608
                f"ORDER BY {self._key_list()} LIMIT {EXAMPLES}"
            )
            keys = tuple(str(key) for (key,) in listed)
            detail = f"{plural(int(rows), 'row')} too many"
            yield CopyDifference("doubled", None, count, detail, keys)

    def _row_detail(self, kind: str) -> str:
        if self._clock is None:
            return ""
        column = self._paired.columns[self._clock]
        if kind == "stale":
            return f"by {column.name}"
        if kind != "missing":
            return ""
        newest = f"(SELECT max(TRY({column.pairing.theirs})) FROM theirs t)"  # noqa: S608
        [(later,)] = self._ask(f"SELECT count(*) FROM found WHERE missing AND clock > {newest}")  # noqa: S608
        if not later:
            return ""
        return f"{later:,} of them changed after the newest {column.name} that the copy has"

    def _examples(self, where: str) -> tuple[int, tuple[str, ...]]:
        [(count, keys)] = self._ask(
            f"SELECT count(*), min_by(key, sorted, {EXAMPLES}) FROM found WHERE {where}"  # noqa: S608
        )
        return int(count), tuple(str(key) for key in keys or ())

    def _of_columns(self) -> Iterator[CopyDifference]:
        for number, one in enumerate(self._paired.columns):
            values = f"min_by(v{number}, sorted, {EXAMPLES})" if self._show else "NULL"
            found = self._ask(
                f"SELECT split_part(d{number}, '|', 1) AS kind, split_part(d{number}, '|', 2) AS "  # noqa: S608
                f"detail, count(*) AS times, min_by(key, sorted, {EXAMPLES}), {values} FROM found "
                f"WHERE d{number} IS NOT NULL AND NOT stale GROUP BY ALL ORDER BY times DESC, detail"
            )
            for kind in dict.fromkeys(row[0] for row in found):
                yield _together(kind, one.name, [row[1:] for row in found if row[0] == kind])


def _together(kind: str, column: str, rows: Sequence[tuple[Any, ...]]) -> CopyDifference:
    """One difference of all rows of a kind, whatever is said beside it."""
    details = [(detail, count) for detail, count, *_ in rows if detail]
    words = details[0][0] if len(rows) == 1 and details else ""
    if len(rows) > 1:
        words = ", ".join(f"{detail}: {count:,}" for detail, count in details[:_DETAILS])
        if len(details) > _DETAILS:
            words += f" and {len(details) - _DETAILS:,} more"
    keys = [(str(k), v) for row in rows for k, v in _keys_of(row)][:EXAMPLES]
    return CopyDifference(
        kind,
        column,
        sum(int(row[1]) for row in rows),
        words,
        tuple(key for key, _ in keys),
        tuple((v[0], v[1]) for _, v in keys if v is not None),
    )


def _keys_of(row: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    keys, values = row[2] or [], row[3]
    return zip(keys, values or [None] * len(keys), strict=False)


def _is_loss(cell: str) -> str:
    return f"({cell} IS NOT NULL AND split_part({cell}, '|', 1) NOT IN ({_LOSSLESS}))"


def _shown(cell: str, original: str = "NULL") -> str:
    """SQL of a value as people read it: bytes in hexadecimal, 200 letters at most."""
    text = f"left(coalesce({original}, CAST({cell} AS VARCHAR)), 200)"
    return text
