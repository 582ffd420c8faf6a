"""Names, prices and notes for the shop, made up by faker: pure, and the same for the same random numbers."""

import unicodedata
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

from faker import Faker

from tidings_shop.transactions import Json, Value

_LOCALES = ("en_GB", "de_DE", "fr_FR", "es_ES")
_EPOCH = date(2026, 1, 1)
_CENT = Decimal("0.01")

_CATALOGUE: dict[str, tuple[tuple[str, ...], int, int, float]] = {
    # category: nouns, cheapest, dearest, typical weight in kg
    "bike": (("Gravel", "Trekker", "City", "Enduro", "Racer", "Cargo"), 449, 7999, 12.5),
    "part": (("Chainring", "Saddle", "Derailleur", "Brake Set", "Wheel", "Fork"), 9, 649, 0.8),
    "clothing": (("Jersey", "Rain Jacket", "Bib Shorts", "Gloves", "Shoes"), 19, 249, 0.3),
    "accessory": (("Helmet", "Pump", "Lock", "Light", "Pannier", "Bell"), 7, 189, 0.5),
}
_CATEGORY_WEIGHTS = (3, 4, 2, 3)
_SERIES = (
    "Alpine",
    "Breeze",
    "Comet",
    "Dune",
    "Ember",
    "Fjord",
    "Gale",
    "Harbour",
    "Iris",
    "Juniper",
    "Kestrel",
)
_COLOURS = ("sand", "petrol", "moss", "cherry", "graphite", "ivory")
_NOTES = (
    "please ring twice",
    "leave it with the neighbours",
    "Bitte beim Nachbarn abgeben",
    "à livrer après 18 h",
    "a present: no invoice in the parcel, please",
    "the blue one, if there is one",
    "regalo 🎁 para María",
)


class ShopData:
    """Makes up rows. `random` decides everything, so equal seeds make equal rows."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._fakers = [Faker(locale) for locale in _LOCALES]
        for faker in self._fakers:
            faker.seed_instance(random.getrandbits(32))

    def customer(self, number: int) -> dict[str, Value]:
        """A customer; `number` keeps the e-mail address unique."""
        random = self._random
        faker = random.choice(self._fakers)
        first, last = faker.first_name(), faker.last_name()
        return {
            "email": f"{_ascii(first)}.{_ascii(last)}.{number}@example.com",
            "first_name": first,
            "last_name": last,
            "phone": faker.phone_number() if random.random() < 0.7 else None,
            "city": faker.city() if random.random() < 0.9 else None,
            "newsletter": random.random() < 0.4,
        }

    def city(self) -> str:
        """Where somebody has moved to."""
        return str(self._random.choice(self._fakers).city())

    def phone(self) -> str:
        """Somebody's new number."""
        return str(self._random.choice(self._fakers).phone_number())

    def product(self) -> dict[str, Value]:
        """A product, with a price in whole cents."""
        random = self._random
        category = random.choices(tuple(_CATALOGUE), _CATEGORY_WEIGHTS)[0]
        nouns, low, high, weight = _CATALOGUE[category]
        return {
            "sku": self.uuid(),
            "name": f"{random.choice(_SERIES)} {random.choice(nouns)} {random.randint(1, 9)}",
            "category": category,
            "price": Decimal(random.randint(low, high))
            - Decimal(random.choice(("0.01", "0.05", "0.50", "0"))),
            "weight_kg": round(weight * random.uniform(0.6, 1.5), 3) if random.random() < 0.8 else None,
            "attributes": self.attributes(category) if random.random() < 0.7 else None,
            "active": True,
        }

    def attributes(self, category: str) -> Json:
        """What only some products have."""
        random = self._random
        attributes: dict[str, object] = {"colour": random.choice(_COLOURS)}
        if category == "bike":
            attributes |= {"frame": random.choice(["S", "M", "L"]), "gears": random.choice([1, 11, 12, 24])}
        if category == "clothing":
            attributes["sizes"] = sorted(random.sample(["XS", "S", "M", "L", "XL"], k=3))
        return Json(attributes)

    def other_price(self, price: Decimal) -> Decimal:
        """A price that differs from `price` by up to a fifth, never below 1.00."""
        factor = Decimal(self._random.choice((80, 90, 95, 103, 105, 110, 120))) / 100
        other = max(Decimal("1.00"), (price * factor).quantize(_CENT))
        return other if other != price else price + _CENT

    def discount(self) -> Decimal:
        """A line's discount as a fraction."""
        return Decimal(self._random.choices(("0", "0.05", "0.10", "0.20"), (70, 15, 10, 5))[0])

    def note(self) -> str | None:
        """What a customer writes to an order, if anything."""
        return self._random.choice(_NOTES) if self._random.random() < 0.25 else None

    def required_on(self) -> date | None:
        """The day an order is needed, if it matters."""
        return _EPOCH + timedelta(days=self._random.randint(0, 365)) if self._random.random() < 0.5 else None

    def uuid(self) -> UUID:
        """A random UUID, version 4."""
        return UUID(int=self._random.getrandbits(128), version=4)


def _ascii(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "".join(letter for letter in plain if letter.isalnum()) or "someone"
