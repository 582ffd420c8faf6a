"""The pattern language of Neo4j's own connector: which fields of a record are a node's or a relationship's. Pure.

``(:Label {!id, name, -secret})``, ``(:A {!a: x})-[:KNOWS {since}]->(:B {!b: y.z})``, and the short form of both,
``Label{!id}``, ``A{!a} KNOWS B{!b}``: a key has an exclamation mark before it, ``*`` takes all that is not named, a minus leaves
out, and ``name: field`` renames. The grammar is ``PatternParser.g4`` of `neo4j-kafka-connector`.

`parse_row` reads a longer form, which is ours: after a node, the relationships that foreign keys of its row are, such as
``(:Order {!id, *}), -[:PLACED_BY]->(:Customer {!id: customer_id})``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

_DASHES: Final = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\ufe58\ufe63\uff0d"
_LEFT: Final = "<\u27e8\u3008\ufe64\uff1c"
_RIGHT: Final = ">\u27e9\u3009\ufe65\uff1e"
_TOKEN: Final = re.compile(r"\s*(?:(?P<name>[^\W\d][\w$.]*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>\S))")
_PLAIN: Final = re.compile(r"[^\W\d]\w*")


class PatternError(ValueError):
    """A pattern cannot be read; says where and why."""


class Property(NamedTuple):
    """A property, and the field that it comes from."""

    target: str
    source: str

    @property
    def text(self) -> str:
        """As a pattern has it."""
        return (
            quoted(self.target)
            if self.target == self.source
            else f"{quoted(self.target)}: {quoted(self.source)}"
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which fields a node or a relationship has."""

    keys: tuple[Property, ...] = ()
    included: tuple[Property, ...] = ()
    excluded: tuple[str, ...] = ()
    everything: bool = False

    @property
    def text(self) -> str:
        """As a pattern has it."""
        parts = [f"!{item.text}" for item in self.keys]
        parts += [item.text for item in self.included]
        parts += [f"-{quoted(name)}" for name in self.excluded]
        return "{" + ", ".join(parts + ["*"] * self.everything) + "}"


@dataclass(frozen=True, slots=True)
class NodePattern:
    """A node."""

    labels: tuple[str, ...]
    fields: Selection

    @property
    def text(self) -> str:
        """In its long form."""
        labels = "".join(f":{quoted(label)}" for label in self.labels)
        return f"({labels}{' ' if labels else ''}{self.fields.text})"


@dataclass(frozen=True, slots=True)
class RelationshipPattern:
    """A relationship, with the nodes at its ends."""

    type: str
    start: NodePattern
    end: NodePattern
    fields: Selection

    @property
    def text(self) -> str:
        """In its long form."""
        return f"{self.start.text}-[:{quoted(self.type)} {self.fields.text}]->{self.end.text}"


@dataclass(frozen=True, slots=True)
class Link:
    """A relationship that a foreign key of a node's row is."""

    type: str
    outgoing: bool
    """Whether it goes from the row's node to the other."""
    other: NodePattern
    fields: Selection


@dataclass(frozen=True, slots=True)
class RowPattern:
    """What a row is."""

    entity: NodePattern | RelationshipPattern
    links: tuple[Link, ...] = ()


