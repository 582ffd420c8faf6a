"""The picture and the line, drawn without a terminal."""

import io
from decimal import Decimal

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from tidings_shop.database import TABLES
from tidings_shop.demo.sentences import sentence
from tidings_shop.demo.shown import EVENTS, shop_figures
from tidings_stack.pipeline.figures import Figures, Lag, LatestEvent, Part, Series, State
from tidings_stack.pipeline.view import curve_of, draw, duration, line, size, snake


def rendered(picture: RenderableType, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture
def figures() -> Figures:
    """A demo in the middle of its minute."""
    figures = shop_figures()
    figures.phase, figures.elapsed, figures.progress = "traffic, 20 transactions a second", 72.4, 0.6
    figures.parts = [
        Part(name, State.READY, 0.0, 3.2) for name in ("PostgreSQL", "Kafka", "registry", "capture")
    ]
    figures.parts.append(Part("lakehouse", State.STARTING, since=50.0))
    for series, top in (
        (figures.transactions, 20),
        (figures.technical, 75),
        (figures.business, 18),
        (figures.lake, 140),
    ):
        for second in range(30):
            series.sample(second * top, float(second))
    figures.rolled_back = 31
    figures.business_by_version.update(
        {("OrderPlaced", 1): 311, ("OrderPlaced", 2): 312, ("OrderPaid", 1): 205}
    )
    figures.lake_by_table.update({"business.order_placed_v1": 300, "business.order_placed_v2": 301})
    figures.technical_by_table.update(dict.fromkeys(TABLES, 77))
    figures.capture_lag = Lag(seconds=0.12, bytes=12_345)
    figures.sequencer_lag, figures.translator_lag = Lag(records=3), Lag(records=12)
    figures.lakehouse_lag = Lag(records=240, seconds=2.2)
    figures.retained_log_bytes = 1_234_567
    figures.latency_seconds = 0.028
    figures.first_event_seconds = 14.2
    figures.latest.append(
        LatestEvent("23:14:05", "OrderPlaced", 2, "order 118", "Zoé [Aix], 3 lines, 1,204.50 EUR", 0.031)
    )
    return figures


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_picture_fits_its_width(figures: Figures, width: int) -> None:
    assert max(cell_len(one) for one in rendered(draw(figures), width)) <= width


@pytest.mark.parametrize("width", [100, 140])
def test_the_picture_says_everything(figures: Figures, width: int) -> None:
    lines = rendered(draw(figures), width)
    picture = "\n".join(lines)
    for words in (
        "580",
        "2,175",
        "522",
        "4,060",
        "1.2 MB",
        "120 ms",
        "12.3 kB",
        "3 + 12",
        "28 ms",
        "2.2 s old",
    ):
        assert words in picture, words
    for name, _ in EVENTS:
        assert name in picture
    for table in TABLES:
        assert table in picture
    assert "Zoé [Aix], 3 lines" in picture
    assert "the first came 14 s after the start" in picture
    rows = [one.split()[:4] for one in lines if one.lstrip().startswith("OrderPlaced v")]
    assert rows == [["OrderPlaced", "v2", "312", "301"], ["OrderPlaced", "v1", "311", "300"]]


@pytest.mark.parametrize("height", [24, 30, 50])
def test_the_picture_fits_its_height_and_keeps_it(figures: Figures, height: int) -> None:
    before = len(rendered(draw(shop_figures(), height)))
    during = len(rendered(draw(figures, height)))
    assert before <= max(height, 26)
    assert abs(before - during) <= 1


def test_dead_letters_are_not_overlooked(figures: Figures) -> None:
    assert "no dead letters" in "\n".join(rendered(draw(figures)))
    figures.dead_letters = 2
    assert "2 dead letters" in "\n".join(rendered(draw(figures)))


def test_a_log_gets_the_same_figures_in_one_line(figures: Figures) -> None:
    text = line(figures)
    assert "\n" not in text
    for words in (
        "580 transactions",
        "2,175 technical events",
        "522 business events",
        "4,060 rows in the lake",
        "capture 120 ms",
        "sequencer 3 records",
        "lakehouse 240 records",
        "1.2 MB",
    ):
        assert words in text, words


def test_a_log_says_what_is_starting() -> None:
    figures = Figures(elapsed=3.0, parts=[Part("Kafka", State.STARTING), Part("capture")])
    assert line(figures) == "starting Kafka"


def test_rates_become_a_curve() -> None:
    assert curve_of([0.0, 5.0, 10.0], 10) == "▁▄█"
    assert curve_of([0.0, 0.0], 10) == "▁▁"
    assert curve_of([], 10) == ""
    assert curve_of([1.0] * 50, 7) == "█" * 7
    series = Series()
    for at, total in ((0.0, 10), (1.0, 30), (2.0, 30), (2.0, 31)):
        series.sample(total, at)
    assert list(series.rates) == [20.0, 0.0]
    assert series.rate() == 10.0


def test_units() -> None:
    assert [size(n) for n in (None, 0, 999, 1_500, 2_000_000, 3_100_000_000)] == [
        "-", "0 B", "999 B", "1.5 kB", "2.0 MB", "3.1 GB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.0284, 2.0)] == ["28 ms", "2.0 s"]
    assert snake("ProductPriceChanged") == "product_price_changed"


def test_events_are_said_in_words() -> None:
    person = {"first_name": "Zoé", "last_name": "Dupont", "city": None}
    order = {"order_id": 7, "total": Decimal("1204.50"), "currency": "EUR"}
    assert sentence("OrderPlaced", order) == ("order 7", "1,204.50 EUR")
    assert sentence("OrderPlaced", order | {"customer": person, "lines": [{}, {}]}) == (
        "order 7",
        "Zoé Dupont, 2 lines, 1,204.50 EUR",
    )
    assert sentence("CustomerRegistered", {"customer_id": 4, **person, "city": "Lyon"}) == (
        "customer 4",
        "Zoé Dupont from Lyon",
    )
    prices = {
        "product_id": 5,
        "name": "Dune Saddle 2",
        "old_price": Decimal("9.50"),
        "new_price": Decimal("9.00"),
    }
    assert sentence("ProductPriceChanged", prices) == ("product 5", "Dune Saddle 2: 9.50 → 9.00")
    assert sentence("OrderCancelled", {"order_id": 7, "was_paid": False}) == ("order 7", "")
    assert sentence("OrderShipped", {"order_id": 7, "carrier": "UPS"}) == ("order 7", "with UPS")
    assert sentence("SomethingNew", {}) == ("", "")
