"""Finds corrective events: what a promoted generation would have published differently before its time. Pure: no I/O.

The business topics hold what the generations before it have said, its shadow topics what it says of the same commits. Of
the difference,

* an event that was told otherwise is told anew, under an id of its own (UUIDv5 of the wrong one's and the generation's
  name), with the CloudEvents extension attributes ``correction``, the generation, and ``corrects``, the id of the wrong one;
* an event that was not told is told, under the id that it has anyway, with ``correction``;
* an event that should not have been told cannot be taken back: that takes an event of the domain's own.

Corrections come behind newer events of their aggregates; their ``sequence`` and ``time`` are those of the commit that
they are about. Ids are the same in every run, so a run that was ended in its middle is repeated.
"""

from collections.abc import Iterable
from uuid import uuid5

import msgspec

from tidings_domain.evaluation.cloudevents import NAMESPACE
from tidings_translator.base.records import Headers, Output
from tidings_translator.generations.diff import Difference, Said

CORRECTION = "ce_correction"
CORRECTS = "ce_corrects"


class Corrections:
    """What is to be published for one business topic; gathers the differences of a `Comparison`.

    Attributes:
        changed: events that are told anew.
        missing: events that were not told.
    """

    def __init__(self) -> None:
        self.changed = 0
        self.missing = 0
        self._corrects: dict[str, str] = {}

    def note(self, live: Said | None, shadow: Said | None) -> None:
        """Take in a difference."""
        if shadow is None:
            return
        if live is None:
            self.missing += 1
        else:
            self.changed += 1
        self._corrects[shadow.id] = "" if live is None else live.id

    def event(
        self, generation: str, topic: str, record: tuple[bytes | None, bytes | None, Headers], said: Said
    ) -> Output | None:
        """The corrective event for business topic `topic` that a shadow's record, which says `said`, calls for, if any."""
        wrong = self._corrects.get(said.id)
        if wrong is None:
            return None
        key, value, headers = record
        new = {"correction": generation}
        if wrong:
            new |= {
                "corrects": wrong,
                "id": correction_id(wrong, generation) if wrong == said.id else said.id,
            }
        if not any(name == "ce_id" for name, _ in headers):
            document = msgspec.json.decode(value or b"")
            return Output(topic, key, msgspec.json.encode({**document, **new}), headers)
        kept = [(name, text) for name, text in headers if name.removeprefix("ce_") not in new]
        return Output(topic, key, value, kept + [(f"ce_{name}", text.encode()) for name, text in new.items()])


def correction_id(wrong: str, generation: str) -> str:
    """The id of the event that corrects another."""
    return str(uuid5(NAMESPACE, f"{wrong}/{generation}"))


def superseded(events: Iterable[Said]) -> dict[str, Said]:
    """By the id of a wrong event what was told in its place at last; under the wrong one's id, where it is the same fact."""
    found: dict[str, Said] = {}
    for said in events:
        if said.corrects:
            same = said.id == correction_id(said.corrects, said.correction)
            found[said.corrects] = msgspec.structs.replace(said, id=said.corrects) if same else said
    return found


def summary(found: Iterable[tuple[Difference, Corrections]]) -> str:
    """What would be, or was, published, for a terminal."""
    lines = []
    for difference, one in found:
        lines += [
            difference.topic,
            f"  told anew             {one.changed:>10,}",
            f"  told for the first time {one.missing:>8,}",
            f"  cannot be taken back  {difference.only_live:>10,}",
        ]
    return "\n".join(lines) + "\n" if lines else "no business topics\n"
