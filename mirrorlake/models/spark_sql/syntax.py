"""The syntax that is analysed: the nodes of the parser's tree, each with the parts that count.

The parser reads many dialects' SQL, and drops what it does not need; Spark is given the text as it
is written. So what is not listed here is refused, not what is known to be wrong: a clause that
nobody analyses would be accepted by `mirrorlake plan`, and mean something else to Spark.

What belongs here: what a query may be built of. What doesn't: names and types
(`mirrorlake.models.spark_sql.binding.binder`), and where aggregates may stand
(`mirrorlake.models.spark_sql.binding.grouping`).

Source: Spark SQL Reference, "SELECT".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.node_places import at

_BINARY = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.BitwiseAnd, exp.BitwiseOr),
    *(exp.BitwiseXor, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Is),
    *(exp.RegexpLike, exp.And, exp.Or, exp.Dot, exp.Filter, exp.WithinGroup, exp.Extract),
    *(exp.ArgMax, exp.ArgMin),
)
_UNARY = (
    *(exp.Boolean, exp.HexString, exp.Neg, exp.Paren, exp.Not, exp.BitwiseNot, exp.IgnoreNulls),
    *(exp.RespectNulls, exp.Exists, exp.Any, exp.Where, exp.Having, exp.From, exp.Var),
    *(exp.DataTypeParam, exp.RawString),
)
_LISTS = (exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Order, exp.Distinct, exp.Chr)
_SORTED = "order limit offset"
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    node: frozenset(parts.split())
    for node, parts in {
        **dict.fromkeys(_BINARY, "this expression"),
        **dict.fromkeys(_UNARY, "this"),
        **dict.fromkeys(_LISTS, "expressions"),
        **dict.fromkeys((exp.Null, exp.CurrentDate, exp.CurrentTimestamp), ""),
        **dict.fromkeys(
            (exp.Union, exp.Except, exp.Intersect), f"with_ this expression distinct {_SORTED}"
        ),
        **dict.fromkeys((exp.Like, exp.ILike), "this expression negate"),
        **dict.fromkeys((exp.Div, exp.DPipe), "this expression safe typed"),
        **dict.fromkeys((exp.Ceil, exp.Floor), "this decimals"),
        **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), "this quantile"),
        **dict.fromkeys((exp.Cast, exp.TryCast), "this to safe"),
        exp.Select: "with_ expressions hint distinct from_ laterals joins where group having "
        f"windows {_SORTED}",
        exp.With: "expressions recursive",
        exp.CTE: "this alias",
        exp.Subquery: f"with_ this alias joins laterals pivots {_SORTED}",
        exp.Values: "expressions alias",
        exp.Table: "this alias db catalog laterals joins pivots sample",
        exp.TableAlias: "this columns",
        exp.TableSample: "percent rows size bucket_numerator bucket_denominator",
        exp.Join: "this on side kind using method",
        exp.Lateral: "this view outer alias",
        exp.Group: "expressions grouping_sets cube rollup all",
        exp.Ordered: "this desc nulls_first",
        exp.Limit: "expression",
        exp.Offset: "expression",
        exp.Hint: "expressions",
        exp.JoinHint: "this expressions",
        exp.Star: "except_",
        exp.Alias: "this alias",
        exp.Column: "this table db catalog",
        exp.Identifier: "this quoted",
        exp.Literal: "this is_string",
        exp.Interval: "this unit",
        exp.DataType: "this expressions nested",
        exp.ColumnDef: "this kind",
        exp.Anonymous: "this expressions",
        exp.Window: "this partition_by order spec alias over",
        exp.WindowSpec: "kind start start_side end end_side",
        exp.Between: "this low high",
        exp.In: "this expressions query",
        exp.Case: "this ifs default",
        exp.If: "this true false",
        exp.Bracket: "this expressions",
        exp.Trim: "this expression position",
        exp.Substring: "this start length",
        exp.Initcap: "this expression",
        exp.StrPosition: "this substr",
        exp.Decode: "this charset",
        exp.GroupConcat: "this separator",
        exp.Concat: "expressions coalesce safe",
    }.items()
}
"""Class of a node → the parts that it may have."""
_SHOWN: Mapping[tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.Select, "qualify"): ("QUALIFY", "Number the rows in a subquery, and filter around it"),
    (exp.Distinct, "on"): ("DISTINCT ON", "Number the rows in a subquery, and filter around it"),
    (exp.Star, "replace"): ("* REPLACE", "Write * EXCEPT (…) and the other columns"),
    (exp.Star, "rename"): ("* RENAME", "Write * EXCEPT (…) and the other columns"),
    (exp.Star, "ilike"): ("* ILIKE", "Name the columns"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "Write both orders with OR"),
    (exp.Table, "version"): ("VERSION AS OF", "A partition reads tables as they are now"),
    (exp.Select, "locks"): ("FOR UPDATE", ""),
}
_NODES_SHOWN: Mapping[type[exp.Expr], str] = {
    exp.Placeholder: "a path within a column (column:path), or a parameter,",
    exp.Parameter: "a parameter",
    exp.Lambda: "a function with a lambda",
    exp.Pivot: "PIVOT",
}
_JOINS = {"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"}
_JOIN_HINTS = {
    *("BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "SHUFFLE_MERGE", "MERGEJOIN"),
    *("SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL"),
}
_PARTITION_HINTS = {"REPARTITION", "COALESCE"}
_ENDS = {
    TokenType.FROM, TokenType.WHERE, TokenType.R_PAREN, TokenType.GROUP_BY, TokenType.ORDER_BY,
    TokenType.HAVING, TokenType.UNION, TokenType.LIMIT, TokenType.SEMICOLON,
}  # fmt: skip
_OPENS = {
    TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT,
    TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.EQ,
    TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.NULLSAFE_EQ,
    TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHEN, TokenType.THEN, TokenType.ELSE,
    TokenType.CASE, TokenType.BETWEEN, TokenType.IN, TokenType.LIKE, TokenType.WHERE, TokenType.ON,
    TokenType.HAVING, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.PARTITION_BY,
    TokenType.DPIPE, TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.TILDE, TokenType.DIV,
}  # fmt: skip


def refuse_unknown_tokens(tokens: Sequence[Token]) -> None:
    """See that a text has nothing that the parser reads and then forgets.

    Raises:
        ModelError: it has, with its line and column.
    """
    for number, one in enumerate(tokens):
        after = tokens[number + 1].token_type if number + 1 < len(tokens) else None
        before = tokens[number - 1].token_type if number else None
        words = ""
        if one.token_type == TokenType.COMMA and (after is None or after in _ENDS):
            words = "the query can't be read: nothing follows the comma"
        elif one.token_type == TokenType.PIPE_GT:
            words = "|> can't be analysed"
        elif one.token_type == TokenType.PLUS and before in _OPENS:
            words = "+ adds: nothing is before it"
        if words:
            raise ModelError(words, place=(one.line, one.col - len(one.text) + 1))


def refuse_unknown_syntax(query: exp.Expr) -> None:
    """See that every node of a tree, and every part of it, is one that is analysed.

    Raises:
        ModelError: one is not; it is named, with its line and column.
    """
    if type(query) in _PARTS:  # what is no query is refused where it is bound
        _look(query)


def _look(node: exp.Expr) -> None:
    known = _PARTS.get(type(node))
    if known is None:
        raise ModelError(f"{_words(node)} can't be analysed", place=_place(node))
    for key, value in node.args.items():
        if value is None or value is False or value == []:
            continue
        if key not in known:
            words, step = _SHOWN.get((type(node), key), (_part_words(key, value), ""))
            there = next((found for one in _nodes(value) if (found := _begin(one))), None)
            if there is None or isinstance(node, exp.Table | exp.Between):
                there = _place(node)
            raise ModelError(f"{words} can't be analysed", place=there, next_step=step)
        for one in _nodes(value):
            _look(one)
    if words := _other_words(node) or _other_brackets(node):
        raise ModelError(f"{words} can't be analysed", place=_place(node))


def _other_brackets(node: exp.Expr) -> str:
    """What the parser takes with other brackets than Spark does; '' if it is none of that."""
    words = ""
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.Alias):
        words = f"{_words(node)}: a name within brackets"
    elif isinstance(node, exp.SetOperation) and any(map(node.this.args.get, _SORTED.split())):
        words = f"ORDER BY, LIMIT or OFFSET before {node.key.upper()}, without brackets,"
    elif isinstance(node, exp.Binary | exp.Between | exp.In) and _is_loose(node):
        words = f"{_words(node)}: without brackets its order differs from Spark's, and it"
    return words


def _other_words(node: exp.Expr) -> str:
    """Parts that are words, of which some are not Spark's; '' if all of them are."""
    words = ""
    if isinstance(node, exp.Join):
        method = (node.args.get("method") or "").upper()
        if (node.kind or "").upper() not in _JOINS or method not in ("", "NATURAL"):
            words = f"{method} {node.kind or ''}".strip() + " JOIN"
    elif isinstance(node, exp.Hint):
        words = next(
            (f"the hint {one.sql('spark')}" for one in node.expressions if not _is_hint(one)), ""
        )
    elif isinstance(node, exp.Alias) and not isinstance(node.args["alias"], exp.Identifier):
        words = _words(node)
    elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        words = f"{_words(node)} in place of a table"
    elif isinstance(node, exp.Interval) and isinstance(node.args.get("unit"), exp.IntervalSpan):
        words = _words(node)
    return words


