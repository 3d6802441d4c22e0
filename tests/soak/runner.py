"""A process that forks one child per order, to be killed: imports and the JVM are paid for once.

Reads one JSON object a line from standard input (`runs.Order`), answers ``{"number", "pid"}`` when the
child was forked and ``{"number", "code"}`` when it has ended: 0, an error's exit code,
`UNEXPECTED` for an exception that is none of ours, negative for a signal. Children may run beside
each other. Each has a session of its own in the shared JVM, as two clients of a Spark Connect
server have; what a killed one asked the JVM to do goes on without it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorlake.cli.main import cli
from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger.lake import leases
from mirrorlake.load.protocol import protocol, verify
from mirrorlake.operations.following.follower import FollowTerms, follow_source
from mirrorlake.operations.following.tenant_rounds import TenantRounds
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.tenants.results import SyncTerms
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.proof.comparing import load_proof
from mirrorlake.workspace import Workspace
from tests.support.unflushed import MARK, write_unflushed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNEXPECTED = 70
_kept: list[Any] = []


class SharedSpark(LazySpark):
    """A session in a JVM that another process started, and ends."""

    def __init__(self, config: Config, port: int, secret: str) -> None:
        super().__init__(config.spark, Lake(config.lake))
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret

    def _start(self) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        SparkContext._ensure_initialized()
        java: Any = SparkContext._jvm
        there = java.org.apache.spark.SparkContext.getOrCreate()
        conf = SparkConf(_jconf=there.getConf())
        return SparkSession(SparkContext(jsc=java.JavaSparkContext(there), conf=conf))

    def stop(self, seconds: float = 30) -> None:
        """The JVM is the other's."""


def act(order: dict[str, Any], spark: LazySpark | None) -> None:
    """What a child does."""
    _set(order)
    if spark is not None and spark.started:
        _take_own_session(spark)
    if order["act"] == "command":
        if spark is not None and order["spark"]:
            _lend(spark)
        cli([*order["arguments"], "--config", order["config"]], standalone_mode=False)
        return
    config = load_config(Path(order["config"]))
    workspace = Workspace.open(config, spark=spark)
    if order["act"] == "follow":
        _follow(workspace, order)
        return
    if order["act"] == "tenants":
        terms = SyncTerms(accept_smaller=order["accept_smaller"])
        sync_tenants(workspace, config.tenant_table(order["table"]), terms)
        return
    if order["act"] == "recover":
        recover_table(workspace, config.mirrored_table(order["table"]), timedelta())
        return
    _act_on(workspace, config.table(order["table"]), order)


def _follow(workspace: Workspace, order: dict[str, Any]) -> None:
    """Follow a source for a minute. Once its tables of tenants are followed, that is told, and the
    failpoint is set: their first sync passes it by."""
    joined = TenantRounds.note_joined

    def told(rounds: TenantRounds, live: Any, **terms: bool) -> None:
        joined(rounds, live, **terms)
        os.environ["MIRRORLAKE_FAILPOINT"] = order["failpoint"]
        Path(f"{order['answer']}.joined").touch()

    TenantRounds.note_joined = told
    terms = FollowTerms(until=time.monotonic() + 60)
    parts = (threading.Event(), lambda _: None, print, terms)
    follow_source(workspace, order["table"], *parts)


def _act_on(workspace: Workspace, contract: TableContract, order: dict[str, Any]) -> None:
    match order["act"]:
        case "sync":
            # As the command does: what the server shows to be unchanged is not read.
            looked = not order["accept_smaller"]
            look = look_at(workspace.config, workspace.ledger, [contract]) if looked else None
            sync_table(workspace, contract, accept_smaller=order["accept_smaller"], look=look)
        case "load":
            load_table(workspace, contract)
        case "fold":
            fold_table(workspace, contract)
        case "reload":
            first, last = (date.fromisoformat(day) for day in order["days"])
            reload_days(workspace, contract, first, last)
            if order["spark"]:
                fold_table(workspace, contract)
        case "refold":
            refold_table(workspace, contract)
        case other:
            raise ValueError(other)


def _set(order: dict[str, Any]) -> None:
    """What this child alone has otherwise."""
    if order["failpoint"] and order["act"] != "follow":
        os.environ["MIRRORLAKE_FAILPOINT"] = order["failpoint"]
    if order["failpoint"].startswith("branch."):
        # A load that is seen to be equal without Spark needs no branch.
        load_proof.LOCAL_ROWS = 0
        verify._has_files = lambda *_: False
    if order["lease_seconds"]:
        leases.LEASE_TIME = timedelta(seconds=order["lease_seconds"])
    if order["rows_per_chunk"]:
        protocol.ROWS_PER_CHUNK = order["rows_per_chunk"]
        protocol.CHUNK_ROWS = order["rows_per_chunk"]


def _take_own_session(spark: LazySpark) -> None:
    """The parent's connection to the JVM is one socket, whose answers only one may read."""
    from pyspark import SparkContext

    client: Any = SparkContext._gateway._gateway_client  # type: ignore[union-attr]
    # Closing them here would end them for the parent too.
    _kept.extend([list(client.deque), client.thread_connection, spark.get()])
    client.deque.clear()
    client.thread_connection = threading.local()
    own = spark.get().newSession()
    spark._starting = Future()
    spark._starting.set_result(own)


def _lend(spark: LazySpark) -> None:
    """Have a command use the session, and not stop it."""
    first: Any = Workspace.open
    opened: Any = lambda config, run_id=None, own=None: first(config, run_id, own or spark)  # noqa: E731
    Workspace.open = opened


def child(order: dict[str, Any], spark: LazySpark | None) -> int:
    """Run an order; its exit code. Where it is stuck, SIGUSR1 has it print what each thread does."""
    faulthandler.register(signal.SIGUSR1)
    try:
        act(order, spark)
    except MirrorlakeError as error:
        Path(order["answer"]).write_text(f"{type(error).__name__}: {error}", "utf-8")
        return error.exit_code
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run in the child
        Path(order["answer"]).write_text(traceback.format_exc(), "utf-8")
        traceback.print_exc()
        return UNEXPECTED
    return 0


def tell(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    if MARK in os.environ:
        write_unflushed()
    spark: LazySpark | None = None
    running: dict[int, int] = {}
    for order in orders(running):
        if order["spark"] and spark is None:
            config = load_config(Path(order["config"]))
            if there := order.get("gateway"):
                spark = SharedSpark(config, *there)
            else:
                spark = LazySpark(config.spark, Lake(config.lake))
            spark.get()
        if order["act"] == "warm":
            tell(number=order["number"], pid=os.getpid())
            tell(number=order["number"], code=0)
            continue
        pid = os.fork()
        if pid == 0:
            os._exit(child(order, spark))
        running[pid] = order["number"]
        tell(number=order["number"], pid=pid)
    if spark is not None:
        spark.stop()


def orders(running: dict[int, int]) -> Iterator[dict[str, Any]]:
    """The orders as they come, until standard input ends; children that end meanwhile are told."""
    waiting = b""
    while True:
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                tell(number=running.pop(pid), code=os.waitstatus_to_exitcode(status))
        line, found, rest = waiting.partition(b"\n")
        if found:
            waiting = rest
            yield json.loads(line)
            continue
        ready, _, _ = select.select([0], [], [], 0.02 if running else None)
        if ready:
            read = os.read(0, 65_536)
            if not read:
                return
            waiting += read


if __name__ == "__main__":
    sys.exit(main())
