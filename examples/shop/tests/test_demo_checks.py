"""The verdict: all is well when it is, and every doctored number is found."""

import datetime as dt
import io
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest
from rich.console import Console

from tidings_shop.demo.broker import TopicCount, topic_of
from tidings_shop.demo.checks import KEYS, Row, Verdict, canonical, compare_table
from tidings_shop.demo.gather import DEAD_LETTERS, VERSIONS, event_table, verdict_of
from tidings_shop.demo.summary_view import draw_summary
from tidings_shop.traffic import TrafficSummary
from tidings_stack.pipeline.figures import Figures

ORDER = {"id": 1, "customer_id": 3, "note": None, "required_on": dt.date(2026, 5, 1)}
FACTS = Counter({"OrderPlaced": 3, "OrderPaid": 2, "OrderShipped": 1, "CustomerRegistered": 4})


class World:
    """What database, topics and lake say when all is well; doctor it, and ask for the verdict."""

    def __init__(self) -> None:
        self.summary = TrafficSummary(1, facts=Counter(FACTS))
        self.rows: dict[str, list[Row]] = {table: [] for table in KEYS}
        self.rows["orders"] = [ORDER | {"id": n} for n in (1, 2, 3)]
        self.rows["order_items"] = [
            {"order_id": 1, "line_no": 1, "quantity": 2},
            {"order_id": 1, "line_no": 2, "quantity": 1},
        ]
        self.topics = {
            topic_of(*one): TopicCount(FACTS[one[0]], {f"{one}{n}" for n in range(FACTS[one[0]])})
            for one in VERSIONS
        }
        self.topics[DEAD_LETTERS] = TopicCount()
        self.in_lake: dict[str, list[dict[str, object]]] = {
            event_table(*one): [{"records": FACTS[one[0]], "ids": FACTS[one[0]]}] for one in VERSIONS
        }
        self.in_lake |= {table: [dict(row) for row in rows] for table, rows in self.rows.items()}

    def table(self, name: str) -> list[dict[str, object]]:
        return self.in_lake[name]

    def event(self, name: str, version: int) -> dict[str, object]:
        return self.in_lake[event_table(name, version)][0]

    def verdict(self) -> Verdict:
        return verdict_of(self.summary, self.rows, self.topics, self.in_lake)

    def problem(self) -> str:
        (problem,) = self.verdict().problems()
        return problem


def test_all_is_well() -> None:
    assert World().verdict().problems() == []


def test_an_event_that_is_lost() -> None:
    world = World()
    world.topics["shop.order-placed.v2"] = TopicCount(2, {"a", "b"})
    assert world.problem() == "OrderPlaced v2: 2 on the topic instead of 3"


def test_an_event_that_is_told_twice() -> None:
    world = World()
    world.topics["shop.order-paid.v1"].records += 1
    assert world.problem() == "OrderPaid v1: 1 events are more than once on the topic"


def test_an_order_that_only_the_database_has() -> None:
    world = World()
    world.rows["orders"].append(ORDER | {"id": 4})
    problems = world.verdict().problems()
    assert "OrderPlaced v1: 3 on the topic instead of 4" in problems
    assert "OrderPlaced v2: 3 on the topic instead of 4" in problems
    assert any(
        p.startswith("orders: in the lake 1 rows missing") and "id 4 is missing" in p for p in problems
    )


def test_an_event_that_the_lake_lacks_or_has_twice() -> None:
    world = World()
    world.event("OrderShipped", 1)["records"] = 0
    world.event("OrderShipped", 1)["ids"] = 0
    assert world.problem() == "OrderShipped v1: 0 rows in the lake instead of 1"
    world = World()
    world.event("OrderShipped", 1)["records"] = 2
    assert world.problem() == "OrderShipped v1: 1 events are more than once in the lake"