_PREDICATES = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Is, exp.Like),
    *(exp.ILike, exp.RegexpLike, exp.Between, exp.In),
)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SUMS = (exp.Add, exp.Sub)


def _is_loose(node: exp.Expr) -> bool:
    """Whether an operand is an operation that the parser and Spark may bind otherwise: a comparison
    in another one, and `||` or bits beside other arithmetic."""
    inner = [
        one
        for key in ("this", "expression", "low", "high")
        if isinstance(one := node.args.get(key), exp.Expr)
    ]
    if isinstance(node, exp.NullSafeEQ):  # the parser puts brackets around what it compares
        inner = [one.unnest() for one in inner]
    if isinstance(node, _PREDICATES):
        return any(isinstance(one, (*_PREDICATES, exp.Not)) for one in inner)
    if isinstance(node, _BITS):
        return any(isinstance(one, exp.Binary) and type(one) is not type(node) for one in inner)
    if isinstance(node, exp.DPipe):
        return any(isinstance(one, (*_SUMS, *_BITS)) for one in inner)
    if isinstance(node, (*_SUMS, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)):
        return any(isinstance(one, (exp.DPipe, *_BITS)) for one in inner)
    return False


def _begin(node: exp.Expr) -> tuple[int, int] | None:
    """Where the first of all that stands below a node begins."""
    return min((place for one in node.walk() if (place := at(one)) is not None), default=None)


