"""What of the shop the demo shows: its business events with their live versions, its tables, and colours."""

from tidings_shop.database import TABLES
from tidings_stack.pipeline.figures import Figures

EVENTS = (
    ("OrderPlaced", (1, 2)),
    ("OrderPaid", (1,)),
    ("OrderShipped", (1,)),
    ("OrderCancelled", (1,)),
    ("CustomerRegistered", (1,)),
    ("ProductPriceChanged", (1,)),
)
"""The shop's business events and their live versions."""
_STYLES = {
    "OrderPlaced": "bright_cyan",
    "OrderPaid": "green",
    "OrderShipped": "blue",
    "OrderCancelled": "red",
    "CustomerRegistered": "magenta",
    "ProductPriceChanged": "yellow",
}


def shop_figures() -> Figures:
    """An empty picture of the shop."""
    return Figures(title="the bike store, live", events=EVENTS, tables=TABLES, styles=_STYLES)
