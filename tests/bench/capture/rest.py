"""Twenty concurrent PUTs of connectors: until all are answered, and the slowest answer; capture and real Kafka Connect.

Creation, a change of running connectors, the same configuration again, and a change of stopped ones, which starts no task.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.bench.engines import Bench, Engine, bench, request

CONNECTORS = 20
ROUNDS = 2
"""The first one also warms up."""


def run(_rows: int) -> None:
    """Print both engines' times."""
    with bench() as made:
        for number in range(1, ROUNDS + 1):
            for engine in made.engines:
                _measure(made, engine, number)


def _measure(made: Bench, engine: Engine, number: int) -> None:
    names = [f"rest{number}x{one}" for one in range(CONNECTORS)]

    def put(milliseconds: str) -> Callable[[str], None]:
        def put_one(name: str) -> None:
            config = made.config(engine, name, "json", snapshot_mode="no_data", poll_interval_ms=milliseconds)
            request("PUT", f"{engine.rest}/connectors/{name}/config", config)

        return put_one

    def running() -> None:
        for name in names:
            engine.wait(name, "RUNNING")

    found = {"created": _all_at_once(put("100"), names)}
    running()
    found["changed"] = _all_at_once(put("101"), names)
    running()
    found["the same again"] = _all_at_once(put("101"), names)
    for name in names:
        request("PUT", f"{engine.rest}/connectors/{name}/stop")
    found["changed while stopped"] = _all_at_once(put("102"), names)
    for name in names:
        engine.delete(name)
        made.drop_slot(f"bench_{engine.name}_{name}")
    told = ", ".join(
        f"{what} in {whole:.2f} s (slowest {slowest:.2f})" for what, (whole, slowest) in found.items()
    )
    print(f"  {engine.name}, round {number}: {CONNECTORS} connectors {told}", flush=True)


def _all_at_once(action: Callable[[str], None], names: list[str]) -> tuple[float, float]:
    """Seconds for all, and for the slowest of them."""

    def timed(name: str) -> float:
        began = time.monotonic()
        action(name)
        return time.monotonic() - began

    began = time.monotonic()
    with ThreadPoolExecutor(len(names)) as pool:
        slowest = max(pool.map(timed, names))
    return time.monotonic() - began, slowest
