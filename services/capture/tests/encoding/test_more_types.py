"""Types beyond the plain ones: geometry, extensions, money, domains, times in every precision mode. The expected values
are from Debezium's own records."""

import base64
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.cdc.encoding.options import (
    ConversionOptions,
    DecimalHandling,
    FailureHandling,
    HstoreHandling,
    TimePrecision,
)
from tidings_capture.cdc.encoding.plan_columns import ColumnEncoder, converted_column
from tidings_capture.cdc.tables import Column, ElementType, Table
from tidings_capture.cdc.types.conversion import CellError, Conversion, ConversionError, NoRepresentationError
from tidings_capture.postgres.encoding.rows import TYPES
from tidings_capture.postgres.types.selection import conversion_for
from tidings_capture.postgres.types.source_types import length_and_scale, source_type_parameters
from tidings_connect.java.regex import compile_java
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.json_codec import JsonCodec


def options(**changes: Any) -> ConversionOptions:
    return ConversionOptions("shop", "shop", **changes)


def conversion(
    name: str, typmod: int = -1, element: ElementType | None = None, domain: str | None = None, **changes: Any
) -> Conversion:
    column = Column("c", 99_999, typmod, name, not_null=False, element=element, domain_name=domain)
    found = conversion_for(column, options(**changes))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "cell", "wkb"),
    [
        ("point", b"(1,2)", "AQEAAAAAAAAAAADwPwAAAAAAAABA"),
        ("box", b"(-1,-2),(-3,-4)", "AQMAAAABAAAABQAAAAAAAAAAAPC/AAAAAAAAAMAAAAAAAADwvwAAAAAAABDAAAAAAAAACMAAAAAAAAAQwAAAAAAAAAjAAAAAAAAAAMAAAAAAAADwvwAAAAAAAADA"),
        ("lseg", b"[(1,2),(3,4)]", "AQIAAAACAAAAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEA="),
        ("path", b"((1,2))", "AQIAAAABAAAAAAAAAAAA8D8AAAAAAAAAQA=="),
        ("polygon", b"((1,2))", "AQMAAAABAAAAAQAAAAAAAAAAAPA/AAAAAAAAAEA="),
        ("polygon", b"((1,2),(3,4),(5,6))", "AQMAAAABAAAABAAAAAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAIQAAAAAAAABBAAAAAAAAAFEAAAAAAAAAYQAAAAAAAAPA/AAAAAAAAAEA="),
    ],
)  # fmt: skip
def test_shapes_are_wkb(name: str, cell: bytes, wkb: str) -> None:
    assert base64.b64encode(conversion(name).convert(cell)["wkb"]).decode() == wkb


def test_what_wkb_cannot_say_is_in_the_extensions() -> None:
    assert conversion("path").convert(b"((1,2),(3,4))")["extensions"] == {"type": "path", "closed": "true"}
    assert conversion("path").convert(b"[(1,2),(3,4)]")["extensions"] == {"type": "path", "closed": "false"}
    assert conversion("line").convert(b"{1.5e-07,2,-3}") == {"a": 1.5e-7, "b": 2.0, "c": -3.0}
    assert conversion("circle").convert(b"<(1e-05,2),0.1>")["radius"] == 0.1


@pytest.mark.parametrize(
    "name",
    ["point", "box", "lseg", "path", "polygon", "circle", "line", "vector", "sparsevec", "hstore", "money"],
)
@pytest.mark.parametrize("cell", [b"", b"secret", b"(1,2", b"(1)(2)", b"{", b"((1,2),secret)", b"1,2,3,4,5"])
def test_a_cell_of_another_form_is_refused_without_its_content(name: str, cell: bytes) -> None:
    if name == "hstore" and not cell:
        return
    with pytest.raises((ValueError, ArithmeticError)):
        conversion(name).convert(cell)
    column = Column("c", 1, -1, name, not_null=True)
    converted = converted_column(0, column, TYPES, options())
    assert converted is not None
    with pytest.raises(ConversionError) as caught:
        ColumnEncoder(converted, JsonCodec()).present(cell)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "srid"),
    [
        (b"0101000000000000000000F03F0000000000000040", None),
        (b"0101000020E6100000000000000000F03F0000000000000040", 4326),
        (b"00200000010000E6103FF00000000000004000000000000000", 58896),
    ],
)
def test_ewkb_says_its_srid(cell: bytes, srid: int | None) -> None:
    value = conversion("geometry").convert(cell)
    assert (value["wkb"].hex().upper(), value["srid"]) == (cell.decode(), srid)


@given(st.binary(max_size=40))
def test_any_ewkb_is_kept_or_refused(octets: bytes) -> None:
    cell = octets.hex().encode()
    if len(octets) < 9:
        with pytest.raises(NoRepresentationError):
            conversion("geography").convert(cell)
    else:
        assert conversion("geography").convert(cell)["wkb"] == octets


