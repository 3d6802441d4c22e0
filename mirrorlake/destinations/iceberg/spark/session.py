"""The one place where a Spark session is made or attached.

The session is lazy: a run that needs no Spark starts no JVM. Spark's catalog is Iceberg's JDBC
catalog over the same database that PyIceberg opens, with its cache off: cached tables hide others'
commits.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import re
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorlake.config.settings import SparkConfig
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.spark.errors import import_pyspark, spark_errors
from mirrorlake.destinations.iceberg.spark.gateway import (
    kept_interrupts,
    start_gateway,
    stop_gateway,
)
from mirrorlake.destinations.iceberg.spark.settings import (
    ANYWHERE,
    LOCAL,
    catalog_settings,
    check_exact,
    cores_of,
    files_settings,
    keep_alive,
    worker_settings,
)
from mirrorlake.destinations.iceberg.storage.cloud_client import in_cloud_storage
from mirrorlake.errors import LakeError
from mirrorlake.runtime.cache import cache_folder
from mirrorlake.runtime.jars import ensure_jars
from mirrorlake.runtime.java import java_environment
from mirrorlake.runtime.permissions import HADOOP_UMASK, UMASKS, Permissions, hadoop_umask, held
from mirrorlake.runtime.replaced_file import FileMark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


class LazySpark:
    """A Spark session that starts on first use; safe to share between threads."""

    def __init__(self, config: SparkConfig, lake: Connection) -> None:
        self._config = config
        self._lake = lake
        self._starting: Future[SparkSession] | None = None
        self._lock = threading.Lock()
        self._own = threading.local()
        self._spare: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
        self._expected: int | None = None
        self._catalogs: dict[int, FileMark | None] = {}

    @property
    def started(self) -> bool:
        return self._there() is not None

    def _there(self) -> SparkSession | None:
        """The session, if it has started."""
        starting = self._starting
        if starting is None or not starting.done() or starting.exception():
            return None
        return starting.result()

    @property
    def permissions(self) -> Permissions:
        """Who may read what is written."""
        return self._lake.config.permissions

    def is_worth_tasks(self) -> bool:
        """Whether chunks are read faster by Spark's tasks than one after the other here: on a
        cluster, and where a local session has more cores than one stream keeps busy."""
        if self._config.connect:
            return True
        cores = cores_of(self._config.master)
        return cores is None or cores > _CORES_OF_ONE_STREAM

    def get(self) -> SparkSession:
        """The session, started or attached on the first call; within `own_session`, the thread's.

        Raises:
            MachineError: PySpark is not installed, there is no usable Java, or a jar can't be
                brought.
        """
        session = self._first()
        if not getattr(self._own, "wanted", False):
            return self._of_now(session)
        if self._own.session is None:
            try:
                self._own.session = self._spare.get_nowait()
            except queue.Empty:
                self._own.session = self._another(session)
        return self._of_now(self._own.session)

    def _of_now(self, session: SparkSession) -> SparkSession:
        """The session; its catalog is opened again where another file has the place of the SQLite
        file that it keeps open. A server's session is its own to look after."""
        now = None if self._config.connect else self._lake.catalog_mark()
        if now is None:
            return session  # opening a file that is gone would make an empty one
        if self._catalogs.setdefault(id(session), now) != now:
            java: Any = session
            java._jsparkSession.sessionState().catalogManager().reset()
            self._catalogs[id(session)] = now
        return session

    def expect(self, rows: int) -> None:
        """Say, before the session starts, about how many rows a run will fold: for little work Java
        compiles quickly, not well. Without it Java does as it does by itself."""
        self._expected = rows

    @contextmanager
    def suited_to(self, rows: int) -> Iterator[SparkSession]:
        """The session as `get` gives it; while the block runs, set for statements over about so
        many rows.

        Spark compiles each statement's plan into classes of its own, which Java then compiles: for
        a thousand rows that takes longer than to interpret the plan. What comes out is the same.

        Raises:
            MachineError: see `get`.
        """
        session = self.get()
        settings = _INTERPRETED if rows <= INTERPRETED_ROWS else {}
        for name, value in settings.items():
            session.conf.set(name, value)
        try:
            yield session
        finally:
            for name in settings:
                session.conf.unset(name)

    def start_early(self) -> None:
        """Start the session beside what this thread does next. An error is for who needs it."""
        with self._lock:
            self._begin()

    def _first(self) -> SparkSession:
        """The session that all threads share."""
        with self._lock:
            starting = self._begin()
        # In a thread of its own: Ctrl-C while a JVM starts leaves nothing half started.
        return starting.result()

    def _begin(self) -> Future[SparkSession]:
        """The session that is there or starts now; one that could not start is tried again."""
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = Future()
            start = threading.Thread(target=self._make, args=(self._starting,), daemon=True)
            start.start()
        return self._starting

    def _make(self, made: Future[SparkSession]) -> None:
        try:
            import_pyspark()
            session = self._attach() if self._config.connect else self._start()
            if self._config.connect or cores_of(self._config.master) is None:
                _ship(session)
        except BaseException as error:  # noqa: BLE001 - raised where the session is used
            made.set_exception(error)
        else:
            made.set_result(session)

    @contextmanager
    def own_session(self) -> Iterator[None]:
        """While the block runs, this thread has a session of its own in the same JVM: settings and
        temporary views are a session's, and two folds set the same ones."""
        self.separate()
        try:
            yield
        finally:
            self.rejoin()

    def separate(self) -> None:
        """Give this thread a session of its own, until it gives it back by `rejoin`."""
        if not getattr(self._own, "wanted", False):
            self._own.wanted, self._own.session = True, None

    def rejoin(self) -> None:
        """Let this thread share the first session again; its own one serves another thread."""
        if getattr(self._own, "session", None) is not None:
            self._spare.put(self._own.session)
        self._own.wanted, self._own.session = False, None

    def cancel(self) -> None:
        """End what the session is doing for other threads, if it was started."""
        session = self._there()
        if session is None:
            return
        if self._config.connect:
            session.interruptAll()
        else:
            session.sparkContext.cancelAllJobs()

    def run(self, statement: str) -> None:
        """Run a statement that answers nothing.

        Raises:
            LakeError: Spark failed.
        """
        with spark_errors(statement.split("`")[-2] if "`" in statement else "of the lake"):
            self.get().sql(statement)

    def application_id(self) -> str:
        """Spark's own id of the application, by which its UI and its logs know it; '' where it
        gives none."""
        return self.get().conf.get("spark.app.id", "") or ""

    def stop(self, seconds: float = 30) -> None:
        """Stop the session and its JVM, if one was started; wait so long for the JVM's end."""
        with self._lock:
            if self._starting is None:
                return
            wait([self._starting])
            session, self._starting = self._there(), None
            if session is None:
                return
            self._drop_spare()
            session.stop()
            if not self._config.connect:
                stop_gateway(seconds)

    def _drop_spare(self) -> None:
        while not self._spare.empty():
            spare = self._spare.get()
            if self._config.connect:
                spare.stop()

    def _attach(self) -> SparkSession:
        from pyspark.sql import SparkSession

        keep_alive()
        session = SparkSession.builder.remote(str(self._config.connect)).getOrCreate()
        # The server's own defaults may be others, and would change values silently.
        for name, value in ANYWHERE.items():
            session.conf.set(name, value)
        server = f"the Spark Connect server {_shown(str(self._config.connect))}"
        session = _checked(session, server)
        self._warn_of_open_files(session, server)
        return session

    def _another(self, session: SparkSession) -> SparkSession:
        """A session beside the first one, set alike."""
        if not self._config.connect:
            other = session.newSession()
            check_exact(other, "Spark")
            return other
        from pyspark.sql import SparkSession

        other = SparkSession.builder.remote(str(self._config.connect)).create()
        for name, value in ANYWHERE.items():
            other.conf.set(name, value)
        other = _checked(other, f"the Spark Connect server {_shown(str(self._config.connect))}")
        _ship(other)
        return other

    def _warn_of_open_files(self, session: SparkSession, server: str) -> None:
        """The modes of files that a server writes are its own settings'."""
        if not self._lake.warehouse.startswith("file://"):
            return
        with spark_errors("of the lake"):
            found = session.conf.get(HADOOP_UMASK, None) or "022"  # Hadoop's own
        wanted = hadoop_umask(self.permissions)
        if not re.fullmatch(r"0*[0-7]{1,3}", found) or UMASKS[self.permissions] & ~int(found, 8):
            logger.warning(
                "%s writes files that are open wider than lake.permissions: %s: start it with "
                "--conf %s=%s and umask %s, see docs/deploy.md",
                *(server, self.permissions, HADOOP_UMASK, wanted, wanted),
            )

    def _start(self) -> SparkSession:
        few = self._expected is not None and self._expected <= _QUICKLY_COMPILED_ROWS
        os.environ.update(java_environment(quick=few))
        cloud = in_cloud_storage(self._lake.warehouse) or self._lake.config.catalog.auth == "google"
        jars = ensure_jars(["spark", "gcs"] if cloud else ["spark"])
        from pyspark.sql import SparkSession

        # A session's own builder keeps settings of an earlier one in this process: start clean.
        builder = SparkSession.Builder().master(self._config.master).appName("mirrorlake")
        settings = {
            **LOCAL,
            **files_settings(self._config.master),
            **worker_settings(self._config.master),
            "spark.driver.memory": self._config.driver_memory,
            "spark.jars": ",".join(str(jar) for jar in jars),
            **catalog_settings(self._lake),
            **self._config.conf,
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        _refuse_another_lake(self._lake)
        # The JVM and its Python workers keep the umask that they are started with.
        with kept_interrupts(), held(self.permissions):
            start_gateway({**settings, "spark.master": self._config.master})
            session = builder.getOrCreate()
        return _checked(session, "Spark")


def _refuse_another_lake(lake: Connection) -> None:
    """A process has one Spark session, whose catalog belongs to the first lake that was opened: a
    second lake would be read and written through it.

    Raises:
        LakeError: the session that is there is of another lake, or of other permissions.
    """
    from pyspark.sql import SparkSession

    # What `getOrCreate` would give, in whichever thread.
    there = SparkSession._instantiatedSession  # pyright: ignore[reportPrivateUsage]
    if there is None or there._sc._jsc is None:  # pyright: ignore[reportPrivateUsage]
        return
    with spark_errors("of the lake"):
        other = [
            name
            for name, value in catalog_settings(lake).items()
            if there.conf.get(name, None) not in (None, value)
        ]
    if other:
        raise LakeError(
            f"this process's Spark session is another lake's ({', '.join(other)} differ)",
            next_step="Close the other engine first, or use a process for each lake",
        )


def _checked(session: SparkSession, server: str) -> SparkSession:
    try:
        check_exact(session, server)
    except BaseException:
        session.stop()
        raise
    return session


def _shown(connect: str) -> str:
    """A Spark Connect URL without its parameters, which may hold a token."""
    return connect.partition("/;")[0]


INTERPRETED_ROWS = 20_000
"""Up to this many rows a statement's plan is interpreted. Of 100 tables of 1,000 rows, each folded
once, Spark's classes and Java's compiling of them took half of the CPU time."""
_QUICKLY_COMPILED_ROWS = 2_000_000
"""Up to this many rows in all its tables a run does without Java's optimising compiler, which takes
11 s of CPU time in a run that ends soon; it pays for itself from two to three million rows on (a
first copy and fold of a million: 28 s of CPU time without it, 36 with it)."""

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# The server sends, the reader's own thread decodes, and we convert and write.
_CORES_OF_ONE_STREAM = 2


def _ship(session: Any) -> None:
    """Give the engine's own code to workers that may not have it; its dependencies they must have.

    Source: PySpark manual, "Python Package Management".
    """
    import mirrorlake

    package = Path(mirrorlake.__file__).parent
    paths = sorted(p for p in package.rglob("*") if p.suffix in (".py", ".json"))
    content = [(str(p.relative_to(package.parent)), p.read_bytes()) for p in paths]
    name = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    # Workers fetch it whenever they start: it stays as long as the session may live.
    archive = cache_folder("shipped") / f"mirrorlake-{name}.zip"
    if not archive.exists():
        with (
            tempfile.NamedTemporaryFile(dir=archive.parent, delete=False) as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out,
        ):
            for path, text in content:
                out.writestr(path, text)
        Path(stream.name).replace(archive)
    session.addArtifacts(str(archive), pyfile=True)
