"""Shared libraries that export names and do nothing, in place of what a bare machine may lack.

The MySQL 8 of the tests is linked against libaio and libnuma. It is started with both unused
(``--innodb-use-native-aio=0``; libnuma says that there is no NUMA), so the dynamic linker must find
the names, with their versions, and nothing behind them is ever needed. A machine without root can't
install the real ones, and one without a compiler can't build stand-ins: they are written here, byte
by byte, 4 kB each. Every function returns -1.

Source: System V ABI, chapter 4 "Object Files" and 5 "Dynamic Linking"; Linux Standard Base, 10.7
"Symbol Versioning".
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

_RETURN_MINUS_ONE = bytes.fromhex("b8ffffffffc3") + bytes(2)  # mov eax, -1; ret
_HEADER, _SEGMENT, _SEGMENTS = 64, 56, 4
_WRITABLE_AT = 0x1000
_ENTRY = 16  # bytes of one entry of the dynamic section
_SONAME, _SYMTAB, _HASH, _STRTAB, _STRSZ, _SYMENT = 14, 6, 4, 5, 10, 11
_VERSYM, _VERDEF, _VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ_RUN, _READ_WRITE = 5, 6


def stub_library(
    name: str, symbols: Mapping[str, str], variables: Collection[str] = frozenset()
) -> bytes:
    """A shared library for Linux on x86-64.

    Args:
        name: its soname.
        symbols: what it exports, each with its version.
        variables: which of them are eight zero bytes rather than functions.
    """
    versions = [name, *dict.fromkeys(symbols.values())]
    strings, at = _strings([*versions, *symbols])
    code_at = _HEADER + _SEGMENTS * _SEGMENT
    variable_at = _WRITABLE_AT + 10 * _ENTRY
    count = len(symbols) + 1
    entries = bytes(24)
    for symbol in symbols:
        variable = symbol in variables
        kind, section, start = (0x11, 2, variable_at) if variable else (0x12, 1, code_at)
        entries += struct.pack("<IBBHQQ", at[symbol], kind, 0, section, start, 8)
    parts = {
        _SYMTAB: entries,
        # One bucket: a chain through all symbols.
        _HASH: struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0),
        _STRTAB: strings,
        _VERSYM: struct.pack(f"<{count}H", 0, *(versions.index(v) + 1 for v in symbols.values())),
        _VERDEF: _version_definitions(versions, at),
    }
    body, places = _RETURN_MINUS_ONE, {}
    for tag, part in parts.items():
        body += bytes(-len(body) % 8)
        places[tag] = code_at + len(body)
        body += part
    entries_of_dynamic = (
        (_SONAME, at[name]),
        *places.items(),
        (_STRSZ, len(strings)),
        (_SYMENT, 24),
        (_VERDEFNUM, len(versions)),
        (0, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries_of_dynamic)
    head = _head(code_at + len(body), len(dynamic))
    return (head + body).ljust(_WRITABLE_AT, b"\0") + dynamic + bytes(8)


def _strings(texts: list[str]) -> tuple[bytes, dict[str, int]]:
    """The string table, and where each text begins in it."""
    table, at = b"\0", dict[str, int]()
    for text in texts:
        at[text] = len(table)
        table += text.encode() + b"\0"
    return table, at


def _version_definitions(versions: list[str], at: Mapping[str, int]) -> bytes:
    """One definition each, the first for the library itself."""
    found = b""
    for number, version in enumerate(versions, 1):
        following = 28 if number < len(versions) else 0
        base = 1 if number == 1 else 0
        found += struct.pack("<HHHHIII", 1, base, number, 1, _hash(version), 20, following)
        found += struct.pack("<II", at[version], 0)
    return found


def _hash(text: str) -> int:
    """The hash of a name in ELF (System V ABI, 5.22)."""
    value = 0
    for byte in text.encode():
        value = (value << 4) + byte
        value = (value ^ ((value & 0xF0000000) >> 24)) & 0x0FFFFFFF
    return value


def _head(readable: int, dynamic: int) -> bytes:
    """The file's header and its segments: code and tables, writable part, dynamic section, and a
    stack that is not executable."""
    identity = b"\x7fELF\2\1\1" + bytes(9)
    sizes = (_HEADER, _SEGMENT, _SEGMENTS, 64, 0, 0)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, _HEADER, 0, 0, *sizes)
    segments = (
        (_LOAD, _READ_RUN, 0, readable, 0x1000),
        (_LOAD, _READ_WRITE, _WRITABLE_AT, dynamic + 8, 0x1000),
        (_DYNAMIC, _READ_WRITE, _WRITABLE_AT, dynamic, 8),
        (_STACK, _READ_WRITE, 0, 0, 16),
    )
    return (
        identity
        + header
        + b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)
            for kind, flags, start, size, align in segments
        )
    )
