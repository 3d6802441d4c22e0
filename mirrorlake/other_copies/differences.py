"""Rows that differ, found by a join on the key, and what became of each of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.paired_columns import PairedColumns
from mirrorlake.other_copies.pairings.kinds import KINDS
from mirrorlake.other_copies.verdict import CopyDifference
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
        self._find_doubled()
        self._join()
        self._name_outcomes()
        self._choose_of_doubled()
        found = [*self._of_rows(), *self._of_columns()]
        lost = f"SELECT row FROM outcomes WHERE kind NOT IN ({_LOSSLESS})"  # noqa: S608
        [(apart,)] = self._ask(f"SELECT count(*) FROM apart WHERE missing OR rowid IN ({lost})")  # noqa: S608
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

    def _find_doubled(self) -> None:
        """The table `doubled`: keys that the copy has several times."""
        numbers = range(len(self._key))
        keys = ", ".join(f"t.k{n} AS k{n}" for n in numbers)
        pairs = " AND ".join(f"o.k{n} = t.k{n}" for n in numbers)
        label = f"any_value({self._shown_key()})"
        # As where rows are paired: what MySQL says of its row decides whether it is compared.
        self._database.execute(
            f"CREATE TEMP TABLE doubled AS SELECT {keys}, {label} AS label, count(*) AS times "  # noqa: S608
            f"FROM theirs_keyed t LEFT JOIN ours_keyed o ON {pairs} WHERE coalesce(o.w, t.w) "
            "GROUP BY ALL HAVING count(*) > 1"
        )

    def _shown_key(self) -> str:
        names = [f"coalesce({_shown(f'o.c{n}')}, {_shown(f't.c{n}')}, 'NULL')" for n in self._key]
        return f"array_to_string([{', '.join(names)}], ', ')"

    def _key_list(self, prefix: str = "") -> str:
        return ", ".join(f"{prefix}k{n}" for n in range(len(self._key)))

    def _refuse_ambiguous(self) -> None:
        keys = self._key_list()
        grouped = f"SELECT {keys} FROM ours_keyed GROUP BY ALL HAVING count(*) > 1"  # noqa: S608
        [(several,)] = self._ask(f"SELECT count(*) FROM ({grouped})")  # noqa: S608
        names = ", ".join(self._paired.columns[number].name for number in self._key)
        absent = " OR ".join(f"(c{n} IS NULL AND x{n} IS NULL)" for n in self._key)
        [(none,)] = self._ask(f"SELECT count(*) FROM ours_keyed WHERE {absent}")  # noqa: S608
        if none:
            raise ConfigError(
                f"{names} is no key: it is NULL in {plural(none, 'row')} of MySQL",
                next_step="Name another one with --key",
            )
        if several:
            raise ConfigError(
                f"{names} is no key: {plural(several, 'value is', 'values are')} in several rows "
                "of MySQL",
                next_step="Name more columns with --key",
            )

    def _join(self) -> None:
        """The table `apart`: a row for each pair that is not equal, with its values and whether
        each is equal (e0 …), for each row without another, and for each copy of a doubled one."""
        both, keys, numbers = "o.there AND t.there", range(len(self._key)), range(len(self._all))
        pairs = " AND ".join(f"o.k{n} = t.k{n}" for n in keys)
        parts = [
            "o.there IS NULL AS extra",
            "t.there IS NULL AS missing",
            f"{self._shown_key()} AS key",
            "coalesce(o.k0, t.k0) AS sorted",
            f"{self._whole('t.')} AS whole",
            *(f"o.c{n} AS oc{n}, o.x{n} AS ox{n}, t.c{n} AS tc{n}" for n in numbers),
            *(f"coalesce({both}, false) AND NOT {self._paired.same(n)} AS e{n}" for n in numbers),
        ]
        [(several,)] = self._ask("SELECT count(*) FROM doubled")
        twice = f"whole IN (SELECT {self._whole()} FROM doubled)" if several else "false"  # noqa: S608
        differs = " OR ".join(f"e{n}" for n in numbers)
        self._database.execute(
            f"CREATE TABLE apart AS SELECT *, {twice} AS twice FROM (SELECT {', '.join(parts)} "  # noqa: S608
            f"FROM ours_keyed o FULL JOIN theirs_keyed t ON {pairs} WHERE coalesce(o.w, t.w)) "
            f"WHERE extra OR missing OR {differs} OR {twice}"
        )

    @property
    def _all(self) -> list[Any]:
        return list(self._paired.columns)

    def _whole(self, prefix: str = "") -> str:
        texts = ", ".join(f"CAST({prefix}k{n} AS VARCHAR)" for n in range(len(self._key)))
        return f"[{texts}]"

    def _name_outcomes(self) -> None:
        """The table `outcomes`: what became of each value that differs. One column after the
        other: all together would take memory for every step of every one's SQL."""
        self._database.execute(
            "CREATE TABLE outcomes (row BIGINT, number INTEGER, kind VARCHAR, detail VARCHAR)"
        )
        self._database.execute("CREATE TABLE stale (row BIGINT)")
        for number in range(len(self._all)):
            outcome = self._paired.outcome(number)
            self._database.execute(
                f"INSERT INTO outcomes SELECT row, {number}, split_part(d, '|', 1), "  # noqa: S608
                f"split_part(d, '|', 2) FROM (SELECT row, {outcome} AS d "
                f"FROM ({_both(number)} WHERE e{number}))"
            )
        if self._clock is not None:
            number, pairing = self._clock, self._all[self._clock].pairing
            others = f"SELECT row FROM outcomes WHERE number = {number} AND kind = 'other'"  # noqa: S608
            self._database.execute(
                f"INSERT INTO stale SELECT row FROM ({_both(number)} WHERE e{number}) "  # noqa: S608
                f"WHERE row IN ({others}) AND TRY({pairing.ours} > {pairing.theirs})"
            )

    def _choose_of_doubled(self) -> None:
        """Of a key that the copy has several times, the row that is most alike is compared."""
        [(several,)] = self._ask("SELECT count(*) FROM doubled")
        if not several:
            return
        losses = (
            f"SELECT row, count(*) AS n FROM outcomes WHERE kind NOT IN ({_LOSSLESS}) GROUP BY row"  # noqa: S608
        )
        self._database.execute(
            f"CREATE TABLE others AS SELECT a.rowid AS row FROM apart a LEFT JOIN ({losses}) l ON "  # noqa: S608
            "l.row = a.rowid WHERE twice QUALIFY row_number() OVER "
            "(PARTITION BY whole ORDER BY coalesce(n, 0), a.rowid) > 1"
        )
        for table, row in (("outcomes", "row"), ("stale", "row"), ("apart", "rowid")):
            self._database.execute(f"DELETE FROM {table} WHERE {row} IN (SELECT row FROM others)")  # noqa: S608

    # --- what was found ---------------------------------------------------------------------------

    def _of_rows(self) -> Iterator[CopyDifference]:
        stale = "rowid IN (SELECT row FROM stale)"
        for kind, where in (("missing", "missing"), ("extra", "extra"), ("stale", stale)):
            count, keys = self._examples(where)
            if count:
                yield CopyDifference(kind, None, count, self._row_detail(kind), keys)
        [(count, rows)] = self._ask("SELECT count(*), coalesce(sum(times - 1), 0) FROM doubled")
        if count:
            listed = self._ask(
                f"SELECT label FROM doubled ORDER BY {self._key_list()} LIMIT {EXAMPLES}"  # noqa: S608
            )
            keys = tuple(str(key) for (key,) in listed)
            detail = f"{plural(int(rows), 'row')} too many"
            yield CopyDifference("doubled", None, count, detail, keys)

    def _row_detail(self, kind: str) -> str:
        if self._clock is None:
            return ""
        number, column = self._clock, self._all[self._clock]
        if kind == "stale":
            return f"by {column.name}"
        if kind != "missing":
            return ""
        newest = f"(SELECT max(TRY({column.pairing.theirs})) FROM theirs t)"  # noqa: S608
        later = f"SELECT count(*) FROM ({_both(number)} WHERE missing) "  # noqa: S608
        [(count,)] = self._ask(f"{later} WHERE TRY({column.pairing.ours}) > {newest}")
        if not count:
            return ""
        return f"{count:,} of them changed after the newest {column.name} that the copy has"

    def _examples(self, where: str) -> tuple[int, tuple[str, ...]]:
        [(count, keys)] = self._ask(
            f"SELECT count(*), min_by(key, sorted, {EXAMPLES}) FROM apart WHERE {where}"  # noqa: S608
        )
        return int(count), tuple(str(key) for key in keys or ())

    def _of_columns(self) -> Iterator[CopyDifference]:
        for number, one in enumerate(self._paired.columns):
            shown = f"[{_shown(f'oc{number}', f'ox{number}')}, {_shown(f'tc{number}')}]"
            values = f"min_by({shown}, sorted, {EXAMPLES})" if self._show else "NULL"
            found = self._ask(
                f"SELECT kind, detail, count(*) AS times, min_by(key, sorted, {EXAMPLES}), "  # noqa: S608
                f"{values} FROM outcomes f JOIN apart a ON a.rowid = f.row WHERE number = {number} "
                "AND row NOT IN (SELECT row FROM stale) GROUP BY ALL ORDER BY times DESC, detail"
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


def _both(number: int) -> str:
    """A query of a column's values as pairings name them, and of its row's number."""
    values = f"{{'c{number}': oc{number}, 'x{number}': ox{number}}} AS o"
    return f"SELECT rowid AS row, {values}, {{'c{number}': tc{number}}} AS t FROM apart"  # noqa: S608


def _shown(cell: str, original: str = "NULL") -> str:
    """SQL of a value as people read it, its first 200 letters."""
    return f"left(coalesce({original}, CAST({cell} AS VARCHAR)), 200)"
