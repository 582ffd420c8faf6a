"""Values as Debezium represents them become Python's, and what does not fit is told by column."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

from tidings_domain import MICROSECONDS, MILLISECONDS, Row, reference
from tidings_domain.aggregate.rows import RowError, RowPlan

CODE = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"
PLACEHOLDER = "__debezium_unavailable_value"


class Colour(StrEnum):
    RED = "red"


class Size(msgspec.Struct, frozen=True):
    height: int


class Wide(Row, table="public.wide", key="id"):
    id: int
    amount: Decimal | None = None
    at: datetime | None = None
    day: date | None = None
    clock: time | None = None
    code: UUID | None = None
    blob: bytes | None = None
    state: Literal["on", "off"] | None = None
    colour: Colour | None = None
    data: dict[str, Any] | None = None
    numbers: list[int] | None = None
    text: str | None = None
    weight: float | None = None
    early: Annotated[datetime, MICROSECONDS] | None = None
    at_ms: Annotated[datetime | None, MILLISECONDS] = None
    clock_ms: Annotated[time, MILLISECONDS] | None = None
    worked: timedelta | None = None
    worked_ms: Annotated[timedelta, MILLISECONDS] | None = None
    size: Size | None = None
    short: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    codes: list[UUID] | None = None
    tags: dict[str, str | None] | None = None


@pytest.mark.parametrize(
    ("column", "raw", "value"),
    [
        ("amount", "10.10", Decimal("10.10")),
        ("amount", Decimal("10.10"), Decimal("10.10")),
        ("at", "2026-01-01T00:00:01.000002Z", datetime(2026, 1, 1, 0, 0, 1, 2, tzinfo=UTC)),
        ("at", 1_767_225_601_000_002, datetime.fromisoformat("2026-01-01T00:00:01.000002")),
        ("at", -(10**15), datetime.fromisoformat("1938-04-24T22:13:20")),
        ("at", 0, datetime.fromisoformat("1970-01-01T00:00:00")),
        ("early", -1, datetime.fromisoformat("1969-12-31T23:59:59.999999")),
        ("at_ms", 1_767_225_601_002, datetime.fromisoformat("2026-01-01T00:00:01.002")),
        ("at_ms", "2026-01-01T00:00:01.002000", datetime.fromisoformat("2026-01-01T00:00:01.002")),
        ("clock_ms", 3_661_001, time(1, 1, 1, 1000)),
        ("clock", "01:01:01.001000", time(1, 1, 1, 1000)),
        ("clock", 0, time(0, 0)),
        ("worked", 0, timedelta(0)),
        ("worked", 1, timedelta(microseconds=1)),
        ("worked", -3_723_400_000, -timedelta(hours=1, minutes=2, seconds=3, milliseconds=400)),
        ("worked", 3_020_399_000_000, timedelta(hours=838, minutes=59, seconds=59)),
        ("worked", "838:59:59.000000", timedelta(hours=838, minutes=59, seconds=59)),
        ("worked", "-00:00:00.000001", -timedelta(microseconds=1)),
        ("worked", "01:02:03", timedelta(hours=1, minutes=2, seconds=3)),
        ("worked", "P3DT1.5S", timedelta(days=3, seconds=1, milliseconds=500)),
        ("worked_ms", -1, -timedelta(milliseconds=1)),
        ("day", 20468, date(2026, 1, 15)),
        ("day", -1, date(1969, 12, 31)),
        ("clock", 3_661_000_001, time(1, 1, 1, 1)),
        ("code", CODE, UUID(CODE)),
        ("blob", b"\x00\xff", b"\x00\xff"),
        ("blob", "AP8=", b"\x00\xff"),
        ("state", "on", "on"),
        ("colour", "red", Colour.RED),
        ("data", '{"a": [1]}', {"a": [1]}),
        ("numbers", [1, 2], [1, 2]),
        ("numbers", "[1, 2]", [1, 2]),
        ("text", "plain", "plain"),
        ("weight", 1.5, 1.5),
        ("weight", 2, 2.0),
    ],
)
def test_values(column: str, raw: Any, value: Any) -> None:
    row = RowPlan(Wide).load({"id": 1, column: raw}, None, {})
    assert getattr(row, column) == value
    assert type(getattr(row, column)) is type(value)


@pytest.mark.parametrize(
    ("column", "raw", "says"),
    [
        ("amount", "secret", r"public\.wide does not fit Wide: Invalid decimal string - at `\$\.amount`"),
        ("at", "infinity", r"Invalid RFC3339 encoded datetime - at `\$\.at`"),
        ("at", 1_767_225_601_002, r"public\.wide\.at: its number is hardly one of microseconds"),
        ("at", 20468, r"public\.wide\.at: its number is hardly one of microseconds"),
        ("clock", 3_661_001, r"public\.wide\.clock: its number is hardly one of microseconds"),
        ("clock", 3_661_001_000_000, r"public\.wide\.clock: its number is none of a day"),
        ("clock", -1, r"public\.wide\.clock: its number is none of a day"),
        ("clock", "838:59:59.000000", r"Invalid RFC3339 encoded time - at `\$\.clock`"),
        ("worked", "secret", r"Invalid ISO8601 duration - at `\$\.worked`"),
        ("at", 9223372036825200000, r"public\.wide\.at: OverflowError while its value was read"),
        ("day", 10**9, r"public\.wide\.day: \w+Error while its value was read"),
        ("code", "secret", r"Invalid UUID - at `\$\.code`"),
        ("state", "secret", r"Invalid enum value - at `\$\.state`"),
        ("colour", "it's a 'secret'", r"Invalid enum value - at `\$\.colour`"),
        ("data", "secret", r"public\.wide\.data: DecodeError while its value was read"),
        ("numbers", ["secret"], r"Expected `int`, got `str` - at `\$\.numbers\[0\]`"),
    ],
)
def test_what_does_not_fit_is_told_without_the_value(column: str, raw: Any, says: str) -> None:
    with pytest.raises(RowError, match=says) as caught:
        RowPlan(Wide).load({"id": 1, column: raw}, None, {})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "raw", "says", "not_about"),
    [
        ("state", "secret", "the column has a value that its type does not list", "decimal"),
        ("amount", "secret", "numeric columns need decimal.handling.mode=string or Avro", "list"),
        ("numbers", ["secret"], "compare the table's columns with Wide", "decimal"),
    ],
)
def test_a_hint_is_about_the_kind_of_value(column: str, raw: Any, says: str, not_about: str) -> None:
    with pytest.raises(RowError) as caught:
        RowPlan(Wide).load({"id": 1, column: raw}, None, {})
    hint = caught.value.hint or ""
    assert says in hint
    assert not_about not in hint


def test_a_missing_column_is_told_with_a_hint() -> None:
    with pytest.raises(RowError, match="missing required field `id`") as caught:
        RowPlan(Wide).load({"identifier": 1}, None, {})
    assert "compare the table's columns with Wide at " in str(caught.value.hint)


@pytest.mark.parametrize(
    ("column", "raw", "placeholder"),
    [
        ("text", "long", PLACEHOLDER),
        ("blob", b"long", PLACEHOLDER.encode()),
        ("blob", b"long", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("data", {"a": 1}, PLACEHOLDER),
        ("numbers", [1], [PLACEHOLDER]),
        ("numbers", [1], list(PLACEHOLDER.encode())),
        ("size", '{"height": 1}', PLACEHOLDER),
        ("short", "a", PLACEHOLDER),
        ("codes", [CODE], ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("tags", {"a": "b"}, {PLACEHOLDER: PLACEHOLDER}),
        ("tags", {"a": "b"}, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
    ],
)
def test_unchanged_toast_values_are_those_of_the_row_before(column: str, raw: Any, placeholder: Any) -> None:
    plan = RowPlan(Wide)
    before = plan.load({"id": 1, column: raw}, None, {})
    assert plan.load({"id": 1, column: placeholder}, before, {}) == before
    with pytest.raises(
        RowError, match=rf"public\.wide\.{column} is unchanged TOAST, and no earlier row is known"
    ):
        plan.load({"id": 1, column: placeholder}, None, {})


class Country(Row, table="public.countries", key=("continent", "code")):
    continent: str
    code: str
    name: str


class City(Row, table="public.cities", key="id"):
    id: int
    country = reference(Country, by=("continent", "country_code"))


class Street(Row, table="public.streets", key="id"):
    id: int
    city = reference(City, by="city_id")


FRANCE = {"continent": "EU", "code": "FR", "name": "France"}
PARIS = {"id": 5, "continent": "EU", "country_code": "FR"}


def test_references_of_references_and_of_several_columns() -> None:
    plan = RowPlan(Street)
    references = {"public.cities": {"5": PARIS}, "public.countries": {"EU,FR": FRANCE}}
    street: Any = plan.load({"id": 1, "city_id": 5}, None, references)
    assert street.city.country.name == "France"
    same: Any = plan.load({"id": 1, "city_id": 5}, street, {})
    assert same == street
    moved: Any = plan.load({"id": 1, "city_id": 6}, street, {})
    assert moved.city is None
    assert plan.refresh(street, {"public.cities": {"5": PARIS | {"country_code": None}}}) == {
        "city": RowPlan(City).load(PARIS | {"country_code": None}, None, {})
    }


def test_a_key_needs_only_the_keys_columns() -> None:
    plan = RowPlan(Country)
    assert plan.key({"continent": "EU", "code": "FR", "name": 0}) == ("EU", "FR")
    with pytest.raises(
        RowError, match=r"public\.countries: the key does not fit Country: .*missing required field `code`"
    ):
        plan.key({"continent": "EU"})


class Day(Row, table="public.days", key=("shop", "day")):
    shop: int
    day: date
    name: str = ""


class Shift(Row, table="public.shifts", key=("day", "no")):
    day: date
    no: int
    shop: int | None = None
    calendar = reference(Day, by=("shop", "day"))


def test_keys_of_dates_are_the_same_in_rows_and_in_states() -> None:
    plan = RowPlan(Shift)
    raw = {"day": 20468, "no": 1, "shop": 2}
    days: dict[str, dict[str, dict[str, Any]]] = {
        "public.days": {"2,20468": {"shop": 2, "day": 20468, "name": "a"}}
    }
    known = plan.load(raw, None, days)
    assert isinstance(known, Shift)
    assert plan.key({"day": 20468, "no": 1}) == plan.key_of(known) == (date(2026, 1, 15), 1)
    assert known.calendar == Day(shop=2, day=date(2026, 1, 15), name="a")
    assert plan.load(raw, known, {}) == known, "the row that it refers to has not changed"
    fresh: dict[str, dict[str, dict[str, Any]]] = {
        "public.days": {"2,20468": {"shop": 2, "day": 20468, "name": "b"}}
    }
    assert plan.refresh(known, fresh) == {"calendar": Day(shop=2, day=date(2026, 1, 15), name="b")}
    assert plan.load({**raw, "shop": 3}, known, {}).calendar is None  # type: ignore[attr-defined]


def test_a_number_that_no_database_has_comes_to_no_rule() -> None:
    """A rule's `int` of it would take half a minute."""
    plan = RowPlan(Wide)
    with pytest.raises(RowError, match=r"public\.wide\.amount has more digits"):
        plan.load({"id": 1, "amount": "1E+999999"}, None, {})
    longest = "9" * 131_072 + ".5"
    assert plan.load({"id": 1, "amount": longest}, None, {}) == Wide(id=1, amount=Decimal(longest))