def test_vectors() -> None:
    assert conversion("vector").convert(b"[1,2.5,-3e-05]") == [1.0, 2.5, -3e-5]
    sparse = conversion("sparsevec")
    value = sparse.convert(b"{1:1.5,3:2,17:7,40:0.1}/50")
    assert JsonCodec().encoder(sparse.schema)(value) == (
        b'{"dimensions":50,"vector":[[40,0.1],[1,1.5],[17,7.0],[3,2.0]]}'
    )
    assert sparse.convert(b"{}/5") == {"dimensions": 5, "vector": {}}
    with pytest.raises(NoRepresentationError):
        sparse.convert(b"{1:1}/40000")


def test_hstore_is_in_the_order_of_javas_map() -> None:
    cell = '"a"=>"1", "ä"=>"ü", "aa"=>"x", "k2"=>"2", "zz"=>"", "b b"=>NULL, "k10"=>"1", "q\\"uo"=>"back\\\\slash"'.encode()
    assert conversion("hstore").convert(cell) == (
        '{"aa":"x","zz":"","a":"1","ä":"ü","b b":null,"k2":"2","q\\"uo":"back\\\\slash","k10":"1"}'
    )
    pairs = conversion("hstore", hstore_handling=HstoreHandling.MAP).convert(cell)
    assert list(pairs) == ["aa", "zz", "a", "ä", "b b", "k2", 'q"uo', "k10"]
    assert conversion("hstore", domain="d").unchanged == "__debezium_unavailable_value"
    assert conversion("hstore").unchanged == '{"__debezium_unavailable_value":"__debezium_unavailable_value"}'


@pytest.mark.parametrize(
    ("cell", "amount"),
    [(b"$12.34", "12.34"), (b"-$1,234,567.89", "-1234567.89"), (b"($1.00)", "-1.00"), (b"$.50", "0.50")],
)
def test_money(cell: bytes, amount: str) -> None:
    assert conversion("money", money_fraction_digits=4).convert(cell) == Decimal(amount)
    assert conversion("money", decimal_handling=DecimalHandling.STRING).convert(cell) == amount
    assert conversion("money", decimal_handling=DecimalHandling.DOUBLE).convert(cell) == float(amount)


def test_what_money_is_rounded_to_is_no_negative_zero() -> None:
    rounded = conversion("money", money_fraction_digits=0).convert(b"-$0.01")
    assert str(rounded) == "0"


def test_money_of_a_locale_without_a_decimal_point_is_refused() -> None:
    with pytest.raises(CellError, match="lc_monetary"):
        conversion("money").convert("1.234,56 €".encode())


@pytest.mark.parametrize(
    ("name", "typmod", "mode", "cell", "value"),
    [
        ("date", -1, "isostring", b"0044-03-15 BC", "-0043-03-15Z"),
        ("date", -1, "isostring", b"infinity", "+5877611-06-21Z"),
        ("time", -1, "isostring", b"24:00:00", "00:00:00Z"),
        ("timestamp", 3, "isostring", b"12345-06-07 08:09:10", "+12345-06-07T08:09:10Z"),
        ("timestamp", 3, "microseconds", b"2026-11-20 12:34:56.789", 1_795_178_096_789_000),
        ("time", 0, "nanoseconds", b"12:34:56", 45_296_000_000_000),
        ("timestamp", -1, "nanoseconds", b"2262-04-11 23:47:16.854775", 9_223_372_036_854_775_000),
        ("timestamp", -1, "nanoseconds", b"2262-04-11 23:47:16.854776", None),
        ("timestamp", -1, "nanoseconds", b"1677-09-21 00:12:44", None),
        ("date", -1, "structured", b"-infinity", {"specialValue": "NEGATIVE_INFINITY"}),
        ("timetz", 2, "structured", b"24:00:00+01", {"hour": 24, "minute": 0, "second": 0, "nanos": 0, "offsetSeconds": 3600, "precision": 2}),
        ("interval", -1, "structured", b"-1 years -2 mons +3 days -04:05:06.000001", {"years": -1, "months": -2, "days": 3, "hours": -4, "minutes": -5, "seconds": -6, "nanos": -1000, "precision": 6}),
    ],
)  # fmt: skip
def test_times_in_every_mode(name: str, typmod: int, mode: str, cell: bytes, value: Any) -> None:
    assert conversion(name, typmod, time_precision=TimePrecision(mode)).convert(cell) == value


def test_a_structured_time_knows_no_24_hours() -> None:
    with pytest.raises(NoRepresentationError):
        conversion("time", time_precision=TimePrecision.STRUCTURED).convert(b"24:00:00")


@pytest.mark.parametrize("not_null", [True, False])
@pytest.mark.parametrize("failures", FailureHandling)
def test_what_has_no_representation_is_null_where_the_options_and_the_column_allow_it(
    not_null: bool, failures: FailureHandling
) -> None:
    converted = converted_column(
        0, Column("c", 1, (10 << 16 | 2) + 4, "numeric", not_null=not_null), TYPES, options()
    )
    assert converted is not None
    for codec, null in ((JsonCodec(), b"null"), (AvroCodec(), b"\0")):
        encoder = ColumnEncoder(converted, codec, failures)
        if not_null or failures is FailureHandling.FAIL:
            with pytest.raises(ConversionError, match=r"column 'c' .* decimal\.handling\.mode=string"):
                encoder.present(b"NaN")
        else:
            assert encoder.present(b"NaN") == null


