"""Our Avro encoder writes what fastavro reads, and refuses what the contract does not allow."""

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_domain.avro.encoders import compile_encoder
from tidings_domain.errors import ContractError, EventError


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    maybe: int | None


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    flag: bool
    small: int
    large: int
    single: float
    double: float
    blob: bytes
    money: Decimal
    packed: Decimal
    day: date
    at: datetime
    about: datetime
    local: datetime
    clock: time
    code: UUID
    colour: str
    fixed: bytes
    tags: dict[str, int]
    inner: Inner | None
    inners: tuple[Inner, ...]
    class_: str = msgspec.field(name="class")


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "text", "type": "string"}, {"name": "maybe", "type": ["null", "long"]}],
}
TYPES: dict[str, Any] = {
    "flag": "boolean",
    "small": "int",
    "large": {"type": "long"},
    "single": "float",
    "double": "double",
    "blob": "bytes",
    "money": logical("bytes", "decimal", precision=40, scale=4),
    "packed": {
        "type": "fixed",
        "name": "P",
        "size": 5,
        "logicalType": "decimal",
        "precision": 11,
        "scale": 2,
    },
    "day": logical("int", "date"),
    "at": logical("long", "timestamp-micros"),
    "about": logical("long", "timestamp-millis"),
    "local": logical("long", "local-timestamp-micros"),
    "clock": logical("long", "time-micros"),
    "code": logical("string", "uuid"),
    "colour": {"type": "enum", "name": "Colour", "symbols": ["red", "green"]},
    "fixed": {"type": "fixed", "name": "F", "size": 3},
    "tags": {"type": "map", "values": "long"},
    "inner": ["null", INNER],
    "inners": {"type": "array", "items": "Inner"},
    "class": "string",
}
SCHEMA = {
    "type": "record",
    "name": "Outer",
    "fields": [{"name": name, "type": kind} for name, kind in TYPES.items()],
}
encode = compile_encoder(SCHEMA, Outer)


def decimals(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    limit = 10**digits - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-places))


