"""Random bytes, texts, JSON and Avro schemas, from what is nearly right to what is not at all."""

import json
from random import Random
from typing import Any

NASTY_TEXTS = (
    "", " ", "\0", "\n", "\r\n", "'", '"', "\\", "%s", "%(x)s", "{}", "${env:HOME}", "${file:/etc/passwd:root}", "../../etc/passwd",
    "a" * 300, "é", "\U0001d518", "\u202e", "\ufeff", "null", "true", "-1", "0", "1e999", "9" * 400, "NaN", "a,b,,c", "(", "(a+)+$", "[", "*",
    "a.b.c.d", "public.*", "$(id)", "; DROP TABLE x; --", "http://[", "http://user:pw@[::1", "file:///etc/passwd", "class",
    "x: int\n    import os", "__class__", "Infinity", "-9223372036854775809", "18446744073709551616", "2147483648", ":", "=", "#", "!",
)  # fmt: skip
NASTY_BYTES = (
    b"\0", b"\xff", b"\xff" * 9 + b"\x01", b"\x80" * 10, b"\x01", b"[" * 200, b"[" * 100_000, b'{"a":' * 2000, b'"\\ud800"', b"1e999",
    b"9" * 20_000, b"-" + b"9" * 400, b"null", b"{}", b"[]", b'"', b"\\", b"}", b"{", b",", b":", b'{"schema":', b',"payload":',
    b'{"schema":null,"payload":', b"\xed\xa0\x80", b"\xef\xbb\xbf", b'{"scale":99999999,"value":"AQ=="}',
)  # fmt: skip


def text(rng: Random) -> str:
    """A text of any kind."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(NASTY_TEXTS)
    if kind < 0.7:
        return rng.choice(NASTY_TEXTS) + rng.choice(NASTY_TEXTS)
    if kind < 0.9:
        return "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(30)))
    return "".join(_character(rng) for _ in range(rng.randrange(20)))


def _character(rng: Random) -> str:
    point = rng.choice(
        (rng.randrange(128), rng.randrange(0x800), rng.randrange(0x10000), rng.randrange(0x110000))
    )
    return "?" if 0xD800 <= point < 0xE000 else chr(point)


def mutated(rng: Random, sample: bytes) -> bytes:
    """Bytes with a few changes."""
    data = bytearray(sample)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, until = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        until = min(until, at + rng.choice((0, 1, 2, 10, 10_000)))
        match rng.randrange(6):
            case 0:
                data[at:until] = rng.choice(NASTY_BYTES)
            case 1:
                data[at:at] = rng.choice(NASTY_BYTES)
            case 2:
                del data[at:until]
            case 3 if data:
                place = min(at, len(data) - 1)
                data[place] ^= 1 << rng.randrange(8)
            case 4:
                data[at:at] = data[at:until] * rng.choice((1, 2, 50))
            case _:
                data[at:until] = rng.randbytes(until - at)
    return bytes(data)


def json_value(rng: Random, depth: int = 3) -> Any:
    """Any JSON value."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False, 0, -1, 2**31, 2**63, 2**64, 10**400, 1.5, 1e308, -0.0))
    if kind < 5:
        return text(rng)
    if kind < 6:
        return [json_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {text(rng): json_value(rng, depth - 1) for _ in range(rng.randrange(4))}


_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "Order", "Line", "no.such")
_LOGICAL = (
    "decimal",
    "date",
    "uuid",
    "time-micros",
    "timestamp-micros",
    "timestamp-millis",
    "duration",
    "nothing",
)


def avro_type(rng: Random, depth: int = 4) -> Any:
    """A type of an Avro schema, or what is nearly one."""
    kind = rng.randrange(12 if depth else 3)
    if kind < 3:
        return rng.choice(_PLAIN)
    match kind:
        case 5:
            return {
                "type": "array",
                "items": rng.choice(("null", {"type": "record", "name": _name(rng), "fields": []})),
            }
        case 3:
            return [avro_type(rng, depth - 1) for _ in range(rng.randrange(4))]
        case 4:
            return {"type": "array", "items": avro_type(rng, depth - 1)}
        case 6:
            return {"type": "map", "values": avro_type(rng, depth - 1)}
        case 7:
            return {
                "type": "enum",
                "name": _name(rng),
                "symbols": [_name(rng) for _ in range(rng.randrange(4))],
            }
        case 8:
            size = rng.choice((0, 1, 16, -1, 2**31, 2**62, "x"))
            return {"type": "fixed", "name": _name(rng), "size": size, "logicalType": rng.choice(_LOGICAL)}
        case 9:
            more = {"scale": rng.choice((0, 2, -1, 10**6, "x")), "precision": rng.choice((4, 0, 10**9))}
            return {"type": avro_type(rng, 0), "logicalType": rng.choice(_LOGICAL), **more}
        case 10:
            return json_value(rng, 1)
    return avro_record(rng, depth - 1)


def avro_record(rng: Random, depth: int = 4) -> Any:
    """A record's schema."""
    fields: list[Any] = []
    for _ in range(rng.randrange(5)):
        field = {"name": _name(rng), "type": avro_type(rng, depth)}
        if rng.random() < 0.3:
            field["default"] = json_value(rng, 1)
        fields.append(field)
    made = {"type": "record", "name": _name(rng), "fields": fields, "doc": text(rng)}
    if rng.random() < 0.05:
        made[rng.choice(list(made))] = json_value(rng, 1)
    if rng.random() < 0.1:
        made["namespace"] = text(rng)
    return made


def _name(rng: Random) -> str:
    return (
        text(rng)
        if rng.random() < 0.1
        else rng.choice(("Order", "Line", "a", "b", "c", "d", "date", "int", "class"))
    )


def as_text(schema: Any) -> str:
    return json.dumps(schema)
