"""The connector: from topics to MongoDB's documents. See `docs/mongodb.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink, topics_of
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask
from tidings_sinks.mongo.options import (
    OF_TOPICS,
    OPTIONS,
    OVERRIDE,
    REFUSED,
    URI,
    overridden,
    topics_overridden,
)
from tidings_sinks.mongo.settings import check_topic, read_settings


class MongoSink(SinkConnector):
    """Writes documents by bulk, each with its record's place; with the class and the options of MongoDB's connector."""

    class_name = "com.mongodb.kafka.connect.MongoSinkConnector"
    task_class = "com.mongodb.kafka.connect.sink.MongoSinkTask"
    version = "2.0.1"
    own_options: ClassVar[Sequence[Option]] = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options} - {URI}  # whose value a message must not hold
        known = {
            name: text
            for name, text in config.items()
            if name not in REFUSED and not name.startswith(OVERRIDE)
        }
        found = check_sink(known, self.options, SINK_OPTIONS.keys() | own)
        for name in config.keys() & REFUSED.keys():
            found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        found.update(self._override_problems(config))
        if found:
            return found
        found = check_topic(known)
        for topic, overrides in topics_overridden(config).items():
            for name, texts in check_topic({**known, **overrides}).items():
                at = f"{OVERRIDE}{topic}.{name}" if name in overrides else name
                found.setdefault(at, texts)
        return found

    def _override_problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with the options of topics, each by itself."""
        found: dict[str, list[str]] = {}
        for name, text in config.items():
            if not name.startswith(OVERRIDE):
                continue
            parts = overridden(name)
            if parts is None:
                found[name] = [
                    f"{name} names no option that a topic can have: {', '.join(sorted(OF_TOPICS))}"
                ]
            elif parts[1] in REFUSED:
                found[name] = [f"{name} is not implemented: {REFUSED[parts[1]]}"]
            else:
                wanted = {
                    parts[1]: text,
                    "topics": "any",
                    **({} if parts[1] == "database" else {"database": "any"}),
                }
                problems = check_sink(wanted, self.options, SINK_OPTIONS.keys() | OF_TOPICS)
                if parts[1] in problems:
                    found[name] = [each.replace(parts[1], name, 1) for each in problems[parts[1]]]
        return found

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.mongo.diagnosis import diagnose  # noqa: PLC0415 - needs a client

        return diagnose(read_settings(name, config), topics_of(config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.mongo.task import MongoSinkTask  # noqa: PLC0415 - the worker itself needs no client

        tolerates = config.get("errors.tolerance", "none").strip().lower() == "all"
        return MongoSinkTask(read_settings(context.connector, config), context, tolerates=tolerates)
