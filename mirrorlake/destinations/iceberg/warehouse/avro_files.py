"""Avro files, read and written as their own schema says: nothing that a newer Iceberg adds is lost.

PyIceberg's readers and writers know the fields of one version of the specification. A manifest
whose paths change keeps every other field, the header and the codec.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Object Container Files".
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.avro.codecs import KNOWN_CODECS

_MAGIC = b"Obj\x01"
_SYNC = 16
_FIXED_SIZES = {"float": 4, "double": 8, "boolean": 1, "null": 0}

Schema = Any
"""A schema as its JSON has it."""


@dataclass(frozen=True)
class AvroFile:
    """A file's content.

    Attributes:
        header: its metadata: the schema, the codec, and what Iceberg adds.
        records: a dictionary each. Of a union a pair: which branch, and its value; numbers with a
            fraction are their bytes.
    """

    header: dict[str, bytes]
    sync: bytes
    records: list[dict[str, Any]]

    @property
    def schema(self) -> Schema:
        return json.loads(self.header["avro.schema"])

    @property
    def codec(self) -> str:
        return self.header.get("avro.codec", b"null").decode()


def read_avro(content: bytes) -> AvroFile:
    """Read a file.

    Raises:
        ValueError: it is cut, or no Avro file.
    """
    if content[:4] != _MAGIC:
        raise ValueError("no Avro file")
    source = _Source(content, 4)
    header: dict[str, bytes] = {}
    for count in _blocks(source):
        for _ in range(count):
            key = source.bytes().decode()
            header[key] = source.bytes()
    sync = source.take(_SYNC)
    found = AvroFile(header, sync, [])
    read = _coder(found.schema, {}).read
    while not source.ended:
        count, size = source.long(), source.long()
        block = _Source(_decompress(found.codec, source.take(size)))
        found.records.extend(read(block) for _ in range(count))
        if source.take(_SYNC) != sync:
            raise ValueError("a block does not end where it says")
    return found


def write_avro(file: AvroFile) -> bytes:
    """A file of this content, in one block."""
    out = bytearray(_MAGIC)
    _write_long(out, len(file.header))
    for key, value in file.header.items():
        _write_bytes(out, key.encode())
        _write_bytes(out, value)
    out.append(0)
    out += file.sync
    if file.records:
        block = bytearray()
        write = _coder(file.schema, {}).write
        for record in file.records:
            write(block, record)
        packed = _compress(file.codec, bytes(block))
        _write_long(out, len(file.records))
        _write_long(out, len(packed))
        out += packed + file.sync
    return bytes(out)


class _Source:
    """Bytes that are read from the front."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self._content = content
        self._at = at

    @property
    def ended(self) -> bool:
        return self._at >= len(self._content)

    def take(self, size: int) -> bytes:
        found = self._content[self._at : self._at + size]
        if size < 0 or len(found) != size:
            raise ValueError("the file is cut")
        self._at += size
        return found

    def long(self) -> int:
        shift = value = 0
        content, at = self._content, self._at
        while True:
            if at >= len(content):
                raise ValueError("the file is cut")
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        self._at = at
        return (value >> 1) ^ -(value & 1)

    def bytes(self) -> bytes:
        return self.take(self.long())


def _blocks(source: _Source) -> Iterator[int]:
    """The counts of the blocks of a map or an array, each before its items."""
    while count := source.long():
        if count < 0:
            source.long()  # its size, for who skips it
        yield abs(count)


@dataclass(frozen=True)
class _Coder:
    """How values of a type are read and written."""

    read: Callable[[_Source], Any]
    write: Callable[[bytearray, Any], None]


def _coder(schema: Schema, names: dict[str, _Coder]) -> _Coder:
    """Of a schema; ``names`` are the types that were named before it."""
    if isinstance(schema, list):
        return _union(schema, names)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _coder(kind, names)
    if kind in _MADE:
        return _MADE[kind](schema, names)
    if kind == "fixed":
        return _named(schema, names, _bytes_of(int(schema["size"])))
    if kind in _PLAIN:
        return _named(schema, names, _PLAIN[kind])
    return names[kind]


def _union(schema: Schema, names: dict[str, _Coder]) -> _Coder:
    branches = [_coder(one, names) for one in schema]

    def read(source: _Source) -> tuple[int, Any]:
        index = source.long()
        return index, branches[index].read(source)

    def write(out: bytearray, value: tuple[int, Any]) -> None:
        _write_long(out, value[0])
        branches[value[0]].write(out, value[1])

    return _Coder(read, write)


def _array(schema: Schema, names: dict[str, _Coder]) -> _Coder:
    item = _coder(schema["items"], names)
    return _Coder(
        lambda source: [item.read(source) for n in _blocks(source) for _ in range(n)],
        lambda out, values: _write_blocks(out, values, item.write),
    )


def _map(schema: Schema, names: dict[str, _Coder]) -> _Coder:
    value = _coder(schema["values"], names)

    def read(source: _Source) -> list[tuple[str, Any]]:
        return [
            (source.bytes().decode(), value.read(source)) for n in _blocks(source) for _ in range(n)
        ]

    def write(out: bytearray, pair: tuple[str, Any]) -> None:
        _write_bytes(out, pair[0].encode())
        value.write(out, pair[1])

    return _Coder(read, lambda out, values: _write_blocks(out, values, write))


def _record(schema: Schema, names: dict[str, _Coder]) -> _Coder:
    fields: list[tuple[str, _Coder]] = []

    def write(out: bytearray, value: dict[str, Any]) -> None:
        for name, coder in fields:
            coder.write(out, value[name])

    made = _Coder(lambda source: {name: coder.read(source) for name, coder in fields}, write)
    _named(schema, names, made)  # before its fields, which may be of the same type
    fields += [(field["name"], _coder(field["type"], names)) for field in schema["fields"]]
    return made


def _named(schema: Schema, names: dict[str, _Coder], made: _Coder) -> _Coder:
    """Let later mentions of a type find it by its name."""
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = made
        if space := schema.get("namespace"):
            names[f"{space}.{schema['name']}"] = made
    return made


def _bytes_of(size: int) -> _Coder:
    return _Coder(lambda source: source.take(size), bytearray.extend)


def _write_long(out: bytearray, value: int) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def _write_bytes(out: bytearray, value: bytes) -> None:
    _write_long(out, len(value))
    out += value


def _write_blocks(
    out: bytearray, values: list[Any], write: Callable[[bytearray, Any], None]
) -> None:
    if values:
        _write_long(out, len(values))
        for value in values:
            write(out, value)
    out.append(0)


_LONG = _Coder(_Source.long, _write_long)
_PLAIN = {
    **dict.fromkeys(("int", "long", "enum"), _LONG),
    "bytes": _Coder(_Source.bytes, _write_bytes),
    "string": _Coder(
        lambda source: source.bytes().decode(), lambda out, text: _write_bytes(out, text.encode())
    ),
    **{name: _bytes_of(size) for name, size in _FIXED_SIZES.items()},
}
_MADE = {"array": _array, "map": _map, "record": _record}


_CODECS: Mapping[Any, Any] = KNOWN_CODECS


def _decompress(codec: str, content: bytes) -> bytes:
    if codec == "deflate":
        # Without the check sum that some writers leave behind it.
        return zlib.decompressobj(-15).decompress(content)
    if codec not in _CODECS:
        raise ValueError(f"its codec {codec} is not known")
    known = _CODECS[codec]
    return content if known is None else known.decompress(content)


def _compress(codec: str, content: bytes) -> bytes:
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(content) + packer.flush()
    known = _CODECS[codec]
    return content if known is None else known.compress(content)[0]
