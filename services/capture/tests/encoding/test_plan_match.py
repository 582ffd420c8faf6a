"""Tuples taken apart by expressions: what is found is what the checked way finds, and most rows are taken."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plan_parts import NUMERIC_10_2, OID, column, context, converters, insert_message, plan_for

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.encoding.column_mappers import read_mappers
from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.tables import Table
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.encoding import row_reader as plan_match
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.wire.pgoutput import DecodeError
from tidings_connect.converters.encoding import AvroConverter
from tidings_connect.data.records import Record

TYPES = (
    ("int8", -1, [b"7", b"-7", b"9223372036854775807"]),
    ("text", -1, [b"name", b"", b"n", b'"', b"\\", b"\x01", "é".encode(), "😀".encode(), b"x" * 300]),
    ("varchar", -1, [b"tn", b"t\r\n"]),
    ("numeric", NUMERIC_10_2, [b"1.50", b"0.00", b"-0.50", b"327.67", b"327.68", b"83886.07", b"83886.08"]),
    ("bool", -1, [b"t", b"f"]),
    ("float8", -1, [b"2.5", b"0", b"14", b"-0.25", b"0.001", b"0.0001", b"1e-05", b"12345678", b"1e+300"]),
    (
        "timestamp",
        -1,
        [
            b"2026-01-01 00:00:00.5",
            b"2999-12-31 23:59:59.999999",
            b"1970-01-01 00:00:00.5",
            b"1969-12-31 23:59:59",
            b"2026-11-20 12:34:56",
            b"12026-01-01 00:00:00",
            b"2026-01-01 00:00:00 BC",
        ],
    ),
    (
        "timestamptz",
        -1,
        [
            b"2026-01-01 00:00:00.123456+00",
            b"2026-01-01 00:00:00+00",
            b"0044-03-15 00:00:00+00 BC",
            b"2026-01-01 00:00:00.5+01",
        ],
    ),
    ("uuid", -1, [b"12345678-1234-1234-1234-123456789012"]),
    ("date", -1, [b"2026-11-20", b"0044-03-15 BC"]),
)
TABLE = Table(
    "public",
    "orders",
    OID,
    (
        column("id", "int8", not_null=True, key_position=1),
        *(column(f"c{index}", name, typmod=typmod) for index, (name, typmod, _) in enumerate(TYPES)),
    ),
)


@pytest.fixture(autouse=True)
def _learn_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan_match, "_LEARNS_EVERY", 1)
    return


def both(table: Table = TABLE) -> tuple[Plan, Plan]:
    return plan_for(table=table), plan_for(table=table, checked_only=True)


def misses(plan: Plan) -> int:
    """How many rows no expression has taken."""
    return plan._reader._misses


def outcome(plan: Plan, message: bytes) -> list[Record] | tuple[type, str]:
    try:
        return plan.change(message, 0, context())
    except (DecodeError, ConversionError) as error:
        return type(error), str(error)


def taken(plan: Plan, message: bytes) -> bool:
    """Whether an expression takes a message, once one has been seen that is like it."""
    outcome(plan, message)
    before = misses(plan)
    outcome(plan, message)
    return misses(plan) == before


@pytest.mark.parametrize("nullable", [False, True])
def test_every_usual_and_unusual_cell_is_what_the_checked_way_makes_of_it(nullable: bool) -> None:
    table = replace(TABLE, columns=tuple(replace(c, not_null=not nullable) for c in TABLE.columns))
    plan, checked = both(table)
    usual: Cells = [b"7", *(cells[0] for _, _, cells in TYPES)]
    assert taken(plan, insert_message(usual))
    for index, (_, _, cells) in enumerate(TYPES, start=1):
        for cell in cells:
            row = [*usual[:index], cell, *usual[index + 1 :]]
            message = insert_message(row)
            expected = outcome(checked, message)
            assert outcome(plan, message) == expected
            assert outcome(plan, message) == expected, "and the second time, when it has been learned"


def test_every_second_of_five_minutes() -> None:
    # Whose seconds since the epoch end in every way that a minute's can.
    table = Table("public", "t", OID, (column("at", "timestamp"),))
    plan, checked = both(table)
    for minute, second in itertools.product(range(5), range(60)):
        message = insert_message([f"2026-11-20 12:{minute:02d}:{second:02d}".encode()])
        assert outcome(plan, message) == outcome(checked, message)
    assert misses(plan) == 1


def test_rows_of_usual_cells_are_taken_whatever_is_null_in_them() -> None:
    plan, checked = both()
    for width in range(3):
        for nulls in itertools.combinations(range(1, len(TYPES) + 1), width):
            cells: Cells = [b"7", *(cells[0] for _, _, cells in TYPES)]
            for index in nulls:
                cells[index] = None
            message = insert_message(cells)
            assert outcome(plan, message) == outcome(checked, message)
            if width < 2:
                assert taken(plan, message)
    assert len(plan._reader._known) == plan_match._MOST


def test_unusual_texts_and_numbers_are_taken_as_well() -> None:
    plan, _ = both()
    cells: Cells = [b"-7", b"-7", 'é\\"\n'.encode(), b"x" * 4_000, b"-1.50", b"f", b"1e-05", *[None] * 4]
    cells[7] = b"1066-10-14 00:00:00"
    assert taken(plan, insert_message(cells))


CELLS = st.none() | st.text(alphabet='nt\0aé"', max_size=6).map(lambda text: text.replace("\0", "n").encode())


@given(st.lists(CELLS, min_size=4, max_size=4), st.lists(CELLS, min_size=4, max_size=4))
@example([b"abc", None, b"fn", b""], [b"abcn", b"f", None, b""])
@example([b"abc", None, None, b"n"], [b"abcn", None, b"", b"n"])
def test_nulls_are_not_taken_for_letters(first: Cells, second: Cells) -> None:
    table = Table("public", "t", OID, tuple(column(name, "text") for name in "abcd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_match, "_LEARNS_EVERY", 1)
        plan, checked = both(table)
        for row in (first, second, first, second):
            assert outcome(plan, insert_message(row)) == outcome(checked, insert_message(row))


def test_a_message_that_is_cut_or_goes_on_or_says_other_sizes_is_refused_as_the_checked_way_refuses_it() -> (
    None
):
    plan, checked = both()
    cells: Cells = [b"7", *(cells[0] for _, _, cells in TYPES)]
    message = insert_message(cells)
    assert taken(plan, message)
    damaged = [message[:end] for end in range(6, len(message))]
    damaged += [message + more for more in (b"1", b"n", b"t\0\0\0\x01a")]
    position = 8
    for cell in cells:
        assert cell is not None
        assert cell is not UNCHANGED
        for wrong in (len(cell) - 1, len(cell) + 1, 0, 255):
            damaged.append(message[: position + 4] + bytes((wrong,)) + message[position + 5 :])
        position += 5 + len(cell)
    assert position == len(message)
    for wrong_message in damaged:
        result = outcome(plan, wrong_message)
        assert result == outcome(checked, wrong_message)
        assert isinstance(result, tuple)


def test_a_row_that_does_not_match_is_given_up_in_linear_time() -> None:
    # With expressions that tried every way, this would not end.
    table = Table("public", "t", OID, tuple(column(f"c{n}", "text") for n in range(60)))
    plan, checked = both(table)
    assert taken(plan, insert_message([b"x" * 200] * 60))
    row: Cells = [b"n" * 200] * 59 + [None]
    assert outcome(plan, insert_message(row)) == outcome(checked, insert_message(row))


def test_a_table_of_1600_columns() -> None:
    table = Table("public", "t", OID, tuple(column(f"c{n}", "int4") for n in range(1_600)))
    plan, checked = both(table)
    row: Cells = [None if n % 7 == 3 else str(n).encode() for n in range(1_600)]
    assert taken(plan, insert_message(row))
    assert outcome(plan, insert_message(row)) == outcome(checked, insert_message(row))


def test_what_stands_behind_a_number_at_the_end_is_seen() -> None:
    table = Table("public", "t", OID, (column("a", "text"), column("b", "int4")))
    plan, checked = both(table)
    message = insert_message([b"a", b"12"])
    assert taken(plan, message)
    for damaged in (message + b"x", message + b"n", message[:-1]):
        assert outcome(plan, damaged) == outcome(checked, damaged)


def test_a_masked_key_is_itself_in_the_key() -> None:
    mappers = read_mappers({"column.mask.with.3.chars": "public.orders.name"})
    columns = (column("name", "text", not_null=True, key_position=1), column("n", "int4"))
    table = Table("public", "orders", OID, columns)
    plan, checked = (plan_for(table=table, checked_only=only, mappers=mappers) for only in (False, True))
    message = insert_message([b"secret", b"1"])
    assert taken(plan, message)
    ((key, value, _),) = plan.change(message, 0, context())
    assert key == b'{"name":"secret"}'
    assert b'"name":"***"' in (value or b"")
    assert outcome(plan, message) == outcome(checked, message)


class OneSchema:
    """A registry that gives every schema the same id."""

    def register(self, subject: str, schema: str) -> int:
        return 1


def test_a_key_in_another_format_than_the_value() -> None:
    key_converter = AvroConverter(OneSchema(), is_key=True)  # type: ignore[arg-type]  # all that is called
    columns = (column("price", "numeric", typmod=NUMERIC_10_2, not_null=True, key_position=1),)
    table = Table("public", "orders", OID, columns)
    plan, checked = (
        compile_plan(
            table, ConversionOptions("shop", "db"), key_converter, converters()[1], "t", checked_only=only
        )
        for only in (False, True)
    )
    message = insert_message([b"1.50"])
    assert taken(plan, message)
    assert outcome(plan, message) == outcome(checked, message)


def test_placeholders_go_the_other_way() -> None:
    plan, checked = both()
    cells: Cells = [b"7", *(cells[0] for _, _, cells in TYPES)]
    cells[2] = UNCHANGED
    message = b"U" + insert_message(cells)[1:]
    assert not taken(plan, message)
    assert outcome(plan, message) == outcome(checked, message)