def quoted(name: str) -> str:
    """A name as Cypher and patterns have it: with backticks where it is not plain."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def parse_pattern(text: str) -> NodePattern | RelationshipPattern:
    """Read a pattern.

    Raises:
        PatternError: it is none.
    """
    parser = _Parser(text)
    found = parser.pattern()
    parser.end()
    return found


def parse_row(text: str) -> RowPattern:
    """Read a pattern of rows, with the relationships of foreign keys.

    Raises:
        PatternError: it is none.
    """
    parser = _Parser(text)
    entity = parser.pattern()
    links = []
    while parser.take(","):
        links.append(parser.link())
    parser.end()
    if links and isinstance(entity, RelationshipPattern):
        raise PatternError("A row that is a relationship has no further relationships")
    if isinstance(entity, RelationshipPattern) and not entity.fields.keys:
        raise PatternError(
            "A row that is a relationship needs the row's key, with !, among the relationship's properties"
        )
    if isinstance(entity, RelationshipPattern) and (
        entity.start.fields.included or entity.end.fields.included
    ):
        raise PatternError(
            "The nodes at the ends of a row that is a relationship have nothing but their keys"
        )
    ends = [entity] if isinstance(entity, NodePattern) else [entity.start, entity.end]
    for node in (*ends, *(link.other for link in links)):
        if not node.labels:
            raise PatternError("A node of a row needs a label")
    named = [(link.type, link.outgoing) for link in links]
    if len(set(named)) != len(named):
        raise PatternError("Two foreign keys of a row need two types of relationships")
    return RowPattern(entity, tuple(links))


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        place = 0
        while (match := _TOKEN.match(text, place)) is not None:
            kind = str(match.lastgroup)
            self._tokens.append(
                (kind, match[kind].replace("``", "`") if kind == "quoted" else match[kind], match.start(kind))
            )
            place = match.end()
        self._tokens.append(("end", "", len(text)))
        self._place = 0

    # Tokens

    @property
    def _now(self) -> tuple[str, str, int]:
        return self._tokens[self._place]

    def take(self, signs: str) -> bool:
        """Whether one of these signs stands here; then it is behind us."""
        kind, text, _ = self._now
        found = kind == "sign" and text in signs
        self._place += found
        return found

    def _need(self, signs: str) -> None:
        if not self.take(signs):
            raise self._unexpected(f"{signs[0]} is expected")

    def _name(self) -> str:
        kind, text, _ = self._now
        if kind not in ("name", "quoted"):
            raise self._unexpected("a name is expected")
        self._place += 1
        return text

    def _unexpected(self, expected: str) -> PatternError:
        _, text, at = self._now
        return PatternError(f"At character {at + 1}, {expected}" + (f", not {text}" if text else ""))

    def end(self) -> None:
        """Nothing is left.

        Raises:
            PatternError: something is.
        """
        if self._now[0] != "end":
            raise self._unexpected("the end is expected")

    # Patterns

    def pattern(self) -> NodePattern | RelationshipPattern:
        """A pattern in either form."""
        kind, text, _ = self._now
        found = self._long() if kind == "sign" and text == "(" else self._short()
        return _with_all(found)

    def _long(self) -> NodePattern | RelationshipPattern:
        first = self._node()
        kind, text, _ = self._now
        if kind != "sign" or text not in _LEFT + _DASHES:
            return first
        type_, fields, outgoing = self._arrow()
        second = self._node()
        start, end = (first, second) if outgoing else (second, first)
        return RelationshipPattern(type_, _end(start), _end(end), fields)

    def _short(self) -> NodePattern | RelationshipPattern:
        first = self._short_node()
        if self._now[0] not in ("name", "quoted"):
            return first
        type_ = self._name()
        fields = self._fields() if self._is("{") else Selection()
        return RelationshipPattern(type_, _end(first), _end(self._short_node()), fields)

    def link(self) -> Link:
        """The relationship of a foreign key."""
        type_, fields, outgoing = self._arrow()
        other = _end(self._node())
        if fields.everything or fields.keys or fields.excluded or other.fields.included:
            raise PatternError(
                "The relationship of a foreign key has named properties only, and the node at its other end nothing but its key"
            )
        return Link(type_, outgoing, other, fields)

    def _is(self, sign: str) -> bool:
        return self._now[:2] == ("sign", sign)

    def _arrow(self) -> tuple[str, Selection, bool]:
        left = self.take(_LEFT)
        self._need(_DASHES)
        self._need("[")
        self._need(":")
        type_ = self._name()
        fields = self._fields() if self._is("{") else Selection()
        self._need("]")
        self._need(_DASHES)
        right = self.take(_RIGHT)
        if left == right:
            raise PatternError("Direction of relationship pattern must be explicitly set.")
        return type_, fields, right

    def _node(self) -> NodePattern:
        self._need("(")
        labels = self._labels()
        fields = self._fields()
        self._need(")")
        return _keyed(NodePattern(labels, fields))

    def _short_node(self) -> NodePattern:
        labels = dict.fromkeys((self._name(), *self._labels()))
        return _keyed(NodePattern(tuple(labels), self._fields()))

    def _labels(self) -> tuple[str, ...]:
        found = []
        while self.take(":"):
            found.append(self._name())
        return tuple(dict.fromkeys(found))

    def _fields(self) -> Selection:
        self._need("{")
        keys: list[Property] = []
        included: list[Property] = []
        excluded: list[str] = []
        everything = False
        while not self.take("}"):
            if self.take(","):
                pass
            elif keys or included or excluded or everything:
                raise self._unexpected(", or } is expected")
            if self.take("*"):
                everything = True
            elif self.take("!"):
                keys.append(self._property())
            elif self.take(_DASHES):
                excluded.append(self._name())
            else:
                self.take("+")
                included.append(self._property())
        if included and excluded and not everything:
            raise PatternError("Property inclusions and exclusions are mutually exclusive.")
        return Selection(_once(keys), _once(included), tuple(dict.fromkeys(excluded)), everything)

    def _property(self) -> Property:
        target = self._name()
        return Property(target, self._name() if self.take(":") else target)


def _once(items: Iterable[Property]) -> tuple[Property, ...]:
    return tuple(dict.fromkeys(items))


def _keyed(node: NodePattern) -> NodePattern:
    if not node.fields.keys:
        raise PatternError("At least one key selector must be specified in node patterns.")
    return node


def _end(node: NodePattern) -> NodePattern:
    if node.fields.excluded:
        raise PatternError("Property exclusions are not allowed on start and end node patterns.")
    if node.fields.everything:
        raise PatternError("Wildcard property inclusion is not allowed on start and end node patterns.")
    return node


def _with_all(found: NodePattern | RelationshipPattern) -> NodePattern | RelationshipPattern:
    """What names no field has all of them."""
    fields = found.fields
    if fields.included:
        return found
    full = Selection(fields.keys, (), fields.excluded, everything=True)
    if isinstance(found, NodePattern):
        return NodePattern(found.labels, full)
    return RelationshipPattern(found.type, found.start, found.end, full)
