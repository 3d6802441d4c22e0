"""What a stream view reads in place of the tables that its query names.

What belongs here: its text, over the views that add loads. What doesn't: which these are
(`mirrorlake.models.partition_states.lost_views`), and these views themselves
(`mirrorlake.serving.streamed`).
"""

from __future__ import annotations

from mirrorlake.config.contract import TableContract
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.table_mentions import written_instead
from mirrorlake.models.partition_states.lost_views import streamed_tables
from mirrorlake.models.scope_values.query_text import bound_sql
from mirrorlake.operations.loading.resolve import refuse_unloaded, resolve_table
from mirrorlake.serving.catalogue import Catalogue, MirroredTable
from mirrorlake.serving.streamed import make_streamed, refuse_unfolded
from mirrorlake.serving.views import look_at_view
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.streamed import streamed_of
from mirrorlake.workspace import Workspace


def stream_sql(workspace: Workspace, catalogue: Catalogue, model: Model) -> str:
    """The text of a stream view: its query, over the views of current rows of its tables. What is
    not there of these is made, which takes a look at the table's server.

    Raises:
        MirrorlakeError: one can't be made: see
            `mirrorlake.operations.loading.resolve.resolve_table` and
            `mirrorlake.serving.streamed.make_streamed`.
        LeaseHeld: another run works on a table.
    """
    instead: dict[str, str] = {}
    for name, table in streamed_tables(catalogue, model).items():
        view = streamed_of(table.identifier)
        if look_at_view(workspace.lake, view) is None:
            _make(workspace, table)
        instead[name] = view.sql
    written = written_instead(model.query, model.bound.trace.tables, instead)
    return bound_sql(model.declaration.sql, model.bound, {}, instead=written)


def _make(workspace: Workspace, table: MirroredTable) -> None:
    contract = table.contract
    assert isinstance(contract, TableContract)  # noqa: S101
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
        with workspace.leased(contract) as leased:
            refuse_unloaded(leased, plan)
            refuse_unfolded(leased, plan)
            layer = plan.deduped if table.layer == "deduped" else plan.clean
            make_streamed(leased, plan, layer)
