"""Writes a replay of a history as ``tidings-lakehouse replay --generation`` does, by two shares and without Spark.

A process of its own, whose `BIKES_NAME` says what the domain is called: ``python -m bikes.replayed`` with one argument, which is
`Wanted` in JSON. services/lakehouse/tests/rules/test_replay.py has the real one.
"""

import base64
import gzip
import json
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bikes.history import History
from bikes.topics import records_of
from tidings_domain.loading.domain import load_domain
from tidings_domain.loading.fingerprint import fingerprint
from tidings_domain.replay.replay import Replay
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.position import lsn_to_text

SHARES = 2


@dataclass(frozen=True)
class Wanted:
    """Which history is replayed, and how far."""

    directory: str
    source: str
    seed: int
    transactions: int
    topic_ids: dict[str, str]
    needed: dict[str, dict[str, int]]
    letters: int = 0

    def text(self) -> str:
        return json.dumps(asdict(self))


def write(wanted: Wanted) -> None:
    directory = Path(wanted.directory)
    directory.mkdir()
    domain, decoder = load_domain("bikes"), EnvelopeDecoder()
    transactions = History(wanted.seed).grow(wanted.transactions)
    files = {}
    for number in range(SHARES):
        replay = Replay(domain, number, SHARES)
        lines: list[dict[str, Any]] = []
        for transaction in transactions:
            records = records_of(wanted.source, transaction)[1:-1]
            rows = [decoder.envelope(value) for _, _, value in records if value is not None]
            known = [row for row in rows if row is not None]
            for made, event in replay.transaction(transaction.txid, transaction.end_lsn, known):
                headers = [{"key": name, "value": _text(value)} for name, value in event.headers]
                lines.append(
                    {"event": event.topic, "id": made.id, "headers": headers, "body": _text(event.body)}
                )
        assert not replay.take_known_differences()
        for aggregate, id_, state in replay.states():
            lines.append({"aggregate": aggregate, "id": id_, "state": _text(state)})
        for key, value in replay.remembered():
            lines.append({"memory_key": _text(key), "memory_value": _text(value)})
        files[f"part-{number}.txt.gz"] = len(lines)
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        (directory / f"part-{number}.txt.gz").write_bytes(gzip.compress(text))
    ends = [(one.txid, one.end_lsn) for one in transactions]
    manifest = {
        "source": wanted.source,
        "domain": domain.name,
        "fingerprint": fingerprint(domain),
        "until": lsn_to_text(ends[-1][1]),
        "letters": wanted.letters,
        "began_lsn": ends[0][1],
        "snapshot_lsn": 0,
        "finished": ends[-256:],
        "lost": [],
        "topics": _topics(wanted),
        "files": files,
    }
    (directory / "replay.json").write_text(json.dumps(manifest))


def _topics(wanted: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = defaultdict(dict)
    for topic, id_ in wanted.topic_ids.items():
        found[topic] = {"id": id_, "partitions": wanted.needed.get(topic, {})}
    return found


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


if __name__ == "__main__":
    write(Wanted(**json.loads(sys.argv[1])))
