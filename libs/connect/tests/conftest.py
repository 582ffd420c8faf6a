"""Connectors for tests, installed as a distribution would."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from sink_loop_parts import TOPIC, System, Task

from tidings_connect import registered
from tidings_connect.config import plugins
from tidings_connect.connector import Connector
from tidings_connect.task.sink import SinkContext, SinkTask
from tidings_connect.testing.memory_worker import MemoryWorker

TRANSFORM = """
from tidings_connect.transforms.record import Transform

class Same(Transform):
    def apply(self, record):
        return record

TRANSFORMS = {"counting.Same": Same}
"""
TRANSFORM_ENTRY = "[tidings.transforms]\ncounting = counting_transforms:TRANSFORMS\n"
PAGE = Path(__file__).parents[3] / "docs" / "connectors.md"


@pytest.fixture(scope="session")
def counting_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for ``sys.path`` with the module and the entry point of `docs/connectors.md`, as they are there."""
    directory = tmp_path_factory.mktemp("site")
    page = PAGE.read_text("utf-8")
    names = ("counting", "counting_contract", "listing", "listing_contract")
    for module, text in zip(names, re.findall(r"```python\n(.*?)```", page, re.DOTALL), strict=True):
        (directory / f"{module}.py").write_text(text, "utf-8")
    ((name, value),) = re.findall(
        r'```toml\n\[project\.entry-points\."tidings\.connectors"\]\n(\w+) = "(.*?)"\n```', page
    )
    info = directory / "counting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n", "ascii")
    (info / "entry_points.txt").write_text(
        f"[tidings.connectors]\n{name} = {value}\nlisting = listing:List\n{TRANSFORM_ENTRY}", "ascii"
    )
    (directory / "counting_transforms.py").write_text(TRANSFORM, "ascii")
    return directory


def forget() -> None:
    """Look for connectors anew."""
    registered.forget()
    for found in (plugins.connectors, plugins.secret_names, plugins.plugins):
        found.cache_clear()


@pytest.fixture
def counting(counting_distribution: Path) -> Iterator[None]:
    """The connector of `docs/connectors.md` is installed in this process."""
    sys.path.insert(0, str(counting_distribution))
    forget()
    yield
    sys.path.remove(str(counting_distribution))
    forget()


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type[Connector]], None]]:
    """Makes a class the only connector of this process."""

    def only(connector: type[Connector]) -> None:
        forget()
        with monkeypatch.context() as patch:
            patch.setattr(plugins, "registered", lambda _group: [connector])
            plugins.connectors()

    yield only
    forget()


@pytest.fixture
def system() -> System:
    """What the sink of `worker` writes to."""
    return System()


@pytest.fixture
def worker(counting: None, system: System) -> Iterator[MemoryWorker]:
    """A worker whose only connector is a sink to `system`."""
    import listing

    class Connector(listing.List):  # type: ignore[misc]  # the page's module has no types
        def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
            return system.task or (system.make_task or partial(Task, system))(context)

    with MemoryWorker(Connector(), "loop") as worker:
        worker.kafka.inputs.create(TOPIC, 2)
        system.count_letters = lambda: len(worker.kafka.topics.get("letters", []))
        yield worker
