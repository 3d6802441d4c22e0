"""The columns of a model's table, and everything that can be wrong with them.

What belongs here: names, types, personal data, and what a query may not do where a table is made of
it. What doesn't: types and origins themselves (`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.clock_and_chance import STEP, is_unsteady, unsteady_words
from mirrorlake.models.compile.model import BoundModel
from mirrorlake.models.compile.revealing_conditions import hidden_columns
from mirrorlake.models.compile.table_mentions import refuse_unfollowed
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.files.python_columns import PythonFields
from mirrorlake.models.spark_sql.columns import NamedValue, Origin, Typed
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.serving.catalogue import Catalogue


def fields_of(
    declaration: Declaration,
    found: BoundModel,
    given: PythonFields | None,
    catalogue: Catalogue,
    externals: Mapping[str, ExternalTable],
    types: Mapping[str, Typed],
) -> tuple[NamedValue, ...]:
    """The columns of a model's table, once all that can be wrong was looked for.

    Args:
        given: those of a Python model, as its header says them.
        types: of the names under ``for``.

    Raises:
        ModelError: no table can be made of them; with its place.
        LakeError: the lake can't be read.
    """
    query, bound = found
    for function, place in bound.unstable:
        if is_unsteady(declaration, function):
            words = unsteady_words(declaration, function)
            raise ModelError(words, place=place, next_step=STEP)
    columns = _checked(query, bound.fields, declaration) if given is None else given.columns
    fields = (*columns, *_partition_columns(declaration, types))
    _refuse_personal(declaration, query, fields, catalogue, externals)
    if given is not None:
        _refuse_unsaid(declaration, given, catalogue, externals)
    foreign = [name for name in bound.reads if name in externals]
    refuse_unfollowed(query, bound.trace.tables, foreign)
    if declaration.materialized == "stream view":
        mirrored = [name for name in bound.reads if catalogue.table(name) is not None]
        words = "is read with its newest loads"
        refuse_unfollowed(query, bound.trace.tables, mirrored, words)
    if foreign and declaration.is_view:
        named = bound.trace.tables
        nodes = (one for one in query.find_all(exp.Table) if named.get(id(one)) == foreign[0])
        raise ModelError(
            f"a view can't read {foreign[0]}, which is made elsewhere",
            place=at(next(nodes)),
            next_step=f"Leave out `materialized: {declaration.materialized}`",
        )
    return fields


def _checked(
    query: exp.Expr, fields: Sequence[NamedValue], declaration: Declaration
) -> Sequence[NamedValue]:
    """The columns of a query, of which a table can be made."""
    places = _places(query, fields)
    seen: set[str] = set()
    for number, (one, place) in enumerate(zip(fields, places, strict=True)):
        if not one.name:
            raise ModelError(f"column {number + 1} has no name", place=place, next_step="Write AS")
        lowered = one.name.lower()
        if lowered in seen:
            raise ModelError(f"two columns are called {one.name}", place=place)
        if lowered in declaration.partition_by:
            raise ModelError(
                f"column {one.name} is called as a name under `for`, by which the table is "
                "partitioned: the platform adds that column",
                place=place,
                next_step="Leave it out of the SELECT, or give it another name",
            )
        if one.value.type == "void":
            raise ModelError(
                f"column {one.name} is always NULL, and has no type",
                place=place,
                next_step="CAST it",
            )
        seen.add(lowered)
    return fields


def _places(query: exp.Expr, fields: Sequence[NamedValue]) -> list[TextPlace | None]:
    """Where each column stands in a query; where the query does, if a star stands for some."""
    selects = query.selects if isinstance(query, exp.Query) else []
    if len(selects) != len(fields):
        return [at(query)] * len(fields)
    # Of some values the parser keeps no place: then that of its name.
    return [at(one.unalias()) or at(one) for one in selects]


def _partition_columns(
    declaration: Declaration, types: Mapping[str, Typed]
) -> Iterator[NamedValue]:
    for name in declaration.partition_by:
        yield NamedValue(name, types[name])


def _refuse_personal(
    declaration: Declaration,
    query: exp.Expr,
    fields: Sequence[NamedValue],
    catalogue: Catalogue,
    externals: Mapping[str, ExternalTable],
) -> None:
    """A column that the contract hides reaches no model, but where the model says that nobody can
    be told from what it makes of it. So none of the models that it reads has any."""
    names = {one.name.lower() for one in fields}
    for one in declaration.released:
        if one.lower() not in names:
            raise ModelError(
                f"`released`: there is no column {one}{nearest(one, names)}",
                place=declaration.header_place("released"),
                in_header=True,
            )
    origins = {origin for one in fields for origin in one.value.origins}
    tables = sorted({origin.table for origin in origins})
    hidden = hidden_columns(tables, catalogue, externals)
    found = [
        (one.name, origin)
        for one in fields
        if one.name.lower() not in declaration.released
        for origin in sorted(one.value.origins & hidden, key=lambda o: (o.table, o.column))
    ]
    if found:
        # A column that a person knows comes first, where there are several.
        name, origin = min(found, key=lambda one: one[0].startswith("_mirror_"))
        why, step = _why_hidden(catalogue, origin)
        in_header = declaration.python is not None
        own = [one for one in fields if one.name not in declaration.partition_by]
        places = dict(zip((one.name for one in own), _places(query, own), strict=True))
        raise ModelError(
            f"column {name} is made of {origin.column} of {origin.table}, {why}",
            place=declaration.header_place("columns", name) if in_header else places[name],
            in_header=in_header,
            next_step=f"{step} nobody can be told from it, name the column in the header: "
            f"`released: [{name}]`. A table that the model made before keeps the column until then",
        )


def _refuse_unsaid(
    declaration: Declaration,
    given: PythonFields,
    catalogue: Catalogue,
    externals: Mapping[str, ExternalTable],
) -> None:
    """A column that is made of nothing, as the file says, can be made of anything that the function
    is given: nobody looks at the code. Where that is hidden, a person says that it is released."""
    tables = sorted({origin.table for origin in given.taken})
    taken = given.taken & hidden_columns(tables, catalogue, externals)
    for name in sorted(given.of_nothing) if taken else ():
        if name.lower() in declaration.released:
            continue
        origin = min(taken, key=lambda one: (one.table, one.column))
        why, _ = _why_hidden(catalogue, origin)
        raise ModelError(
            f"column {name} is made of nothing, as the file says, and the function is given "
            f"{origin.column} of {origin.table}, {why}",
            place=declaration.header_place("columns", name),
            in_header=True,
            next_step="Leave hidden columns out under `reads`; or write under `made_of` what it is "
            "made of; or, where nobody can be told from it, name the column in the header: "
            f"`released: [{name}]`",
        )


def _why_hidden(catalogue: Catalogue, origin: Origin) -> tuple[str, str]:
    """Why a column is hidden, and how the sentence about what to do begins."""
    table = catalogue.table(origin.table)
    if table is None:
        return "which its file hides", "Where"
    why, step = catalogue.why_hidden(table, origin.column)
    return why, f"{step or 'Read the clean table instead'}; or, where"
