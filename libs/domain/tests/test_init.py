"""`tidings-translator init`: what it writes of a real database loads, and its test passes and can fail."""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tidings_domain import Domain, load_domain
from tidings_domain.starting.cli import _summary, main
from tidings_domain.starting.proposal import Proposal

HERE = Path(__file__).parent
SHOP = HERE.parents[2] / "examples/shop/tidings_shop/schema.sql"
Run = Callable[..., tuple[Domain, dict[str, Callable[[], None]]]]


@pytest.fixture
def run_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the command, and gives the domain and the functions of its test."""
    written: list[str] = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(name: str, *options: str) -> tuple[Domain, dict[str, Callable[[], None]]]:
        assert main(["--name", name, "--into", str(tmp_path), *options]) == 0
        written.extend((name, f"test_{name}"))
        importlib.invalidate_caches()
        domain = load_domain(name)
        tests = vars(importlib.import_module(f"test_{name}"))
        return domain, {n: test for n, test in tests.items() if n.startswith("test_")}

    yield run
    for name in list(sys.modules):
        if name.partition(".")[0] in written:
            del sys.modules[name]


def create(url: str, script: Path) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(script.read_text(encoding="utf-8").encode())


def shape(domain: Domain) -> dict[str, dict[str, str]]:
    """Aggregate to its fields that are not columns, each with the table they lead to."""
    return {
        name: {field: relation.row.__table__ for field, relation in cls.__relations__.items()}
        for name, cls in domain.aggregates.items()
    }


def test_the_shops_tables(
    pg_database: str, run_init: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(pg_database, SHOP)
    domain, tests = run_init("store", "--database", pg_database)
    assert shape(domain) == {
        "Customer": {},
        "Order": {
            "items": "public.order_items",
            "payments": "public.payments",
            "shipments": "public.shipments",
            "customer": "public.customers",
        },
        "Product": {},
    }
    lines = domain.aggregates["Order"].__relations__["items"].row
    assert (lines.__key__, set(lines.__relations__)) == (("order_id", "line_no"), {"product"})
    assert lines.__relations__["product"].required
    assert domain.aggregates["Order"].__relations__["customer"].required
    assert set(tests) == {"test_customer_created", "test_order_created", "test_product_created"}
    for test in tests.values():
        test()
    told = capsys.readouterr().out
    assert "items: public.order_items, because its primary key begins with the other's" in told
    assert "payments: public.payments, because it always has one and nobody refers to it" in told
    settings = (tmp_path / "pyproject.toml").read_text()
    assert 'classes = { store = "store/events.py" }' in settings

    # Its test can fail: a rule that says nothing.
    rules = tmp_path / "store/rules.py"
    rules.write_text(rules.read_text().replace("if change.created:", "if change.deleted:"))
    shutil.rmtree(
        rules.parent / "__pycache__", ignore_errors=True
    )  # knows the file by its second and its size
    for name in [name for name in sys.modules if name.partition(".")[0] == "store"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    sys.modules.pop("test_store")
    with pytest.raises(AssertionError, match="event 1 is missing: OrderCreated"):
        importlib.import_module("test_store").test_order_created()

    # What is there is never overwritten.
    (tmp_path / "schemas").rename(tmp_path / "elsewhere")
    assert main(["--name", "store", "--into", str(tmp_path), "--database", pg_database]) == 1
    assert "store/rules.py" in capsys.readouterr().err
    assert not (tmp_path / "schemas").exists()


def test_tables_that_are_hard(
    pg_database: str, run_init: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(pg_database, HERE / "nasty.sql")
    domain, tests = run_init("nasty", "--database", pg_database, "--root", "public.people")
    assert shape(domain) == {
        "Category": {"parent": "public.categories"},
        "Parcel": {
            "category_rows": "public.parcel_category",
            "items": "public.parcel_items",
            "sender_row": "public.people",
            "receiver_row": "public.people",
            "category": "public.categories",
        },
        "Person": {},
        "PublicRow": {},
        "TreeBox": {},
    }
    items = domain.aggregates["Parcel"].__relations__["items"]
    assert items.by == ("country", "parcel")
    assert items.row.__relations__["scans"].by == ("country", "parcel", "no")
    for test in tests.values():
        test()
    text = (tmp_path / "nasty/aggregates.py").read_text()
    for line in (
        '    class_: str = field(name="class")',
        '    with_space: str | None = field(name="with space")',
        "    date: date",
        "    woken: datetime | None",
        "    woken_ms: Annotated[datetime, MILLISECONDS] | None",
        "    moods: list[str] | None",
        "    days: list[int] | None  # days, as numbers",
        "    amounts: list[Decimal] | None",
        "    spot: dict[str, Any] | None",
        "    bit1: bool | None",
    ):
        assert f"{line}\n" in text
    told = capsys.readouterr().out
    assert "public.people: column twice is generated" in told
    assert "public.keyless is left out" in told
    assert "def test_" in (tmp_path / "test_nasty.py").read_text()


def test_tables_of_the_registry(registry_url: str, unique_name: str, run_init: Run) -> None:
    from tidings_envelope.registry import RegistryClient

    def register(table: str, key: list[str], *fields: Any) -> None:
        namespace = f"{unique_name}.public.{table}"
        row = {"type": "record", "name": "Value", "fields": [{"name": n, "type": t} for n, t in fields]}
        keys = [{"name": n, "type": t} for n, t in fields if n in key]
        envelope = {
            "type": "record", "name": "Envelope", "namespace": namespace,
            "fields": [
                {"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]},
                {"name": "op", "type": "string"},
            ],
        }  # fmt: skip
        registry.register(f"{namespace}-value", envelope)
        registry.register(
            f"{namespace}-key", {"type": "record", "name": "Key", "namespace": namespace, "fields": keys}
        )

    moment = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    money = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    with RegistryClient(registry_url) as registry:
        register("orders", ["id"], ("id", "long"), ("total", ["null", money]), ("at", moment))
        register("order_items", ["order_id", "no"], ("order_id", "long"), ("no", "int"))
        domain, tests = run_init("guess", "--registry", registry_url, "--source", unique_name)
    assert shape(domain) == {"Order": {"items": "public.order_items"}}
    assert [(f, str(t)) for f, t in domain.aggregates["Order"].__annotations__.items()][1:] == [
        ("total", "decimal.Decimal | None"),
        ("at", "<class 'datetime.datetime'>"),
    ]
    tests["test_order_created"]()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 2, "where are the tables"),
        (["--name", "My Shop", "--database", "postgresql://localhost"], 2, "--name My Shop"),
        (["--registry", "http://127.0.0.1:9"], 2, "--source"),
        (["--database", "postgresql://u:sesame@127.0.0.1:1/db"], 1, "--database: connection"),
        (["--database", "postgresql://u:sesame@host/db?nonsense=1"], 1, "--database is not a PostgreSQL URL"),
    ],
)
def test_mistakes_are_told_without_the_password(
    options: list[str],
    code: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIDINGS_DATABASE", raising=False)
    assert main(options) == code
    told = capsys.readouterr().err
    assert says in told
    assert "sesame" not in told


def test_settings_that_are_there_are_not_asked_for(tmp_path: Path) -> None:
    nothing, pyproject = Proposal((), (), ()), tmp_path / "pyproject.toml"
    assert "Add to" not in _summary(tmp_path, "toy_shop", nothing)
    assert "no:asyncio" in pyproject.read_text(), "where pytest-asyncio is installed it warns of a setting"
    assert "Add to" not in _summary(tmp_path, "toy_shop", nothing), "the first run has written it"
    assert "Add to classes in" in _summary(tmp_path, "other", nothing)
    pyproject.write_text("[project]\n")
    assert "[tool.tidings-schemas]" in _summary(tmp_path, "other", nothing)