def test_a_row_with_another_value() -> None:
    world = World()
    world.table("order_items")[1]["quantity"] = 9
    problem = world.problem()
    assert problem == (
        "order_items: in the lake 0 rows missing, 0 too many, 1 different; the first: order_id 1 line_no 2 in quantity"
    )


def test_a_row_that_was_deleted_and_stayed_or_is_there_twice() -> None:
    world = World()
    world.table("orders").append(ORDER | {"id": 9})
    assert "0 rows missing, 1 too many, 0 different; the first: id 9 is too many" in world.problem()
    world = World()
    world.table("orders").append(dict(world.table("orders")[0]))
    assert "1 too many" in world.problem()


def test_a_column_that_the_lake_lacks() -> None:
    world = World()
    for row in world.table("orders"):
        del row["note"]
    assert "3 different; the first: id 1 in note" in world.problem()


def test_dead_letters_and_remarks_are_problems() -> None:
    world = World()
    world.topics[DEAD_LETTERS].records = 2
    verdict = replace(world.verdict(), remarks=("the pipeline did not drain",))
    assert verdict.problems() == ["2 dead letters", "the pipeline did not drain"]


def test_the_summary_shows_what_is_off() -> None:
    def drawn(verdict: Verdict) -> str:
        console = Console(file=io.StringIO(), width=100)
        console.print(draw_summary(verdict, Figures(first_event_seconds=12.34)))
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    fine = drawn(World().verdict())
    assert "✗" not in fine
    assert "the lake equals the database" in fine
    assert "first business event 12.3 s after the start" in fine
    world = World()
    world.table("order_items").pop()
    off = drawn(world.verdict())
    assert off.count("✗") == 2  # the table's row, and the sentence
    assert "the lake equals the database" not in off


@pytest.mark.parametrize(
    ("value", "in_the_lakes_json"),
    [
        (Decimal("9.50"), 9.5),
        (Decimal("9.50"), "9.50"),
        (Decimal("100"), 100.0),
        (3, 3),
        (0.3, 0.3),
        (True, True),
        (None, None),
        ("10", "10"),
        ("é ✓", "é ✓"),
        (dt.date(2026, 5, 1), "2026-05-01"),
        (dt.datetime(2026, 5, 1, 12, 0, 0, 120, tzinfo=dt.UTC), "2026-05-01T12:00:00.000120Z"),
        (
            dt.datetime(2026, 5, 1, 12, 0, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "2026-05-01T10:00:00+00:00",
        ),
        (dt.datetime(2026, 5, 1, 12, 0), "2026-05-01 12:00:00"),  # noqa: DTZ001 - a timestamp without time zone
        (UUID(int=5), str(UUID(int=5))),
        ({"b": [1], "a": "x"}, '{"a": "x", "b": [1]}'),
    ],
)
def test_equal_values_are_equal_however_json_has_them(value: object, in_the_lakes_json: object) -> None:
    row, found = {"id": 1, "value": value}, {"id": 1, "value": in_the_lakes_json, "_position": 7}
    assert compare_table("customers", [row], [found]).problem is None


@pytest.mark.parametrize(
    ("value", "in_the_lakes_json"),
    [
        (Decimal("9.50"), 9.51),
        (True, 1),
        (None, ""),
        (None, "null"),
        ("", None),
        ("a", "b"),
        (1, None),
        (dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC), "2026-05-01T12:00:00.000001Z"),
        (dt.date(2026, 5, 1), "2026-05-02"),
        ({"a": 1}, '{"a": 2}'),
    ],
)
def test_other_values_are_not(value: object, in_the_lakes_json: object) -> None:
    row, found = {"id": 1, "value": value}, {"id": 1, "value": in_the_lakes_json}
    assert compare_table("customers", [row], [found]).differing == 1


def test_canonical_numbers_compare_as_numbers() -> None:
    assert canonical(1) == canonical(1.0) == canonical(Decimal("1.00"))
    assert canonical(True) != canonical(1)
