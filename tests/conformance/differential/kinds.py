"""Column types and random values of them, as the text of SQL literals.

Left out is what `docs/debezium-compatibility.md` lists as a wanted difference: columns of type ``name``, dates before
Christ in arrays and in snapshots, dates in arrays that Java's calendar skips, arrays of several dimensions, `oidvector`, numerics of negative scale.
"""

import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Make = Callable[[Random], str]
NASTY = [
    "",
    " ",
    "null",
    "NULL",
    "'",
    '"',
    "\\",
    "\\\\N",
    "{}",
    ",",
    "a\tb\nc\rd",
    "\x01\x1f\x7f",
    "ä é",
    "日本語",
    "\u2028",
    "😀",
    "%s",
]


@dataclass(frozen=True)
class Kind:
    """A type as SQL writes it, and what makes values of it."""

    sql: str
    value: Make
    only_streamed: bool = False
    """Snapshots of it are a wanted difference."""
    temporal: bool = False
    null_elements: bool = True
    """Whether arrays of it may hold nulls: in those of most types they end both tasks."""
    arrays: bool = True
    """Whether there are arrays of it: elements of geometric types, bits and NaN end both tasks."""

    def literal(self, rng: Random) -> str:
        """A value as SQL."""
        return quoted(self.value(rng))


def quoted(text: str) -> str:
    """A text as SQL's literal."""
    return "'" + text.replace("'", "''") + "'"


def text(rng: Random, most: int = 40) -> str:
    """A text that may be nasty."""
    if rng.random() < 0.3:
        return rng.choice(NASTY)[:most]
    if rng.random() < 0.2:
        return "".join(rng.choice([*NASTY, "x", "y"]) for _ in range(3))[:most]
    return "".join(rng.choice(string.ascii_letters + " _-.0123456789") for _ in range(rng.randrange(most)))


def integer(bits: int) -> Make:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda rng: str(
        rng.choice([0, 1, -1, low, high, rng.randint(low, high), rng.randint(-1000, 1000)])
    )


def decimal(digits: int, scale: int) -> Make:
    def make(rng: Random) -> str:
        unscaled = rng.choice(
            [0, 1, rng.randrange(10**digits), 10**digits - 1, rng.randrange(10 ** min(digits, 4))]
        )
        sign = rng.choice(["", "-"])
        padded = str(unscaled).rjust(scale + 1, "0")
        return sign + (f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded)

    return make


def free_decimal(rng: Random) -> str:
    # Not NaN, which ends both tasks where decimal.handling.mode is precise.
    return rng.choice(
        ["0", "0.00", "100", "1e10", "1e-10", "-0.5", "12.3400", decimal(30, rng.randrange(12))(rng)]
    )


def floating(digits: int) -> Make:
    """Numbers of few digits and no great size: Java before version 19 writes some others with a digit too many
    (JDK-4511638)."""

    def make(rng: Random) -> str:
        if rng.random() < 0.2:
            return rng.choice(["NaN", "Infinity", "-Infinity", "0", "-0", "1e-5", "0.001", "1e7"])
        return f"{rng.uniform(-10, 10):.{rng.randrange(1, digits)}g}e{rng.randrange(-3, 5)}"

    return make


