"""Compares what two generations published: by event, field by field, with examples. Pure: no I/O.

Events are paired by their id, which is made of the event's version, the aggregate, the commit position, the rule and the
ordinal, so that two generations give the same fact the same id; those that were published before rules were part of ids, by
the id that a fact had then. What is left over with the same key and commit is paired in its order: the
same fact under another id (two events of one rule have changed places, say).

Both topics are read side by side, so memory holds what one is ahead of the other, and what is only in one.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

from tidings_domain.evaluation.cloudevents import former_id
from tidings_translator.base.errors import GenerationError

Side = Literal["live", "shadow"]
Payload = dict[str, Any]

_SHOWN_FIELDS = 8
_SHOWN_CHARACTERS = 60


class Said(msgspec.Struct, frozen=True, gc=False):
    """An event on a topic.

    Attributes:
        id: the CloudEvents id.
        key: the aggregate's id.
        commit_lsn: of the commit it follows from.
        value: the record's value.
        correction: the generation that has published it as a correction, else empty.
        corrects: the id of the event that it corrects, else empty.
        former: the id that it would have had before rules were part of ids.
    """

    id: str
    key: str
    commit_lsn: int
    value: bytes
    correction: str = ""
    corrects: str = ""
    former: str = ""

    def is_id_of(self, other: "Said") -> bool:
        """Whether both have one id, be it that of one in the former way."""
        return self.id in (other.id, other.former) or self.former == other.id


Notify = Callable[[Said | None, Said | None], None]
"""Gets a difference: the live event and the shadow's; one of them may be None."""


class Example(msgspec.Struct, frozen=True):
    """One difference; holds values of the business event.

    Attributes:
        kind: changed, live (only there), or shadow.
        key: the aggregate's id.
        commit_lsn: of the commit.
        fields: path to the values (live, shadow); of an event that is only in one, its fields with None for the other.
    """

    kind: str
    key: str
    commit_lsn: int
    fields: dict[str, tuple[Any, Any]]


class Difference(msgspec.Struct):
    """What was found for one business topic; counts are of events, `fields` of changed events by field."""

    topic: str
    same: int = 0
    changed: int = 0
    only_live: int = 0
    only_shadow: int = 0
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: list[Example] = []

    @property
    def none(self) -> bool:
        """There is no difference."""
        return not (self.changed or self.only_live or self.only_shadow)


def said_of(
    topic: str, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]] | None
) -> Said:
    """The event in a record of a business or shadow topic, of either CloudEvents mode.

    Raises:
        GenerationError: the record is not an event of Tidings'.
    """
    attributes: dict[str, Any] = {name: text.decode() for name, text in headers or ()}
    value = value or b""
    try:
        if str(attributes.get("content-type", "")).startswith("application/cloudevents+json"):
            document = msgspec.json.decode(value)
            attributes = {f"ce_{name}": text for name, text in document.items()}
        lsn = int(attributes["ce_sequence"].partition("-")[0], 16)
        correction, corrects = attributes.get("ce_correction", ""), attributes.get("ce_corrects", "")
        aggregate = (key or b"").decode()
        former = former_id(attributes.get("ce_type", topic), aggregate, attributes["ce_sequence"])
        return Said(attributes["ce_id"], aggregate, lsn, value, correction, corrects, former)
    except (KeyError, ValueError, AttributeError, msgspec.DecodeError) as error:
        raise GenerationError(f"{topic} holds a record that is not an event of Tidings") from error


class _Waiting:
    """Events of one side that the other has not told yet."""

    def __init__(self) -> None:
        self._by_id: dict[str, Said] = {}
        self._by_former: dict[str, Said] = {}

    def add(self, said: Said) -> None:
        self._by_id[said.id] = said
        self._by_former[said.former] = said

    def take(self, other: Said) -> Said | None:
        """The event with the id of another, also in the former way."""
        found = self._by_id.pop(other.id, None) or self._by_id.pop(other.former, None)
        if found is None:
            found = self._by_former.get(other.id)
            if found is None or self._by_id.pop(found.id, None) is None:
                return None
        if self._by_former.get(found.former) is found:
            del self._by_former[found.former]
        return found

    def rest(self) -> Iterable[Said]:
        """Those that are left, in their order."""
        return self._by_id.values()


