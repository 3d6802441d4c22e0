"""Queries from a seed, over two tables with the columns of `spark_expressions`: most are such as
people write, and some of every kind are wrong.

They are texts alone: which are wrong is for Spark to say.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.support.spark_expressions import COLUMNS

KINDS = ("int", "bigint", "double", "decimal(12,2)", "string", "boolean", "date", "timestamp")
_BY_KIND = {kind: name for name, kind in COLUMNS.items()}
_LITERALS = {
    "int": ("1", "7"), "bigint": ("3000000000", "4L"), "double": ("1.5e0", "2D"),
    "decimal(12,2)": ("1.25", "0.5"), "string": ("'x'", "'2024-01-01'"), "boolean": ("true", "false"),
    "date": ("DATE '2024-01-01'",), "timestamp": ("TIMESTAMP '2024-01-01 10:00:00'",),
}  # fmt: skip
_CALLS = {
    "int": ("length({string})", "year({date})", "datediff({date}, {date})", "{int} + {int}", "-{int}",
            "CAST({bigint} AS INT)", "size(arr)", "arr[0]", "m['k']", "st.x", "{int} & {int}",
            "coalesce({int}, {int})", "extract(DAY FROM {date})", "instr({string}, {string})"),
    "bigint": ("{bigint} * {int}", "{int} DIV {int}", "unix_seconds({timestamp})", "CAST({string} AS BIGINT)",
               "hash({string}) + {bigint}", "greatest({bigint}, {int})"),
    "double": ("{double} / {int}", "sqrt({int})", "pow({double}, {int})", "CAST({decimal(12,2)} AS DOUBLE)",
               "round({double}, 1)", "abs({double})"),
    "decimal(12,2)": ("CAST({double} AS DECIMAL(12,2))", "CASE WHEN {boolean} THEN {decimal(12,2)} END",
                      "nullif({decimal(12,2)}, {decimal(12,2)})"),
    "string": ("upper({string})", "concat({string}, {any})", "substring({string}, 1, {int})",
               "CASE WHEN {boolean} THEN {string} ELSE {string} END", "{string} || {any}",
               "CAST({any} AS STRING)", "date_format({date}, 'yyyy')", "trim({string})",
               "IF({boolean}, {string}, {string})", "lpad({string}, 3, 'x')"),
    "boolean": ("{int} > {int}", "{string} = {string}", "{boolean} AND {boolean}", "NOT {boolean}",
                "{any} IS NULL", "{date} BETWEEN {date} AND {date}", "{int} IN (1, {int})",
                "{string} LIKE 'a%'", "{boolean} OR {boolean}", "{any} <=> {any}", "array_contains(arr, {int})"),
    "date": ("date_add({date}, {int})", "CAST({timestamp} AS DATE)", "{date} - INTERVAL 1 MONTH",
             "last_day({date})", "trunc({date}, 'MM')", "{date} + {int}", "to_date({string})"),
    "timestamp": ("date_trunc('DAY', {timestamp})", "{timestamp} + INTERVAL 3 HOURS", "CAST({date} AS TIMESTAMP)"),
}  # fmt: skip
_AGGREGATES = {
    "int": ("max({int})", "min({int})", "any_value({int})", "first({int})"),
    "bigint": ("count(*)", "sum({int})", "count(DISTINCT {any})", "count({any})", "count_if({boolean})",
               "sum({int}) FILTER (WHERE {boolean})"),
    "double": ("avg({int})", "stddev({double})", "percentile({int}, 0.5)"),
    "decimal(12,2)": ("max({decimal(12,2)})",),
    "string": ("max({string})", "max_by({string}, {int})"),
    "boolean": ("bool_or({boolean})",),
    "date": ("min({date})",),
    "timestamp": ("max({timestamp})",),
}  # fmt: skip
_WINDOWS = (
    "row_number() OVER (PARTITION BY {any} ORDER BY {any})", "sum({int}) OVER (PARTITION BY {any})",
    "lag({int}) OVER (ORDER BY {date})", "rank() OVER (PARTITION BY {any})", "lead({int}, 1) OVER w",
    "sum({int}) OVER (ORDER BY {int} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "upper({string}) OVER ()",
    "max({int}) OVER (ORDER BY {int} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", "ntile(2) OVER (ORDER BY {int})",
    "count(*) OVER ()", "sum(max({int})) OVER ()", "row_number()",
)  # fmt: skip
_OWN_COLUMNS = 0.9
_WRONG = 0.03
"""How often a part is of another type than what is around it takes."""


class QueryMaker:
    """Makes queries, one after the other; the same from the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not for secrets

    def queries(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield self._query()

    # --- expressions ------------------------------------------------------------------------------

    def _kind(self) -> str:
        return self._random.choice(KINDS)

    def _expression(self, kind: str, depth: int, alias: str = "") -> str:
        if self._random.random() < _WRONG:
            kind = self._random.choice((*KINDS, "binary", "array<int>", "map<string,int>"))
        if kind not in _CALLS or depth <= 0 or self._random.random() < 0.35:
            return self._leaf(kind, alias)
        return self._filled(self._random.choice(_CALLS[kind]), depth - 1, alias)

    def _leaf(self, kind: str, alias: str) -> str:
        literals = _LITERALS.get(kind)
        if literals and self._random.random() < 0.25:
            return self._random.choice(literals)
        column = _BY_KIND[kind]
        return f"{alias}.{column}" if alias else column

    def _filled(self, template: str, depth: int, alias: str = "") -> str:
        text = template
        for kind in (*KINDS, "any"):
            while f"{{{kind}}}" in text:
                wanted = kind if kind != "any" else self._kind()
                text = text.replace(f"{{{kind}}}", self._expression(wanted, depth, alias), 1)
        if alias:
            for word in ("arr", "m", "st"):
                text = text.replace(f"{word}[", f"{alias}.{word}[")
            text = text.replace("(arr", f"({alias}.arr").replace("st.x", f"{alias}.st.x")
            text = text.replace(f"{alias}.{alias}.", f"{alias}.")
        return text

    # --- queries ----------------------------------------------------------------------------------

    def _query(self) -> str:
        text = self._select()
        chance = self._random.random()
        if chance < 0.08:
            kind = self._random.choice(("UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
            text = f"{text} {kind} {self._select()}"
        elif chance < 0.16:
            text = f"WITH c AS ({text}) SELECT * FROM c"
        elif chance < 0.22:
            text = f"SELECT count(*) AS n FROM ({text}) AS q"
        return text

    def _select(self) -> str:
        shape = self._random.choice(
            ("plain", "plain", "grouped", "grouped", "total", "window", "join")
        )
        alias = "one" if shape == "join" else ""
        source, where = self._source(shape), self._where(alias)
        keys = [self._key(alias) for _ in range(self._random.randint(1, 2))]
        items = self._items(shape, keys, alias)
        named = [f"{one} AS c{number}" for number, one in enumerate(items)]
        distinct = "DISTINCT " if self._random.random() < 0.08 else ""
        text = f"SELECT {distinct}{', '.join(named)} FROM {source}{where}"
        if shape == "grouped":
            text += self._group_by(keys, items)
        if shape == "window" and "OVER w" in text:
            text += " WINDOW w AS (ORDER BY i)" if self._random.random() < 0.8 else ""
        return text + self._order(items, keys, shape)

    def _source(self, shape: str) -> str:
        if shape != "join":
            lateral = " LATERAL VIEW explode(arr) e AS el" if self._random.random() < 0.05 else ""
            return f"one{lateral}"
        kind = self._random.choice(
            ("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "CROSS JOIN")
        )
        if kind == "CROSS JOIN":
            return "one CROSS JOIN two"
        on = f"ON one.i = two.{self._random.choice(('i', 'l', 'dec', 's', 'd'))}"
        return f"one {kind} two {on if self._random.random() < 0.8 else 'USING (i)'}"

    def _where(self, alias: str) -> str:
        chance = self._random.random()
        if chance < 0.5:
            return ""
        if chance < 0.6:
            inner = self._random.choice(
                ("two.i = one.i", "two.i = 1", "two.s = one.s AND two.i > one.i")
            )
            return f" WHERE {self._random.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM two WHERE {inner})"
        if chance < 0.68:
            return f" WHERE {self._leaf('int', 'one')} IN (SELECT {self._expression('int', 1)} FROM two)"
        if chance < 0.76:
            call = self._random.choice(("max(two.i)", "two.i", "count(*)", "sum(two.i) + 1"))
            return f" WHERE one.i > (SELECT {call} FROM two WHERE two.s = one.s)"
        if chance < 0.79:
            return f" WHERE {self._filled(self._random.choice(_AGGREGATES['int']), 0, alias)} > 1"
        return f" WHERE {self._expression('boolean', 2, alias)}"

    def _key(self, alias: str) -> str:
        return self._expression(self._kind(), self._random.choice((0, 0, 1)), alias)

    def _items(self, shape: str, keys: Sequence[str], alias: str) -> list[str]:
        def aggregate() -> str:
            kind = self._kind()
            return self._filled(self._random.choice(_AGGREGATES[kind]), 1, alias)

        if shape == "grouped":
            found = [*keys, aggregate()]
            if self._random.random() < 0.3:
                found.append(self._random.choice((f"{aggregate()} + 1", f"upper({keys[0]})")))
            if self._random.random() < 0.15:
                found.append(self._expression(self._kind(), 1, alias))
            return found
        if shape == "total":
            found = [aggregate(), aggregate()]
            return [*found, self._key(alias)] if self._random.random() < 0.2 else found
        found = [
            self._expression(self._kind(), 2, alias) for _ in range(self._random.randint(1, 3))
        ]
        if shape == "window":
            found.append(self._filled(self._random.choice(_WINDOWS), 1))
        elif self._random.random() < 0.05:
            found.append("explode(arr)")
        if self._random.random() < 0.05:
            found.append("c0")
        return found

    def _group_by(self, keys: Sequence[str], items: Sequence[str]) -> str:
        chance = self._random.random()
        by = ", ".join(keys)
        if chance < 0.15:
            by = ", ".join(str(n + 1) for n in range(len(keys)))
        elif chance < 0.25:
            by = ", ".join(f"c{n}" for n in range(len(keys)))
        elif chance < 0.32:
            by = f"ROLLUP ({by})"
        elif chance < 0.37:
            by = "ALL"
        elif chance < 0.42:
            by = keys[0]
        text = f" GROUP BY {by}"
        chance = self._random.random()
        if chance < 0.12:
            text += f" HAVING {self._random.choice(('count(*) > 1', 'max(i) > min(i)', f'{items[-1]} IS NULL'))}"
        elif chance < 0.2:
            text += f" HAVING {self._random.choice(('i > 1', 'c0 IS NULL', 's = c0'))}"
        return text

    def _order(self, items: Sequence[str], keys: Sequence[str], shape: str) -> str:
        chance = self._random.random()
        if chance < 0.7:
            return ""
        by = self._random.choice(
            ("1", "c0 DESC", items[0], keys[0], "9", "count(*)", "i", f"c{len(items) - 1}")
        )
        limit = self._random.choice(("", "", " LIMIT 3", " LIMIT i", " LIMIT 2 OFFSET 1"))
        return f" ORDER BY {by}{limit}"