def _place(node: exp.Expr) -> tuple[int, int] | None:
    """Where a node stands, or what is around it: the parser keeps no place of some."""
    found, around = _begin(node), node.parent
    while found is None and around is not None:
        found, around = _begin(around), around.parent
    return found


def _is_hint(node: exp.Expr) -> bool:
    """Whether it is a hint that Spark takes whatever there is: of joins, or a number of files."""
    if isinstance(node, exp.JoinHint):
        return str(node.this).upper() in _JOIN_HINTS
    numbers = node.expressions
    return (
        isinstance(node, exp.Anonymous)
        and str(node.this).upper() in _PARTITION_HINTS
        and len(numbers) == 1
        and isinstance(numbers[0], exp.Literal)
        and str(numbers[0].this).isdecimal()
        and int(str(numbers[0].this)) > 0
    )


def _nodes(value: Any) -> Iterator[exp.Expr]:
    for one in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(one, exp.Expr):
            yield one


def _words(node: exp.Expr) -> str:
    return _NODES_SHOWN.get(type(node)) or node.sql("spark")[:60].strip() or node.key.upper()


def _part_words(key: str, value: object) -> str:
    shown = next((one.sql("spark")[:60].strip() for one in _nodes(value)), "")
    return shown or key.strip("_").replace("_", " ").upper()
