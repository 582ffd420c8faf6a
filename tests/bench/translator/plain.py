"""The rules as a plain Faust agent has them, one event at a time, beside the translator: the same change sets, the same evaluator.

The agent keeps states in a dictionary, encodes every live version and sends it with Faust's own producer; it has neither
transactions nor a changelog, so it does less than the translator does. It is measured over the first 20,000 change sets,
since a tenth of the speed would take ten times as long for the same figure. Run as a module of its own it is that agent.
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.translator.backlog import Backlog, Figure, _drain
from tests.bench.translator.shop_backlog import write_backlog

from tidings_stack import Stack

GROUP = "bench-plain-agent"
AGENT_RECORDS = 20_000
"""As many change sets are enough for the agent's rate."""


def run(rows: int) -> None:
    """Print the figures of the translator and of the agent, on the same change sets."""
    with Stack(members=("kafka", "registry")) as stack:
        bootstrap, registry = stack.kafka.bootstrap, stack.registry.url
        prefix = f"plain_{secrets.token_hex(3)}"
        topics = write_backlog(bootstrap, registry, prefix, rows, "json")
        environment = {
            **os.environ,
            "TIDINGS_KAFKA": bootstrap,
            "TIDINGS_REGISTRY": registry,
            "TIDINGS_DOMAIN": "tidings_shop.domain",
            "TIDINGS_SOURCE": prefix,
            "TIDINGS_HTTP_PORT": "0",
        }
        logs = Path(stack.directory)
        sequencer = Backlog(bootstrap, f"tidings-sequencer-{prefix}", topics)
        _drain("sequencer", sequencer, rows, environment, logs / "plain-sequencer.log")
        sequencer.close()
        change_sets = f"tidings.{prefix}.change-sets"
        ours = Backlog(bootstrap, f"tidings-translator-{prefix}", [change_sets])
        _tell("translator", _drain("translator", ours, rows, environment, logs / "plain-translator.log"))
        ours.close()
        _out_topics(bootstrap)
        plain = Backlog(bootstrap, GROUP, [change_sets])
        _tell(
            "plain agent", _drain_plain(plain, rows, {**environment, "BENCH_CHANGE_SETS": change_sets}, logs)
        )
        plain.close()


def _tell(name: str, figure: Figure) -> None:
    print(
        f"  {name:11} {figure.rows_per_second:9,.0f} rows/s {1e6 / figure.cpu_microseconds:9,.0f} rows per CPU second"
        f" {figure.resident_mb:6,.0f} MB",
        flush=True,
    )


def _out_topics(bootstrap: str) -> None:
    from tidings_domain import load_domain
    from tidings_domain.language.events import topic_of

    names = [f"plain.{topic_of(event)}" for event in load_domain("tidings_shop.domain").event_classes()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 4, 1) for name in names]).values():
        made.result()


def _drain_plain(backlog: Backlog, rows: int, environment: dict[str, str], logs: Path) -> Figure:
    with (logs / "plain-agent.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.translator.plain"],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        left = backlog.wait(backlog.size - 1, process)
        start, cpu = time.monotonic(), cpu_seconds(process.pid)
        # Control records of the transactional topic are never acknowledged, and offsets are committed now and then.
        backlog.wait(max(left - AGENT_RECORDS, backlog.size // 50), process)
        now = backlog.left()
        seconds, cpu = time.monotonic() - start, cpu_seconds(process.pid) - cpu
        share = rows * (left - now) / backlog.size
        return Figure("plain", share / seconds, cpu / share * 1e6, resident_bytes(process.pid) / 1e6)
    finally:
        process.kill()
        process.wait(60)


def _agent() -> Any:
    """The application, as Faust's own documentation would have one write it."""
    import faust

    from tidings_domain import load_domain
    from tidings_domain.changes import decode_change_set
    from tidings_domain.evaluation.evaluate import Evaluator

    app = faust.App(
        GROUP,
        broker=f"kafka://{os.environ['TIDINGS_KAFKA']}",
        autodiscover=False,
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        producer_linger=0.02,
        producer_max_batch_size=262_144,
        broker_commit_interval=1.0,
        datadir=f"/tmp/{GROUP}-{os.getpid()}",
    )
    app.topics._resubscribe_sleep_lock_seconds = 0.2  # it sleeps for 45 s otherwise before it reads
    evaluator = Evaluator(load_domain(os.environ["TIDINGS_DOMAIN"]))
    states: dict[bytes, bytes | None] = {}
    source = app.topic(
        os.environ["BENCH_CHANGE_SETS"], key_type=bytes, value_type=bytes, value_serializer="raw"
    )
    outs: dict[str, Any] = {}

    @app.agent(source)
    async def translate(stream: Any) -> None:
        async for event in stream.events():
            found = evaluator.apply(states.get(event.key), decode_change_set(event.value))
            states[event.key] = found.new_state
            for published in found.events:
                out = outs.get(published.topic)
                if out is None:
                    name = f"plain.{published.topic}"
                    out = outs[published.topic] = app.topic(
                        name, value_serializer="raw", key_serializer="raw"
                    )
                await out.send(key=published.key, value=published.body, headers=dict(published.headers))

    return app


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--loglevel=warn"]
    _agent().main()
