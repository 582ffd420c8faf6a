"""Signals: what an operator asks a running connector to do, and the channels they come through.

A signal has an id, a type (``execute-snapshot``, ``stop-snapshot``, ``pause-snapshot``, ``resume-snapshot``, ``log``) and
data, a JSON object; Debezium's documentation, "Sending signals to a Debezium connector". They come as rows of a table
(through the stream, so exactly where they stand in it), as lines of a file, as records of a Kafka topic, and through
the worker's REST API. A signal that cannot be understood is a warning in the log that names its id, as in Debezium.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.signals.file import SignalFile
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_capture.cdc.sql_fragment import enclosed
from tidings_connect.config.override_policy import same_cluster
from tidings_connect.errors import ConnectError
from tidings_connect.java.regex import JavaPattern, compile_java
from tidings_connect.kafka.topics import SignalConsumer
from tidings_service import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal."""

    id: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def names(self, field_name: str = "data-collections") -> list[str] | None:
        """A list of strings in the data; None when it is missing, empty or something else."""
        found = self.data.get(field_name)
        if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
            return None
        return [name.strip() for name in found]

    def text(self, field_name: str) -> str:
        """A string in the data; empty when it is missing or, as in Debezium, something else."""
        found = self.data.get(field_name)
        return found if isinstance(found, str) else ""


def table_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> JavaPattern:
    """An entry of ``data-collections`` as the regular expression that it may be.

    Raises:
        ConnectError: it is none.
    """
    try:
        return compile_java(text, flags)
    except ValueError as error:
        raise ConnectError(f"data-collections holds what is not a regular expression: {error}") from error


def signal_of_row(cells: Cells) -> Signal | None:
    """The signal that a row of the signal table is: its first three columns, whatever they are called."""
    id_, type_, data = (cell.decode() if isinstance(cell, bytes) else None for cell in cells[:3])
    return signal_of_texts(id_, type_, data)


def signal_of_texts(id_: str | None, type_: str | None, data: str | None) -> Signal | None:
    """The signal of three columns; None, with a warning where there is one, when it is none."""
    if id_ is None or type_ is None:
        return None
    return _made(id_, type_, data or "{}")


def signal_of_json(text: str | bytes) -> Signal | None:
    """A signal as a JSON object with ``id``, ``type`` and ``data``; None, with a warning, when it is none."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        _log.warning("a signal is not a JSON object with id, type and data")
        return None
    return _made(str(found.get("id", "")), found["type"], found.get("data") or {})


def _made(id_: str, type_: str, data: Any) -> Signal | None:
    if isinstance(data, str):
        try:
            data = orjson.loads(data)
        except orjson.JSONDecodeError:
            data = None
    if not isinstance(data, dict):
        _log.warning("a signal's data is not a JSON object", signal=id_, type=type_)
        return None
    return Signal(id_, type_, data)


def condition_for(signal: Signal, name: str, enclose: Callable[[str], str] = enclosed) -> str:
    """The filter of the first of a signal's ``additional-conditions`` that is about a table.

    Raises:
        ConnectError: see `conditions_of`.
    """
    return next((text for pattern, text in conditions_of(signal, enclose) if pattern.matches(name)), "")


def conditions_of(signal: Signal, enclose: Callable[[str], str] = enclosed) -> list[tuple[JavaPattern, str]]:
    """A signal's ``additional-conditions``: tables and filters.

    Args:
        enclose: see `SignalOptions.enclose`.

    Raises:
        ConnectError: the conditions are not of their form, or a filter is more than stands between parentheses.
    """
    found = []
    conditions = signal.data.get("additional-conditions") or []
    if not isinstance(conditions, list):
        raise ConnectError(f"additional-conditions of signal {signal.id} is not a list")
    for condition in conditions:
        try:
            pattern = compile_java(condition["data-collection"], re.IGNORECASE)
            found.append((pattern, enclose(str(condition["filter"]))))
        except (KeyError, TypeError, ValueError) as error:
            reason = f": {error}" if isinstance(error, ValueError) else ""
            raise ConnectError(f"additional-conditions of signal {signal.id} is malformed{reason}") from error
    return found


def consumer_settings(client: Mapping[str, str], options: SignalOptions) -> dict[str, str]:
    """librdkafka's settings for the topic's consumer.

    The worker's own, its password among them, go to the worker's brokers only: a connector may name others.
    """
    own = options.kafka_settings
    if not same_cluster(own.get("bootstrap.servers", ""), client.get("bootstrap.servers", "")):
        return dict(own)
    return {**client, **own}


class SignalChannels:
    """The file and the topic; `poll` gives what is new, `done` lets go of it.

    Args:
        client: librdkafka's settings of the worker.
        key: the connector's ``topic.prefix``: records of the topic with another key are for other connectors.
    """

    def __init__(self, options: SignalOptions, client: Mapping[str, str], key: str) -> None:
        self._file = SignalFile(options.file) if "file" in options.channels else None
        self._consumer: SignalConsumer | None = None
        if "kafka" in options.channels:
            self._consumer = SignalConsumer(consumer_settings(client, options), options.kafka_topic)
        self._key = key.encode()

    @property
    def any(self) -> bool:
        return self._file is not None or self._consumer is not None

    def poll(self) -> list[Signal]:
        """New signals, in order; they are given again unless `done` is called."""
        found: list[Signal | None] = []
        if self._consumer is not None:
            found += [
                signal_of_json(value)
                for key, value in self._consumer.poll()
                if key == self._key and value is not None
            ]
        if self._file is not None:
            found += [signal_of_json(line) for line in self._file.lines()]
        return [signal for signal in found if signal is not None]

    def done(self) -> None:
        """What `poll` gave has been dealt with, and what came of it is stored."""
        if self._consumer is not None:
            self._consumer.commit()
        if self._file is not None:
            self._file.take()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
