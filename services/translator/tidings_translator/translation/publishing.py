"""Collects the results of a batch, and makes records of business events."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tidings_domain.evaluation.cloudevents import STRUCTURED_HEADERS, structured
from tidings_domain.evaluation.evaluate import PublishedEvent
from tidings_domain.evaluation.tracing import TRACE_HEADERS
from tidings_translator.base.records import Output, Partition
from tidings_translator.dead_letters.letters import Closed, DeadLetter


class BatchResult:
    """What one batch has made, to go into a Kafka transaction."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.letters: list[DeadLetter] = []
        """Those of the outputs that are dead letters, to be reported."""
        self.closed: list[Closed] = []
        """What became of earlier ones."""
        self.repeated: list[tuple[str, str | None]] = []
        """Place and rule of letters that were dealt with before."""
        self.state: dict[tuple[Partition, bytes], bytes | None] = {}
        self.commit_times_us: list[int] = []
        self.events: Counter[str] = Counter()
        self.shadows: Counter[str] = Counter()
        self.goes_live = False
        self.change_sets: Counter[str] = Counter()
        self.partial: Counter[str] = Counter()
        """Change sets by aggregate for which rules did not run: see `knowledge`."""

    def add_letter(self, letter: DeadLetter) -> None:
        """Put a dead letter among the outputs; the order of letters and of what became of them counts."""
        self.outputs.append(letter.output)
        self.letters.append(letter)

    def add(self, other: "BatchResult") -> None:
        """What was made apart; without its commit times, which say nothing of the latency of what a person asked for."""
        self.outputs += other.outputs
        self.letters += other.letters
        self.closed += other.closed
        self.repeated += other.repeated
        self.state |= other.state
        self.events += other.events
        self.shadows += other.shadows
        self.change_sets += other.change_sets
        self.partial += other.partial


class Publisher:
    """Makes records of business events.

    Args:
        frames: by topic, the first bytes of a value, which name its schema; filled when the contracts are registered.
        shadows: by topic, where its events go while the generation does not publish.
        as_json: CloudEvents' structured mode.
    """

    def __init__(
        self, frames: Mapping[str, bytes], shadows: Mapping[str, str], *, as_json: bool = False
    ) -> None:
        self._frames = frames
        self._shadows = shadows
        self._as_json = as_json

    def written(self, events: list[PublishedEvent]) -> list[PublishedEvent]:
        """The events with the bodies that will be published: in structured mode the JSON documents, which may be far larger
        than Avro."""
        if not self._as_json:
            return events
        return [
            msgspec.structs.replace(event, body=structured(event.event, event.headers)) for event in events
        ]

    def publish(self, events: Iterable[PublishedEvent], result: BatchResult, *, shadow: bool = False) -> None:
        """Put events as `written` among the outputs."""
        frames, outputs, counts = self._frames, result.outputs, result.shadows if shadow else result.events
        for event in events:
            name = event.topic
            counts[name] += 1
            topic = self._shadows[name] if shadow else name
            if self._as_json:
                headers = STRUCTURED_HEADERS + [one for one in event.headers if one[0] in TRACE_HEADERS]
                outputs.append(Output(topic, event.key, event.body, headers))
            else:
                outputs.append(Output(topic, event.key, frames[name] + event.body, event.headers))
