"""Reads what this process has recorded, line by line, without a collector."""

import struct

from syscollect import _native

# Numbers of items and entries, as usdt-client/protocol has them.
ZONE_END = 0xC0
BEGIN, TEXT, VALUE, COLOR, MESSAGE, PLOT, FRAME, ASYNC_BEGIN = 1, 4, 5, 6, 7, 8, 9, 0x0A
LOOP = 0x20
ROLES = {1: "text", 2: "zone name", 3: "said", 4: "name", 6: "async text"}
KINDS = {
    0x16: "attached",
    0x0B: "async end",
    0x17: "ends",
    0x13: "lost",
    0x14: "open",
    0x18: "async open",
    0x1E: "image",
    0x1F: "blocks",
}
SIGNED, FLOAT = 2, 3
STRING = 1
U32 = 0xFFFF_FFFF


def _entry(log, number):
    """The texts of an entry of the log."""
    if number == 0:
        return ("-",)
    at = (number - 1) * 8
    size = int.from_bytes(log[at : at + 4], "little")
    kind = int.from_bytes(log[at + 4 : at + 8], "little")
    entry = log[at : at + size]
    if kind == STRING:
        return (entry[8:].rstrip(b"\0").decode(),)
    texts, position = [], 16
    while position + 2 <= size and len(texts) < 3:
        length = int.from_bytes(entry[position : position + 2], "little")
        texts.append(entry[position + 2 : position + 2 + length].decode())
        position += 2 + length
    line = int.from_bytes(entry[8:12], "little")
    return (*texts, line)


def scenario():
    """What each thread has written since the last call: lists of lines by the thread's number."""
    rings, log = _native.take()
    log = bytes(log)
    told = {}
    for thread, items in rings:
        told.setdefault(thread, []).extend(_lines(items, log))
    return told


def lines():
    """The same of all threads, without what is stated of threads."""
    stated = ("attached", "name ", "ends")
    all_lines = [line for lines in scenario().values() for line in lines]
    return [line for line in all_lines if not line.startswith(stated)]


def places():
    """The places of zones that are in the log: name, function, file, line."""
    rings, log = _native.take()
    log = bytes(log)
    numbers = {item[1] & U32 for _, items in rings for item in items if item[0] & 0xFF == BEGIN}
    return {_entry(log, number) for number in numbers}


def _lines(items, log):
    text = b""
    for item in items:
        first = item[0]
        second = item[1] if len(item) > 1 else 0
        kind = first & 0xFF
        if kind >= ZONE_END:
            yield f"end {kind & 0x3F}"
        elif kind == TEXT:
            words = b"".join(word.to_bytes(8, "little") for word in item[1:])
            text += words[: first >> 16 & 0xFF]
            if first >> 24 & 0xFF == 0:
                yield f"{ROLES.get(first >> 8 & 0xFF, 'text')} {text.decode()}"
                text = b""
        elif kind == BEGIN:
            yield f"begin {_entry(log, second & U32)[0]} at {second >> 32}"
        elif kind == ASYNC_BEGIN:
            yield f"async {_entry(log, second & U32)[0]}"
        elif kind == MESSAGE:
            yield f"message {second >> 32:06x}"
        elif kind == PLOT:
            yield f"plot {_entry(log, second & U32)[0]} {_value(second >> 32, item[2])}"
        elif kind == FRAME:
            yield f"frame {_entry(log, second & U32)[0]}"
        elif kind == LOOP:
            yield "turns" if second else "waits"
        elif kind == VALUE:
            yield f"value {_field(log, first >> 32)}{_value(first >> 8 & 0xFF, second)}"
        elif kind == COLOR:
            yield f"color {first >> 8:06x}"
        else:
            yield KINDS.get(kind, f"kind {kind}")


def _field(log, number):
    return "" if number == U32 else _entry(log, number)[0] + ": "


def _value(kind, bits):
    packed = struct.pack("<Q", bits)
    return struct.unpack({SIGNED: "<q", FLOAT: "<d"}.get(kind, "<Q"), packed)[0]
