"""Business events in a few words, for people who watch. The fields are those of the contracts in schemas/shop."""

from collections.abc import Mapping

Payload = Mapping[str, object]


def sentence(name: str, payload: Payload) -> tuple[str, str]:
    """What an event is about, and what it says: ``("order 118", "3 lines, 1,204.50 EUR")``."""
    match name:
        case "OrderPlaced":
            said = [*_customer(payload), *_lines(payload), _money(payload, "total")]
        case "OrderPaid":
            said = [_money(payload, "paid")]
        case "OrderShipped":
            said = [f"with {payload['carrier']}"]
        case "OrderCancelled":
            said = ["it had been paid"] if payload["was_paid"] else []
        case "CustomerRegistered":
            said = [_person(payload)]
        case "ProductPriceChanged":
            said = [f"{payload['name']}: {payload['old_price']} → {payload['new_price']}"]
        case _:
            return "", ""
    kind = next(kind for kind in ("order", "customer", "product") if name.lower().startswith(kind))
    return f"{kind} {payload[f'{kind}_id']}", ", ".join(said)


def _customer(payload: Payload) -> list[str]:
    customer = payload.get("customer")
    return [_person(customer)] if isinstance(customer, Mapping) else []


def _person(person: Payload) -> str:
    city = person.get("city")
    return f"{person['first_name']} {person['last_name']}" + (f" from {city}" if city else "")


def _lines(payload: Payload) -> list[str]:
    lines = payload.get("lines")
    if not isinstance(lines, list):
        return []
    return ["1 line" if len(lines) == 1 else f"{len(lines)} lines"]


def _money(payload: Payload, name: str) -> str:
    return f"{payload[name]:,} {payload['currency']}"