class Comparison:
    """Compares one business topic.

    Args:
        topic: its name.
        payload: from a record's value to the event's fields.
        upto: the last commit LSN that both generations have behind them; what is newer is left out.
        examples: how many to keep of each kind.
        superseded: by the id of a live event that was corrected what was told in its place.
        tell: gets each pair that differs, and with None for the other what is only in one.
    """

    def __init__(
        self,
        topic: str,
        payload: Callable[[bytes], Payload],
        *,
        upto: int,
        examples: int,
        superseded: Mapping[str, Said] | None = None,
        notify: Notify | None = None,
    ) -> None:
        self.difference = Difference(topic)
        self._superseded = superseded or {}
        self._notify = notify
        self._payload = payload
        self._upto = upto
        self._examples = examples
        self._kept: Counter[str] = Counter()
        self._waiting: dict[Side, _Waiting] = {"live": _Waiting(), "shadow": _Waiting()}

    def take(self, side: Side, said: Said) -> None:
        """Take in an event."""
        if said.commit_lsn > self._upto or said.corrects:
            return  # what corrects another is in its place
        if side == "live" and self._superseded:
            said = self._superseded.get(said.id, said)
        other = self._waiting["shadow" if side == "live" else "live"].take(said)
        if other is None:
            self._waiting[side].add(said)
        elif side == "live":
            self._pair(said, other)
        else:
            self._pair(other, said)

    def finish(self) -> Difference:
        """What was found; no more events may follow."""
        left: dict[tuple[str, int], list[Said]] = defaultdict(list)
        for said in self._waiting["live"].rest():
            left[said.key, said.commit_lsn].append(said)
        for said in self._waiting["shadow"].rest():
            same_place = left.get((said.key, said.commit_lsn))
            if same_place:
                self._pair(same_place.pop(0), said)
            else:
                self._only("shadow", said)
        for rest in left.values():
            for said in rest:
                self._only("live", said)
        self._waiting = {"live": _Waiting(), "shadow": _Waiting()}
        return self.difference

    def _pair(self, live: Said, shadow: Said) -> None:
        found = self.difference
        if live.value == shadow.value and live.is_id_of(shadow):
            found.same += 1
            return
        fields = dict(differing(self._payload(live.value), self._payload(shadow.value)))
        if not live.is_id_of(shadow):
            fields["(id)"] = (live.id, shadow.id)
        if not fields:
            found.same += 1  # another schema id, or another spelling of the same values
            return
        if self._notify is not None:
            self._notify(live, shadow)
        found.changed += 1
        found.fields.update({_general(path) for path in fields})
        self._keep("changed", live, fields)

    def _only(self, side: Side, said: Said) -> None:
        if self._notify is not None:
            self._notify(*((said, None) if side == "live" else (None, said)))
        if side == "live":
            self.difference.only_live += 1
        else:
            self.difference.only_shadow += 1
        if self._kept[side] < self._examples:
            one, other = self._payload(said.value), dict[str, Any]()
            pair = (one, other) if side == "live" else (other, one)
            self._keep(side, said, dict(differing(*pair)))

    def _keep(self, kind: str, said: Said, fields: dict[str, tuple[Any, Any]]) -> None:
        if self._kept[kind] < self._examples:
            self._kept[kind] += 1
            self.difference.examples.append(Example(kind, said.key, said.commit_lsn, fields))


def differing(live: Any, shadow: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Path and both values of every field that differs: ``lines[0].price``. A field that is missing is None."""
    if isinstance(live, dict) and isinstance(shadow, dict):
        for name in dict.fromkeys((*live, *shadow)):
            yield from differing(live.get(name), shadow.get(name), f"{path}.{name}" if path else name)
    elif isinstance(live, list) and isinstance(shadow, list):
        for index in range(max(len(live), len(shadow))):
            one, other = (items[index] if index < len(items) else None for items in (live, shadow))
            yield from differing(one, other, f"{path}[{index}]")
    elif type(live) is not type(shadow) or live != shadow:
        yield path, (live, shadow)


def _general(path: str) -> str:
    """A path without the places in arrays, for counting: ``lines[].price``."""
    return "".join(part if part[:1] != "[" else "[]" for part in _parts(path))


def _parts(path: str) -> Iterator[str]:
    rest = path
    while rest:
        before, bracket, rest = rest.partition("[")
        yield before
        if bracket:
            index, _, rest = rest.partition("]")
            yield f"[{index}]"


def report(differences: Sequence[Difference]) -> str:
    """The differences as text for a terminal, with the examples that were kept."""
    lines: list[str] = []
    for found in differences:
        lines.append(found.topic)
        fields = ", ".join(f"{path} {count}" for path, count in found.fields.most_common(_SHOWN_FIELDS))
        lines += [
            f"  same            {found.same:>10,}",
            f"  changed         {found.changed:>10,}{'   ' + fields if fields else ''}",
            f"  only in live    {found.only_live:>10,}",
            f"  only in shadow  {found.only_shadow:>10,}",
        ]
        for example in found.examples:
            what = "changed" if example.kind == "changed" else f"only in {example.kind}"
            lines.append(f"    {what}: {example.key} at commit {example.commit_lsn:X}")
            for path, (live, shadow) in list(example.fields.items())[:_SHOWN_FIELDS]:
                value = live if example.kind == "live" else shadow
                change = f"{_shown(live)} -> {_shown(shadow)}" if example.kind == "changed" else _shown(value)
                lines.append(f"      {path}: {change}")
    return "\n".join(lines) + "\n" if lines else "no business topics\n"


def as_json(found: Difference) -> str:
    """A difference as a JSON object on one line."""
    return json.dumps(msgspec.to_builtins(found), default=str)


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
