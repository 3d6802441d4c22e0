"""The Java connector that others read binary logs by, as a second reader of a log's file.

It is an oracle where it is right, and runs in a JVM of its own: nothing of it is in the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]

from mirrorlake.runtime.jars import ensure_jars
from tests.support.bare_jvm import bare_gateway

_PACKAGE = "com.github.shyiko.mysql.binlog"
_WRITES = ("WRITE_ROWS", "EXT_WRITE_ROWS")


class JavaFailed(Exception):
    """The connector gave up: in its own words."""


class JavaConnector:
    """The connector, in a JVM."""

    def __init__(self, gateway: Any) -> None:
        self._gateway, self._jvm = gateway, gateway.jvm
        jvm = self._jvm
        [jar] = ensure_jars(["binlog-connector"])
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
        self._loader = jvm.java.net.URLClassLoader(urls)
        self._mapper = self._new_mapper()

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(f"{_PACKAGE}.{name}", True, self._loader)

    def _new_mapper(self) -> Any:
        """Turns rows into JSON: bytes as base64, numbers and sets of bits as what Java prints."""
        jvm, databind = self._jvm, self._jvm.com.fasterxml.jackson.databind
        module = databind.module.SimpleModule()
        printed = databind.ser.std.ToStringSerializer()
        for name in ("java.util.BitSet", "java.math.BigDecimal"):
            module.addSerializer(jvm.java.lang.Class.forName(name), printed)
        mapper = databind.ObjectMapper()
        mapper.registerModule(module)
        return mapper

    def _array(self, of: Any, *members: Any) -> Any:
        array = self._jvm.java.lang.reflect.Array
        found = array.newInstance(of, len(members))
        for number, member in enumerate(members):
            array.set(found, number, member)
        return found

    def _new(self, name: str, *parts: tuple[Any, Any]) -> Any:
        """A new object of one of its classes; of each argument its class, and itself."""
        lang = self._jvm.java.lang
        classes = self._array(lang.Class.forName("java.lang.Class"), *(c for c, _ in parts))
        values = self._array(lang.Class.forName("java.lang.Object"), *(v for _, v in parts))
        return self._class(name).getConstructor(classes).newInstance(values)

    def _reader(self, path: Path) -> Any:
        deserializer = "event.deserialization.EventDeserializer"
        events = self._new(deserializer)
        modes = self._class(f"{deserializer}$CompatibilityMode")
        named = {str(one): one for one in modes.getEnumConstants()}
        micro, octets = "DATE_AND_TIME_AS_LONG_MICRO", "CHAR_AND_BINARY_AS_BYTE_ARRAY"
        events.setCompatibilityMode(named[micro], self._array(modes, named[octets]))
        file = self._jvm.java.io.File(str(path))
        return self._new(
            "BinaryLogFileReader", (file.getClass(), file), (self._class(deserializer), events)
        )

    def inserted(self, path: Path) -> dict[str, list[list[Any]]]:
        """The rows that a file of a log inserts, by table, in its order.

        Raises:
            JavaFailed: it can't read the file to its end.
        """
        names: dict[int, str] = {}
        rows: dict[str, list[list[Any]]] = {}
        reader = self._reader(path)
        try:
            while (event := reader.readEvent()) is not None:
                kind, data = str(event.getHeader().getEventType()), event.getData()
                if kind == "TABLE_MAP":
                    names[data.getTableId()] = data.getTable()
                elif kind in _WRITES:
                    text = self._mapper.writeValueAsString(data.getRows())
                    found = json.loads(text, parse_float=Decimal)
                    rows.setdefault(names[data.getTableId()], []).extend(found)
        except Py4JJavaError as error:
            raise JavaFailed(_words(error.java_exception)) from None
        finally:
            reader.close()
        return rows

    def json_text(self, binary: bytes) -> str:
        """A value of JSON as it is stored, as text.

        Raises:
            JavaFailed: it can't read it.
        """
        lang = self._jvm.java.lang
        parser = self._class("event.deserialization.json.JsonBinary")
        octets = lang.Class.forName("[B")
        takes = self._array(lang.Class.forName("java.lang.Class"), octets)
        given = self._array(lang.Class.forName("java.lang.Object"), binary)
        try:
            return str(parser.getMethod("parseAsString", takes).invoke(None, given))
        except Py4JJavaError as error:
            raise JavaFailed(_words(error.java_exception)) from None


def _words(thrown: Any) -> str:
    """What an exception says, and what it says of its causes."""
    found: list[str] = []
    while thrown is not None:
        found.append(str(thrown))
        thrown = thrown.getCause()
    return "; ".join(found)


@contextmanager
def java_connector(folder: Path) -> Iterator[JavaConnector]:
    """The connector, for a block."""
    with bare_gateway(folder) as gateway:
        yield JavaConnector(gateway)