instants = st.datetimes(datetime.fromisoformat("1900-01-01"), datetime.fromisoformat("2200-01-01"))
inner = st.builds(Inner, text=st.text(max_size=200), maybe=st.none() | st.integers(-(2**63), 2**63 - 1))
outer = st.builds(
    Outer,
    flag=st.booleans(),
    small=st.integers(-(2**31), 2**31 - 1),
    large=st.integers(-(2**63), 2**63 - 1),
    single=st.floats(width=32, allow_nan=False),
    double=st.floats(allow_nan=False),
    blob=st.binary(max_size=300),
    money=decimals(28, 4),
    packed=decimals(11, 2),
    day=st.dates(),
    at=instants.map(lambda one: one.replace(tzinfo=UTC)),
    about=instants.map(lambda one: one.replace(tzinfo=UTC, microsecond=one.microsecond // 1000 * 1000)),
    local=instants,
    clock=st.times(),
    code=st.uuids(),
    colour=st.sampled_from(["red", "green"]),
    fixed=st.binary(min_size=3, max_size=3),
    tags=st.dictionaries(st.text(max_size=5), st.integers(0, 20_000), max_size=3),
    inner=st.none() | inner,
    inners=st.lists(inner, max_size=3).map(tuple),
    class_=st.text(max_size=3),
)


@settings(max_examples=50, deadline=None)
@given(outer)
def test_fastavro_reads_what_we_write(value: Outer) -> None:
    stream = io.BytesIO(encode(value))
    read = fastavro.schemaless_reader(stream, fastavro.parse_schema(SCHEMA), None)
    assert stream.read() == b""
    expected = {field: getattr(value, field) for field in Outer.__struct_fields__ if field != "class_"}
    expected |= {"class": value.class_, "inner": value.inner and msgspec.structs.asdict(value.inner)}
    expected |= {"inners": [msgspec.structs.asdict(one) for one in value.inners]}
    assert read == expected


def test_a_decimal_of_many_digits_is_exact() -> None:
    precise = Decimal("123456789012345678901234567890123456.7891")
    schema = {"type": "record", "name": "R", "fields": [{"name": "money", "type": TYPES["money"]}]}
    record = msgspec.defstruct("R", [("money", Decimal)])
    body = compile_encoder(schema, record)(record(precise))
    length = body[0] >> 1
    assert (
        int.from_bytes(body[1 : 1 + length], "big", signed=True) == 1234567890123456789012345678901234567891
    )


NAIVE = datetime.fromisoformat("2024-01-01")
GOOD: dict[str, Any] = {
    "flag": True, "small": 1, "large": 1, "single": 1.0, "double": 1.0, "blob": b"", "money": Decimal(1),
    "packed": Decimal(1), "day": date(2024, 1, 1), "at": datetime(2024, 1, 1, tzinfo=UTC),
    "about": datetime(2024, 1, 1, tzinfo=UTC), "local": NAIVE, "clock": time(1),
    "code": UUID(int=1), "colour": "red", "fixed": b"abc", "tags": {}, "inner": None, "inners": (), "class_": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("flag", 1, "Outer.flag must be a boolean, not int"),
        ("small", True, "Outer.small must be an integer, not bool"),
        ("small", 2**31, "Outer.small does not fit into an Avro int"),
        ("large", -(2**63) - 1, "Outer.large does not fit into an Avro long"),
        ("single", "1", "Outer.single must be a float"),
        ("single", 1e300, "Outer.single does not fit into an Avro float"),
        ("blob", "x", "Outer.blob must be bytes"),
        ("money", 1.5, "Outer.money must be a Decimal, not float"),
        ("money", Decimal("NaN"), "Outer.money must be a finite Decimal"),
        ("money", Decimal("0.00001"), "Outer.money has more than the contract's 4 digits after the point"),
        ("money", Decimal("1E+999999"), "Outer.money has more than the contract's 40 digits"),
        ("packed", Decimal("1e9"), "Outer.packed has more than the contract's 11 digits"),
        ("day", NAIVE, "Outer.day must be a date, not datetime"),
        ("at", NAIVE, "Outer.at must be a datetime with zone"),
        ("about", None, "Outer.about must be a datetime with zone, not NoneType"),
        ("local", datetime(2024, 1, 1, tzinfo=UTC), "Outer.local must be a datetime without zone"),
        ("clock", time(1, tzinfo=UTC), "Outer.clock must be a time without zone"),
        ("code", "x", "Outer.code must be a UUID"),
        ("colour", "blue", "Outer.colour must be one of red, green"),
        ("colour", [], "Outer.colour must be one of red, green"),
        ("fixed", b"ab", "Outer.fixed must be 3 bytes"),
        ("tags", {"a": "b"}, "Outer.tags{} must be an integer"),
        ("tags", [], "Outer.tags must be a dict"),
        ("inner", Inner(text=1, maybe=None), "Outer.inner.text must be a string, not int"),  # type: ignore[arg-type]
        ("inner", {"text": ""}, "Outer.inner must be a Inner, not dict"),
        ("inners", (Inner(text="", maybe="x"),), "Outer.inners[].maybe must be an integer"),  # type: ignore[arg-type]
        ("inners", "ab", "Outer.inners must be a tuple"),
        ("class_", None, "Outer.class must be a string"),
    ],
)
def test_what_the_contract_does_not_allow_is_refused_by_field(field: str, value: Any, says: str) -> None:
    with pytest.raises(EventError) as caught:
        encode(Outer(**GOOD | {field: value}))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (["null", "int", "string"], "a union may only be null and one other type"),
        (["int", "string"], "a union may only be null and one other type"),
        (logical("long", "timestamp-nanos"), "logical type 'timestamp-nanos' of long cannot be encoded"),
        ("Nothing", "type 'Nothing' is not defined before it is used"),
    ],
)
def test_what_cannot_be_encoded_is_told_at_once(kind: Any, says: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    with pytest.raises(ContractError, match=says):
        compile_encoder(schema, msgspec.defstruct("R", [("a", int)]))


def test_a_class_of_another_contract_is_refused() -> None:
    with pytest.raises(
        ContractError, match="Inner does not have the fields of its contract: run `tidings-schemas generate`"
    ):
        compile_encoder(SCHEMA, Inner)
