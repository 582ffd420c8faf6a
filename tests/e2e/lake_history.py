"""A generation begins with the lakehouse's log where Kafka has deleted history, or with a replay of its rules over it, and goes on
in the topics behind it.

The truth it holds: under traffic, with the beginning of every technical topic deleted, the generation says exactly what the live one
says, event by event: neither a gap nor a repeat where the log ends and the topics go on. Promoted, it publishes what the live one
would have: each fact of the database is one event. It takes minutes, so it is not part of the suite:
``.venv/bin/pytest tests/e2e/lake_history.py``.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_stack.pipeline.services import Service
from tidings_stack.ports import PortReservations

if TYPE_CHECKING:
    from conftest import Shop

PATIENCE_SECONDS = 400.0
ENOUGH = 100
"""Rows and events on either side of where the log ends."""

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(2400)]


@pytest.mark.parametrize("way", ["lake", "replay"])
@pytest.mark.parametrize("shop", ["postgresql", "mariadb", "mysql"], indirect=True)
def test_a_generation_begins_with_the_lakehouse_and_goes_on_in_the_topics(
    shop: "Shop", tmp_path: Path, way: str
) -> None:
    pipeline, figures = shop.demo.pipeline, shop.demo._figures
    history, generation = tmp_path / "history", "rebuilt"
    write = ("history",) if way == "lake" else ("replay", "--domain", "tidings_shop.domain", "--generation")

    def run(program: str, *words: str, fails: str = "") -> str:
        tool = Path(sys.executable).with_name(program)
        environment = pipeline.environment()
        done = subprocess.run(
            [str(tool), *words], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert (done.returncode != 0) == bool(fails), done.stderr
        assert fails in done.stderr
        return done.stdout

    pipeline.until(lambda: figures.lake.total > 10 * ENOUGH, PATIENCE_SECONDS, "rows in the lake")
    run("tidings-lakehouse", *write, str(history))
    topics = json.loads((history / f"{'history' if way == 'lake' else 'replay'}.json").read_text())["topics"]
    assert {"shop.transaction", "shop.public.customers", "shop.public.orders"} <= topics.keys()
    beginnings = [
        TopicPartition(topic, int(number), (span["last"] + 1) // 5 if way == "lake" else span)
        for topic, one in topics.items()
        for number, span in one["partitions"].items()
    ]
    admin = AdminClient({"bootstrap.servers": pipeline.stack.kafka.bootstrap})
    for future in admin.delete_records(beginnings).values():
        future.result(60)

    commands = ("tidings-translator", "generations")
    run(*commands, "start", "whole", fails="--from-lake")
    said = ""
    # A lakehouse that is behind is asked again, as the command's hint says.
    for attempt in range(12):
        try:
            said = run(*commands, "start", generation, f"--from-{way}", str(history))
            break
        except AssertionError as error:
            if "history is not whole" not in str(error):
                raise
            time.sleep(10)
            history = tmp_path / f"history-{attempt}"
            run("tidings-lakehouse", *write, str(history))
    assert f" records {'read' if way == 'lake' else 'written'}\n" in said
    told_before = figures.business.total
    ports = PortReservations()
    services = []
    try:
        for name in ("sequencer", "translator"):
            port = ports.reserve()
            environment = {"TIDINGS_GENERATION": generation, "TIDINGS_HTTP_PORT": str(port)}
            services.append(
                Service(
                    f"{generation}-{name}",
                    [f"tidings-{name}"],
                    environment=pipeline.environment() | environment,
                    url=f"http://127.0.0.1:{port}",
                    directory=tmp_path,
                )
            )
            services[-1].start()
        found: Counter[str] = Counter()

        def compared() -> bool:
            for service in services:
                service.check()
            found.clear()
            for line in run(*commands, "diff", generation, "--json", "--examples", "2").splitlines():
                one: dict[str, Any] = json.loads(line)
                assert (one["changed"], one["only_live"], one["only_shadow"]) == (0, 0, 0), one
                found["same"] += one["same"]
            return found["same"] > told_before + ENOUGH

        pipeline.until(compared, PATIENCE_SECONDS, "events of commits that are only in the topics")
        shop.customers.check()
        run(*commands, "promote", generation)
        published = figures.business.total
        pipeline.until(
            lambda: figures.business.total > published + ENOUGH,
            PATIENCE_SECONDS,
            "events of the new generation",
        )
        summary = shop.customers.end()
        assert shop.demo._compare(summary, shop.demo._drain(summary)).problems() == []
    finally:
        for service in services:
            service.stop()
            print(f"--- end of {service.name}\n{service.tail()}")
        ports.release()
