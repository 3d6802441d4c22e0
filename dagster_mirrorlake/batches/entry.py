"""What runs in a batch: ``python -m dagster_mirrorlake.batches.entry`` with Pipes' arguments.

It says of each table what became of it, by a message; the lines of its log are the run's.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspark
from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesDefaultMessageWriter,
    PipesGCSMessageWriter,
    PipesMessageWriter,
    open_dagster_pipes,
)

from dagster_mirrorlake.batches.secrets import read_secrets
from dagster_mirrorlake.batches.service import BatchWork
from dagster_mirrorlake.jobs.each import Done, failed, log_line
from dagster_mirrorlake.jobs.loads import BackfillConfig, fill_days, sync_read
from mirrorlake.config import TableContract, load_config
from mirrorlake.errors import MachineError, MirrorlakeError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace


def main() -> int:
    """Do the work of a batch; 0 where each table's outcome was said, whatever it is.

    Raises:
        MirrorlakeError: nothing could be begun.
    """
    loader = PipesCliArgsParamsLoader()
    writer = _writer(loader.load_messages_params())
    with open_dagster_pipes(params_loader=loader, message_writer=writer) as pipes:
        _check_spark()
        os.environ.update(read_secrets(pipes.extras["secrets"]))
        work = BatchWork(**pipes.extras["work"])
        config = load_config(Path(pipes.extras["config"]))
        contracts = [config.table(name) for name in work.tables]
        config.require_secrets(contracts)
        with Workspace.open(config, pipes.run_id) as workspace:
            done = _WORKS[work.task](pipes, workspace, contracts, work)
        for contract in contracts:
            found = done.get(contract.name, Done(contract.name, "nothing to do"))
            pipes.report_custom_message({**asdict(found), "metadata": {}})
    return 0


def _writer(messages: Mapping[str, Any]) -> PipesMessageWriter[Any]:
    if "bucket" not in messages:
        return PipesDefaultMessageWriter()
    from mirrorlake.runtime.google.clients import open_storage

    return PipesGCSMessageWriter(open_storage(messages["project"]), interval=5)


def _check_spark() -> None:
    """See that the Spark of the batch's image is Mirrorlake's: a service may put its own before it.

    Raises:
        MachineError: it is another one.
    """
    wanted = version("pyspark")
    if pyspark.__version__ != wanted:
        raise MachineError(
            f"this batch has Spark {pyspark.__version__}, and Mirrorlake needs its own, {wanted}",
            next_step="Choose a runtime of Dataproc with that Spark",
        )


def _sync(
    pipes: PipesContext,
    workspace: Workspace,
    contracts: Sequence[TableContract],
    _: BatchWork,
) -> dict[str, Done]:
    return sync_read(pipes, workspace, contracts, accept_smaller=False)


def _backfill(
    pipes: PipesContext,
    workspace: Workspace,
    contracts: Sequence[TableContract],
    work: BatchWork,
) -> dict[str, Done]:
    days = BackfillConfig(first=work.first, last=work.last, missing_too=work.missing_too)
    return {one.table: one for one in fill_days(pipes, workspace, contracts, days)}


def _fold(
    pipes: PipesContext,
    workspace: Workspace,
    contracts: Sequence[TableContract],
    _: BatchWork,
) -> dict[str, Done]:
    done: dict[str, Done] = {}
    for contract in contracts:
        try:
            loads = fold_table(workspace, contract)
            done[contract.name] = Done(contract.name, "folded", plural(loads, "load"))
        except MirrorlakeError as error:
            done[contract.name] = failed(contract.name, error)
        log_line(pipes, done[contract.name])
    return done


_Worked = Callable[[PipesContext, Workspace, Sequence[TableContract], BatchWork], dict[str, Done]]
_WORKS: Mapping[str, _Worked] = {"sync": _sync, "backfill": _backfill, "fold": _fold}

if __name__ == "__main__":
    sys.exit(main())
