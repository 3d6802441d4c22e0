"""The contract file of a code location, and what Dagster loads of it.

``MIRRORLAKE_CONFIG`` names the file; without it, ``mirrorlake.yaml`` in the working folder or in a
folder that the caller names. When the location loads, that file is read, and the ledger is queried
once for the first day of each table. ``MIRRORLAKE_SENSORS=on`` has sensors and schedules on from
the start; else a person turns them on.
"""

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

# The two names that are not public. What a location raises is shown with the stack of every frame
# of the server and of ours, but for this one error, which is shown as the text that it carries: the
# reader of a contract file needs its line, not ours. Nothing public does that in 1.13.27.
from dagster._core.errors import DagsterUserCodeProcessError
from dagster_shared.error import SerializableErrorInfo

from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.resources.contracts import read_config
from mirrorlake.config import Config
from mirrorlake.errors import ConfigError

logger = logging.getLogger("mirrorlake.location")


def config_path(beside: Path | None = None) -> Path:
    """Where the contract file is, or would be: see this module's words."""
    if named := os.environ.get("MIRRORLAKE_CONFIG"):
        return Path(named).absolute()
    here = Path.cwd() / "mirrorlake.yaml"
    if here.exists() or beside is None:
        return here
    return beside.absolute() / "mirrorlake.yaml"


def sensors_run() -> bool:
    """Whether sensors and schedules are on until someone turns them off."""
    return os.environ.get("MIRRORLAKE_SENSORS") == "on"


def find_config(path: Path) -> Config | None:
    """What the file at ``path`` says; None if it isn't there, which is said in the log.

    Raises:
        DagsterUserCodeProcessError: the file says something that can't be kept. The location then
            shows that message alone.
    """
    if not path.exists():
        logger.warning(
            "There is no contract file %s: the location is empty. Write one with "
            "`mirrorlake init`, or name yours in MIRRORLAKE_CONFIG, and reload",
            path,
        )
        return None
    try:
        return read_config(str(path))
    except ConfigError as error:
        raise _without_trace(error) from None


def load_definitions(path: str | os.PathLike[str]) -> dg.Definitions:
    """Everything of the file at ``path``; nothing if it isn't there.

    Raises:
        DagsterUserCodeProcessError: as `find_config`.
    """
    with few_collections():
        config = find_config(Path(path))
        if config is None:
            return dg.Definitions()
        return build_definitions(config, running=sensors_run())


@contextmanager
def few_collections() -> Iterator[None]:
    """Python looks for garbage less often from here on, and never among what the block made.

    A location's process makes a million objects that live as long as it does: looking through them
    again and again took a third of the time in which Dagster loads it. Not for a process that is
    other people's: `mirrorlake.config` and `build_definitions` leave it alone.
    """
    gc.set_threshold(100_000, 20, 20)
    yield
    gc.freeze()


def _without_trace(error: ConfigError) -> DagsterUserCodeProcessError:
    """The error as Dagster shows it without a stack: the message is all there is to know."""
    info = SerializableErrorInfo(f"{error}\n", [], "ConfigError")
    return DagsterUserCodeProcessError(str(error), user_code_process_error_infos=[info])
