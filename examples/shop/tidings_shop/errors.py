"""What can go wrong in the shop and its demo."""

from tidings_service.errors import TidingsError


class ShopError(TidingsError):
    """The shop's database cannot be used, or its traffic cannot go on."""

    code = "shop"


class DemoError(TidingsError):
    """The demo cannot go on; the message names the service or the figure."""

    code = "demo"