def date(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(
            ["1970-01-01", "0001-01-01", "9999-12-31", "1582-10-10", "1969-12-31", "2000-02-29"]
        )
    return f"{rng.randrange(1000, 2300):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def far_date(rng: Random) -> str:
    return rng.choice(["infinity", "-infinity", "0044-03-15 BC", "12345-06-07", date(rng)])


def clock(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(["00:00:00", "23:59:59.999999", "24:00:00"])
    seconds = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    return seconds + (f".{rng.randrange(10**6):06}" if rng.random() < 0.6 else "")


def zone(rng: Random) -> str:
    return rng.choice(["+00", "-00", "+02", "-05:30", "+14", "-12", "+05:45"])


def stamp(rng: Random) -> str:
    if rng.random() < 0.08:
        return rng.choice(["infinity", "-infinity", "2262-04-11 23:47:16.854775", "1677-09-22 00:12:44"])
    return f"{rng.randrange(1700, 2260):04}{date(rng)[4:] if rng.random() < 0.9 else '-01-01'} {clock(rng)}"


def zoned_stamp(rng: Random) -> str:
    found = stamp(rng)
    return found if found.endswith("infinity") else found + zone(rng)


def interval(rng: Random) -> str:
    if rng.random() < 0.3:
        return rng.choice(
            [
                "1 year 2 mons 3 days 04:05:06.789",
                "-1 year -2 mons +3 days -04:05:06.000001",
                "0",
                "-1 day",
                "30 days",
                "-00:00:00.5",
            ]
        )
    parts = [f"{rng.randrange(-40, 40)} {unit}" for unit in ("years", "mons", "days") if rng.random() < 0.5]
    return " ".join([*parts, clock(rng)])


def document(rng: Random) -> str:
    """JSON; of `jsonb` PostgreSQL decides the spelling."""
    return rng.choice(
        [
            "{}",
            "[]",
            "null",
            '"x"',
            "1.50",
            '{"a": [1, {"b": null}], "ü": "\\u00e9\\n"}',
            '{"b":1,"a":2,"b":3}',
            "[1e3, -0.0, true]",
        ]
    )


def bits(rng: Random, size: int) -> str:
    return "".join(rng.choice("01") for _ in range(size))


def pairs(rng: Random) -> str:
    """An hstore."""
    keys = [text(rng, 8) for _ in range(rng.randrange(5))]
    return ", ".join(
        f"{_hstore(key)}=>{_hstore(text(rng, 8)) if rng.random() < 0.8 else 'NULL'}" for key in keys
    )


def _hstore(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def number(rng: Random) -> str:
    """A coordinate."""
    return rng.choice(["0", "1", "-2.5", "1e10", "0.125", str(rng.randrange(-99, 99))])


def spot(rng: Random) -> str:
    return f"({number(rng)},{number(rng)})"


def span(value: Make) -> Make:
    def make(rng: Random) -> str:
        if rng.random() < 0.2:
            return rng.choice(["empty", "(,)"])
        low, high = value(rng), value(rng)
        return rng.choice([f'["{low}",)', f'(,"{high}"]', f'["{low}","{low}"]'])

    return make


def spans(value: Make) -> Make:
    return lambda rng: rng.choice(["{}", "{" + span(value)(rng).replace("empty", "(,)") + "}"])


def network(rng: Random) -> str:
    return rng.choice(
        ["10.0.0.1", "10.1.0.0/16", "::1", "2001:db8::/32", f"192.168.{rng.randrange(256)}.0/24"]
    )


def choice(*values: str) -> Make:
    return lambda rng: rng.choice(values)


def small_day(rng: Random) -> str:
    return f"20{rng.randrange(10, 30)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}"


def tagged(rng: Random) -> str:
    return rng.choice(["<a/>", "<a>x</a>", "<a b='c'>&amp;</a>", "text"])


NUMBERS = [
    Kind("smallint", integer(16)),
    Kind("integer", integer(32)),
    Kind("bigint", integer(64)),
    Kind("real", floating(6)),
    Kind("double precision", floating(15)),
    Kind("numeric", free_decimal, arrays=False),
    Kind("numeric(10,2)", decimal(10, 2)),
    Kind("numeric(5)", decimal(5, 0)),
    Kind("numeric(38,10)", decimal(38, 10)),
    Kind("numeric(3,3)", decimal(3, 3)),
    Kind("money", decimal(10, 2)),
    Kind("oid", lambda rng: str(rng.randrange(2**32))),
    Kind("boolean", choice("t", "f")),
]
TEXTS = [
    Kind("text", text),
    Kind("varchar", text),
    Kind("varchar(20)", lambda rng: text(rng, 20)),
    Kind("char", lambda rng: text(rng, 1)),
    Kind("char(7)", lambda rng: text(rng, 7)),
    Kind("citext", text),
    Kind("json", document),
    Kind("jsonb", document),
    Kind("xml", tagged),
    Kind("uuid", lambda rng: str(uuid.UUID(int=rng.getrandbits(128)))),
    Kind("bytea", lambda rng: "\\x" + rng.randbytes(rng.randrange(12)).hex()),
    Kind("hstore", pairs),
    Kind("ltree", choice("a.b.c", "top", "a_1.B"), null_elements=False),
    Kind("isbn", choice("0-306-40615-2"), null_elements=False),
    Kind('"char"', choice("x", "1")),
]
TIMES = [
    Kind("date", date, temporal=True),
    Kind("time", clock, temporal=True),
    Kind("time(0)", clock, temporal=True),
    Kind("time(3)", clock, temporal=True),
    Kind("timetz", lambda rng: clock(rng) + zone(rng), temporal=True),
    Kind("timestamp", stamp, temporal=True),
    Kind("timestamp(0)", stamp, temporal=True),
    Kind("timestamp(3)", stamp, temporal=True),
    Kind("timestamp(5)", stamp, temporal=True),
    Kind("timestamptz", zoned_stamp, temporal=True),
    Kind("timestamptz(3)", zoned_stamp, temporal=True),
    Kind("interval", interval, temporal=True),
    Kind("interval day to second(2)", interval, temporal=True),
    Kind("interval year to month", interval, temporal=True),
    Kind("interval(0)", interval, temporal=True),
    Kind("time(5)", clock, temporal=True),
    Kind("timetz(2)", lambda rng: clock(rng) + zone(rng), temporal=True),
    Kind("timestamp(1)", stamp, temporal=True),
    Kind("timestamp(6)", stamp, temporal=True),
    Kind("timestamptz(0)", zoned_stamp, temporal=True),
]
OTHERS = [
    Kind("bit", lambda rng: bits(rng, 1), arrays=False),
    Kind("bit(9)", lambda rng: bits(rng, 9), arrays=False),
    Kind("varbit", lambda rng: bits(rng, rng.randrange(20)), arrays=False),
    Kind("varbit(1)", lambda rng: bits(rng, 1), arrays=False),  # an empty one ends both tasks
    Kind("inet", network),
    Kind("cidr", choice("10.0.0.0/8", "2001:db8::/32")),
    Kind("macaddr", choice("08:00:2b:01:02:03")),
    Kind("macaddr8", choice("08:00:2b:01:02:03:04:05")),
    Kind("point", spot),
    Kind("box", lambda rng: f"{spot(rng)},{spot(rng)}", arrays=False),
    Kind("circle", lambda rng: f"<{spot(rng)},{rng.randrange(9)}>", arrays=False),
    Kind("line", choice("{1,2,3}", "{0,1,-2.5}"), arrays=False),
    Kind("lseg", lambda rng: f"[{spot(rng)},{spot(rng)}]", arrays=False),
    Kind("path", lambda rng: rng.choice(["({})", "[{}]"]).format(f"{spot(rng)},{spot(rng)}"), arrays=False),
    Kind("polygon", lambda rng: f"({spot(rng)},{spot(rng)},{spot(rng)})", arrays=False),
    Kind("int4range", span(choice("1", "-5", "7"))),
    Kind("int8range", span(integer(40))),
    Kind("numrange", span(decimal(6, 2))),
    Kind("daterange", span(small_day)),
    Kind("tsrange", span(small_day)),
    Kind("tstzrange", span(small_day)),
    Kind("int8multirange", spans(integer(40))),
    Kind("nummultirange", spans(decimal(6, 2))),
    Kind("tstzmultirange", spans(small_day)),
    Kind("varbit(5)", lambda rng: bits(rng, rng.randrange(6)), arrays=False),
    Kind("issn", choice("1436-4522")),
    Kind("ean13", choice("0-036000-291453")),
    Kind("lquery", choice("*.a.*")),
    Kind("regtype", choice("integer")),
    Kind("pg_snapshot", choice("10:20:10,14,15")),
    Kind("int4multirange", spans(choice("1", "-5", "7"))),
    Kind("datemultirange", spans(small_day)),
    Kind("tsvector", choice("a b", "cat:3 fat:2A", "")),
    Kind("tsquery", choice("a & b", "!cat | fat:A")),
    Kind("pg_lsn", choice("0/0", "16/B374D848")),
    Kind("xid", choice("123")),
    Kind("jsonpath", choice("$.a[*]")),
    Kind("regclass", choice("pg_class")),
]
FAR = [
    Kind("date", far_date, only_streamed=True, temporal=True),
    Kind("timestamp", lambda rng: rng.choice(["0044-03-15 12:00:00 BC", "12345-06-07 08:09:10", stamp(rng)]), only_streamed=True, temporal=True),
]  # fmt: skip
SCALARS = NUMBERS * 3 + TEXTS * 3 + TIMES * 2 + OTHERS + FAR


def array(kind: Kind) -> Kind:
    """Arrays of one dimension of a kind."""

    def make(rng: Random) -> str:
        items = [
            "NULL"
            if kind.null_elements and kind not in OTHERS and rng.random() < 0.2
            else _element(kind.value(rng).replace("1582-10-10", "1582-10-20"))
            for _ in range(rng.choice([0, 1, 2, 4]))
        ]
        return "{" + ",".join(items) + "}"

    return Kind(f"{kind.sql}[]", make, only_streamed=kind.only_streamed, temporal=kind.temporal)


def _element(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
