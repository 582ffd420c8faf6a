"""The worker's group: who else is in it, and whether its workers can reach each other."""

import socket
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidings_cli.doctor.findings import Finding, error, warning

_PLACE: Final = "worker"
_SECONDS: Final = 10.0
_REACH_SECONDS: Final = 3.0
_JAVA: Final = "connect"
_OURS: Final = "consumer"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def look_at_group(settings: Mapping[str, Any], group: str) -> Iterator[Finding]:
    """What is wrong with the group.

    Raises:
        KafkaException: the broker refuses the question.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no newer call tells a group's protocol
        found: list[Any] = AdminClient({**settings, "log_level": 0}).list_groups(group, timeout=_SECONDS)
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
        if not one.members:
            continue
        if one.protocol_type == _JAVA:
            yield error(
                _PLACE, "group-of-kafka-connect", f"{len(one.members)} workers of Kafka Connect are in group {group}",
                "a group has one protocol: this worker cannot join, and would share their topics' configurations",
                "stop them to take their connectors over (docs/debezium-compatibility.md), or choose another group.id and other"
                " storage topics",
            )  # fmt: skip
            continue
        workers = {member.client_id for member in one.members if "://" in member.client_id}
        if one.protocol_type != _OURS or len(workers) < len({member.client_id for member in one.members}):
            others = sorted({member.client_id for member in one.members} - workers)
            yield error(
                _PLACE, "group-of-others", f"group {group} has members that are not workers: {', '.join(others)}",
                "one of them may be given the partition by which a worker leads, and then no connector is started",
                "group.id=<a name that no application uses>",
            )  # fmt: skip
        yield from _reach(sorted(workers), {m.client_id: m.client_host.lstrip("/") for m in one.members})


def _reach(workers: list[str], hosts: Mapping[str, str]) -> Iterator[Finding]:
    for url in workers:
        place = urlsplit(url)
        port = place.port or (443 if place.scheme == "https" else 80)
        if len(workers) > 1 and place.hostname in _LOOPBACK and len({hosts[one] for one in workers}) > 1:
            yield error(
                _PLACE, "worker-address", f"the worker at {hosts[url]} tells the others {url} as its address",
                "no other machine reaches it there: what has to go on to it over REST fails",
                "rest.advertised.host.name=<its name in the network>",
            )  # fmt: skip
            continue
        try:
            socket.create_connection((place.hostname or "", port), timeout=_REACH_SECONDS).close()
        except OSError as problem:
            yield warning(
                _PLACE, "worker-unreachable", f"worker {url} of the group is not reached from here: {problem.strerror or problem}",
                "workers pass REST requests on to each other; where that fails connectors can be neither changed nor restarted",
                "rest.advertised.host.name and rest.advertised.port=<where the others reach it>; let the network through",
            )  # fmt: skip
