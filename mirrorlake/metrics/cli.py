"""`metrics`: numbers for Prometheus, printed, written to a file, or served.

What belongs here: options, the file and the server. What doesn't: the numbers
(`mirrorlake.metrics.families`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import MachineError, MirrorlakeError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_HOST = "127.0.0.1"


@click.command(short_help="Give Prometheus what `status` knows of every table.")
@show.config_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a .prom file for node_exporter's textfile collector, whole or not at all.",
)
@click.option(
    "--serve",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve them at http://127.0.0.1:PORT/metrics until interrupted; 0 takes a free port.",
)
def metrics(config_path: Path, output: Path | None, port: int | None) -> None:
    """Print metrics of all tables in Prometheus' text format: state, rows, as of when, what is
    proved, what is not right, and the loads of the last 24 hours. Queries no source.

    What is not known has no series. Served, contract file, ledger and lake are read for each
    request; where one can't be, `mirrorlake_up` is 0, and nothing else is said.
    """
    from mirrorlake.runtime.extras import library

    if output is not None and port is not None:
        raise click.UsageError("--output and --serve exclude each other")
    if output is not None and output.suffix != ".prom":
        raise click.UsageError(f"--output {output}: the collector reads files that end with .prom")
    client = library("prometheus_client", "metrics", "mirrorlake metrics")
    if port is not None:
        _serve(client, config_path, port)
        return
    text: bytes = client.generate_latest(_registry(client, lambda: _families(config_path)))
    if output is None:
        click.echo(text, nl=False)
        return
    from mirrorlake.runtime.cache import write_whole

    write_whole(output, text)


def _families(config_path: Path) -> list[Metric]:
    from mirrorlake.ledger import Ledger
    from mirrorlake.metrics.families import read_families

    config = open_contract(config_path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    return read_families(config, ledger, datetime.now(UTC))


@dataclass(frozen=True)
class _Collector:
    """Metrics as the library takes them: read when it asks for them, by one thread at a time."""

    read: Callable[[], list[Metric]]
    reading: threading.Lock = field(default_factory=threading.Lock)

    def collect(self) -> Iterator[Metric]:
        with self.reading:
            found = self.read()
        yield from found


def _registry(client: Any, read: Callable[[], list[Metric]]) -> Any:
    registry = client.CollectorRegistry()
    registry.register(_Collector(read))
    return registry


def _serve(client: Any, config_path: Path, port: int) -> None:
    open_contract(config_path)  # one that can't be read is no reason to begin
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())

    def read() -> list[Metric]:
        from mirrorlake.metrics.families import down

        try:
            return _families(config_path)
        except MirrorlakeError as error:
            show.errors.print(escape(str(error)), highlight=False, soft_wrap=True)
            return [down()]

    try:
        server, thread = client.start_wsgi_server(port, _HOST, _registry(client, read))
    except OSError as error:
        raise MachineError(
            f"metrics can't be served at {_HOST}:{port}: {error.strerror or error}",
            next_step="Choose another port, or see what uses this one",
        ) from error
    words = f"http://{_HOST}:{server.server_port}/metrics until interrupted"
    show.console.print(words, highlight=False, soft_wrap=True)
    stopped.wait()
    server.shutdown()
    server.server_close()
    thread.join()
