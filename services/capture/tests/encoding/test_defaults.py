"""Defaults are read from ``pg_get_expr``'s text as Debezium reads them; expected values are from its schemas."""

from decimal import Decimal
from typing import Any

import pytest

from tidings_capture.cdc.encoding.options import ConversionOptions, DecimalHandling
from tidings_capture.cdc.tables import Column, ElementType
from tidings_capture.cdc.types.conversion import Conversion
from tidings_capture.postgres.types.defaults import default_for
from tidings_capture.postgres.types.selection import conversion_for
from tidings_envelope.schema import NO_DEFAULT

NUMERIC_10_2 = (10 << 16 | 2) + 4
NUMERIC_38_10 = (38 << 16 | 10) + 4


def default(column: Column, options: ConversionOptions | None = None) -> Any:
    chosen = options or ConversionOptions("shop", "shop")
    conversion = conversion_for(column, chosen)
    assert isinstance(conversion, Conversion)
    return default_for(column, conversion, chosen)


@pytest.mark.parametrize(
    ("name", "typmod", "expression", "value"),
    [
        ("int4", -1, "7", 7),
        ("int4", -1, "'-42'::integer", -42),
        ("int8", -1, "'9223372036854775807'::bigint", 2**63 - 1),
        ("int2", -1, "70000", NO_DEFAULT),
        ("int4", -1, "nextval('t_id_seq'::regclass)", 0),
        ("int4", -1, "(1 + 2)", NO_DEFAULT),
        ("int4", -1, "NULL::integer", NO_DEFAULT),
        ("float8", -1, "'10000000000'::bigint", 1e10),
        ("float4", -1, "1.5", 1.5),
        ("float8", -1, "1_0", NO_DEFAULT),
        ("numeric", NUMERIC_10_2, "0", Decimal("0.00")),
        ("numeric", NUMERIC_10_2, "'-1.5'::numeric", Decimal("-1.50")),
        ("numeric", NUMERIC_10_2, "1.234", NO_DEFAULT),
        ("numeric", NUMERIC_38_10, f"{10**27}.4210809893", Decimal(f"{10**27}.4210809893")),
        ("numeric", -1, "12.50", NO_DEFAULT),
        ("text", -1, "'it''s \"so\"'::text", 'it\'s "so"'),
        ("text", -1, "lower('ABC'::text)", ""),
        ("text", -1, "('a'::text || 'b'::text)", "a"),
        ("text", -1, "NULL::text", NO_DEFAULT),
        ("bpchar", 7, "'EUR'::bpchar", "EUR"),
        ("bool", -1, "true", True),
        ("bool", -1, "false", False),
        ("date", -1, "'2020-02-29'::date", 18321),
        ("date", -1, "CURRENT_DATE", 0),
        ("time", -1, "'12:34:56.789'::time without time zone", 45296789000),
        ("timestamp", -1, "'2020-02-29 12:34:56.123456'::timestamp without time zone", 1582979696123456),
        ("timestamp", -1, "now()", 0),
        (
            "timestamptz",
            -1,
            "'2020-02-29 10:34:56.123456+00'::timestamp with time zone",
            "2020-02-29T10:34:56.123456Z",
        ),
        ("timestamptz", -1, "now()", "1970-01-01T00:00:00.000000Z"),
        ("timestamptz", -1, "(now() AT TIME ZONE 'utc'::text)", "1970-01-01T00:00:00.000000Z"),
        ("uuid", -1, "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("uuid", -1, "'no uuid'::uuid", NO_DEFAULT),
        ("json", -1, "'{\"a\": 1}'::json", '{"a": 1}'),
        ("interval", -1, "'1 day'::interval", 86400000000),
        ("bytea", -1, "'\\x0102'::bytea", NO_DEFAULT),
        ("inet", -1, "'127.0.0.1'::inet", NO_DEFAULT),
    ],
)
def test_defaults(name: str, typmod: int, expression: str, value: Any) -> None:
    assert default(Column("c", 1, typmod, name, not_null=True, default_expression=expression)) == value


@pytest.mark.parametrize(
    ("mode", "value"),
    [(DecimalHandling.STRING, "0.00"), (DecimalHandling.DOUBLE, 0.0), (DecimalHandling.PRECISE, Decimal(0))],
)
def test_decimal_defaults_follow_the_mode(mode: DecimalHandling, value: Any) -> None:
    column = Column("c", 1, NUMERIC_10_2, "numeric", not_null=True, default_expression="0")
    assert default(column, ConversionOptions("shop", "shop", decimal_handling=mode)) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'ok'::mood", "ok"),
        ("'ok'::public.mood", "ok"),
        ("'it''s'::mood", "it''s"),
        ("'ok'", NO_DEFAULT),
        ("'ok'::other", NO_DEFAULT),
        ("next_mood()::mood", NO_DEFAULT),
    ],
)
def test_enum_defaults(expression: str, value: Any) -> None:
    column = Column(
        "c", 99_999, -1, "mood", not_null=True, default_expression=expression, enum_labels=("ok", "it's")
    )
    assert default(column) == value


def test_arrays_and_domains_have_none() -> None:
    array = Column(
        "c",
        1,
        -1,
        "_int4",
        not_null=True,
        default_expression="'{}'::integer[]",
        element=ElementType(23, "int4"),
    )
    assert default(array) is NO_DEFAULT
    domain = Column("c", 1, -1, "int4", not_null=True, default_expression="1", domain_name="positive")
    assert default(domain) is NO_DEFAULT