@pytest.mark.parametrize(
    ("element", "cell", "value"),
    [
        ("box", b"{}", []),
        ("box", b"{NULL;NULL}", [None, None]),
        ("box", b"{(3,4),(1,2)}", NoRepresentationError),
        ("ltree", b"{a.b,NULL}", NoRepresentationError),
        ("tsvector", b"{NULL}", NoRepresentationError),
        ("numeric", b"{1.5,NaN}", NoRepresentationError),
        ("bit", b"{}", NoRepresentationError),
        ("timetz", b"{{12:00:00+00}}", NoRepresentationError),
        ("citext", b"{A,NULL}", ["A", None]),
    ],
)
def test_arrays_that_debezium_has_no_representation_for(element: str, cell: bytes, value: Any) -> None:
    array = conversion(f"_{element}", element=ElementType(1, element))
    if value is NoRepresentationError:
        with pytest.raises(NoRepresentationError):
            array.convert(cell)
    else:
        assert array.convert(cell) == value


def test_arrays_are_split_where_their_type_says() -> None:
    """PostGIS writes its geometries with colons between them; a text with a comma in it is quoted by PostgreSQL."""
    point = b"010100000000000000000000400000000000000040"
    wkb = bytes.fromhex(point.decode())
    array = conversion("_geometry", element=ElementType(1, "geometry", delimiter=":"))
    found = array.convert(b"{" + point + b":NULL:" + point + b"}")
    assert [item and item["wkb"] for item in found] == [wkb, None, wkb]
    with pytest.raises(CellError):
        array.convert(b"{" + point + b',"x"}')
    own = conversion("_t", element=ElementType(1, "t", delimiter="|"), include_unknown_datatypes=True)
    assert own.convert(rb'{a,b|"c|\"d"}') == [b"a,b", b'c|"d']


def test_an_array_of_domains_is_of_an_unknown_type() -> None:
    of_domains = Column("c", 1, -1, "_d", not_null=False, element=ElementType(1, "d", is_domain=True))
    assert conversion_for(of_domains, options()) is None
    array = conversion_for(of_domains, options(include_unknown_datatypes=True))
    assert array is not None
    assert array.convert(b"{1}") == [b"1"]


def test_vectors_of_oids_are_numbers() -> None:
    assert conversion("oidvector", element=ElementType(26, "oid")).convert(b"1 23 4") == [1, 23, 4]


@pytest.mark.parametrize(
    ("name", "typmod", "expected"),
    [
        ("int4", -1, (10, 0)),
        ("numeric", -1, (131_089, 0)),
        ("numeric", (10 << 16 | 2) + 4, (10, 2)),
        ("varchar", 24, (20, 0)),
        ("text", -1, (2**31 - 1, 0)),
        ("time", 3, (12, 3)),
        ("timetz", 2, (17, 2)),
        ("timestamp", 0, (22, 0)),
        ("timestamptz", -1, (35, 6)),
        ("interval", 4 << 16 | 0xFFFF, (49, 65_535)),
        ("bit", 5, (5, 0)),
    ],
)
def test_length_and_scale_are_the_drivers(name: str, typmod: int, expected: tuple[int, int]) -> None:
    assert length_and_scale(name, typmod) == expected


def test_source_types_are_parameters_of_the_columns_that_are_asked_for() -> None:
    serial = Column("id", 23, -1, "int4", not_null=True, default_expression="nextval('t_id_seq'::regclass)")
    name = Column("Name", 1043, 24, "varchar", not_null=True, domain_name="short")
    table = Table("public", "t", 1, (serial, name))
    by_name = options(propagated_columns=(compile_java(r"public\.t\.Name", re.IGNORECASE),))
    by_type = options(propagated_types=(compile_java(r".*\.serial"),))
    assert source_type_parameters(table, serial, by_name) == {}
    assert source_type_parameters(table, name, by_name) == {
        "__debezium.source.column.type": "SHORT",
        "__debezium.source.column.length": "20",
        "__debezium.source.column.scale": "0",
        "__debezium.source.column.name": "Name",
    }
    assert source_type_parameters(table, serial, by_type)["__debezium.source.column.type"] == "SERIAL"
    assert source_type_parameters(table, name, by_type) == {}


@pytest.mark.parametrize(("typmod", "length"), [(3, "3"), (-1, None)])
def test_the_length_of_a_vector_is_the_number_of_its_dimensions(typmod: int, length: str | None) -> None:
    vector = Column("v", 1, typmod, "vector", not_null=False)
    everything = options(propagated_columns=(compile_java(".*"),))
    parameters = source_type_parameters(Table("public", "t", 1, (vector,)), vector, everything)
    assert parameters.get("__debezium.source.column.length") == length
