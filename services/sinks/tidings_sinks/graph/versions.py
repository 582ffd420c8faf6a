"""Versions of a read model in Neo4j: each has labels of its own, and a node says which one readers are to take.

In a graph no name stands for another: there are neither views nor aliases within a database, and labels cannot be exchanged at once,
because a query that runs sees what a commit changes meanwhile. So readers ask the node ``(:TidingsReadModel {name})`` for the suffix
of the labels. It is one property of one node, so that whoever reads it once in a query sees one version.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidings_connect.errors import ConnectError
from tidings_sinks.errors import RebuildError
from tidings_sinks.graph import options as names
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.patterns import (
    NodePattern,
    PatternError,
    RelationshipPattern,
    RowPattern,
    parse_pattern,
    parse_row,
    quoted,
)
from tidings_sinks.graph.settings import Settings
from tidings_sinks.read_model import Naming

_POINTER: Final = "TidingsReadModel"
_BATCH: Final = 10_000
_TEXTS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL: Final = re.compile(r"(\(\s*(?:[^\W\d]\w*|`[^`]+`)?\s*:\s*)([^\W\d]\w*|`[^`]+`)(?=\s*[{)]|\s+WHERE\b)")
"""A node with one label, in a statement: the commonest form, and the one that can be told from all others."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_IS_LABEL: Final = re.compile(
    r"\bIS\s+(?!(?:NOT\s+)?(?:NULL|TRUE|FALSE|TYPED|(?:NF\w+\s+)?NORMALIZED)\b)", re.IGNORECASE
)
_BLOCK: Final = re.compile(r"\b(?:CALL(?:\s*\([^)]*\))?|EXISTS|COUNT|COLLECT)\s*\Z", re.IGNORECASE)
"""What stands before a brace that holds clauses; behind all others there are properties."""
_TYPE: Final = re.compile(r"(?:\[\s*(?:[^\W\d]\w*|`[^`]+`)?|\|)\s*\Z")
"""What stands before the colon of a relationship's type."""


class GraphVersions:
    """A `ReadModel`.

    Raises:
        RebuildError: the labels cannot be told from the options.
        BusyError, TargetError: the server is away, or refuses the login.
    """

    converts = False

    def __init__(self, naming: Naming, settings: Settings, config: Mapping[str, str]) -> None:
        for option in (names.CUD, names.OFFSETS):
            if config.get(option, "").strip():
                raise RebuildError(
                    f"{naming.connector} has {option}, with which versions cannot have labels or positions of their own"
                )
        self._naming, self._settings, self._config = naming, settings, config
        self._labels(1)
        self._client = Client(settings)
        try:
            self._client.check()
        except BaseException:
            self._client.close()
            raise

    def close(self) -> None:
        """See `ReadModel.close`."""
        self._client.close()

    def options(self, version: int, config: Mapping[str, str]) -> dict[str, str]:
        """See `ReadModel.options`."""
        return {
            name: _with_labels(name, text, lambda label: self._label(label, version))
            for name, text in config.items()
            if name.startswith(names.FAMILIES)
        }

    def version_of(self, config: Mapping[str, str]) -> int | None:
        """See `ReadModel.version_of`."""
        found = {self._naming.version_in(label) for label in _labels_of(config)}
        return found.pop() if len(found) == 1 else None

    def shared(self, config: Mapping[str, str]) -> Sequence[str]:
        """See `ReadModel.shared`: nodes of a label that another connector writes, too."""
        if config.get(names.URI) != self._config.get(names.URI):
            return ()
        words = {
            word
            for name, text in config.items()
            if name.startswith(names.FAMILIES)
            for word in _WORD.findall(text)
        }
        return sorted(words & _labels_of(self._config))

    def live(self) -> int | None:
        """See `ReadModel.live`."""
        found = self._client.alone(f"MATCH (m:{_POINTER} {{name: $name}}) RETURN m.version", self._who)
        return int(found[0][0]) if found else None

    def prepare(self, version: int) -> None:
        """See `ReadModel.prepare`."""
        self._remove(version)

    def counts(self, version: int) -> dict[str, int]:
        """See `ReadModel.counts`."""
        found = {}
        for label in sorted(self._labels(1)):
            own = quoted(self._label(label, version))
            ((count,),) = self._client.alone(
                f"MATCH (n:{own}) WHERE NOT n:{quoted(self._settings.placeholder)} RETURN count(n)"
            )
            found[label] = int(count)
        return found

    def complete(self, version: int, live: int) -> Sequence[str]:
        """The constraints and indexes that a person has made on the live version's labels."""
        failed = []
        for label in self._labels(1):
            own, new = self._label(label, live), self._label(label, version)
            for kind in ("CONSTRAINTS", "INDEXES"):
                more = " AND owningConstraint IS NULL" if kind == "INDEXES" else ""
                found = self._client.alone(
                    f"SHOW {kind} YIELD * WHERE labelsOrTypes = [$label]{more} RETURN name, createStatement",
                    {"label": own},
                )
                for name, statement in found:
                    text = statement.replace(f"`{own}`", f"`{new}`").replace(f"`{name}`", "", 1)
                    text = re.sub(r"^(CREATE .*?(?:CONSTRAINT|INDEX))\s+", r"\1 IF NOT EXISTS ", text)
                    try:
                        self._client.alone(text)
                    except ConnectError as error:
                        failed.append(f"{name} of {own} could not be made for {new}: {error}")
        return failed

    def settle(self, version: int) -> bool:  # noqa: ARG002 - what is committed is seen
        """See `ReadModel.settle`."""
        return True

    def switch(self, version: int, former: int, *, keeps: bool) -> None:  # noqa: ARG002 - nothing is lost by it
        """See `ReadModel.switch`."""
        self._client.alone(f"CREATE CONSTRAINT IF NOT EXISTS FOR (m:{_POINTER}) REQUIRE m.name IS UNIQUE")
        self._client.alone(
            f"MERGE (m:{_POINTER} {{name: $name}}) SET m.version = $version, m.suffix = $suffix, m.switched = datetime()",
            {**self._who, "version": version, "suffix": self._suffix(version)},
        )

    def go_on(self, version: int) -> None:
        """See `ReadModel.go_on`: nothing hinders it."""

    def drop(self, version: int, group: str) -> None:
        """See `ReadModel.drop`."""
        self._remove(version)
        label = quoted(self._settings.positions_label)
        self._client.alone(f"MATCH (p:{label} {{consumerGroup: $group}}) DELETE p", {"group": group})

    def _remove(self, version: int) -> None:
        """Nodes and their relationships, some thousand a transaction, then what was made for their labels."""
        labels = [self._label(label, version) for label in sorted(self._labels(1))]
        for label in labels:
            while self._client.alone(
                f"MATCH (n:{quoted(label)}) WITH n LIMIT {_BATCH} DETACH DELETE n RETURN count(n)"
            ) != [[0]]:
                pass
        for kind, more in (("CONSTRAINT", ""), ("INDEX", " AND owningConstraint IS NULL")):
            found = self._client.alone(
                f"SHOW {kind}{'S' if kind == 'CONSTRAINT' else 'ES'} YIELD * WHERE labelsOrTypes[0] IN $labels"
                f" AND entityType = 'NODE'{more} RETURN name",
                {"labels": labels},
            )
            for (name,) in found:
                self._client.alone(f"DROP {kind} {quoted(name)} IF EXISTS")

    # Labels

    @property
    def _who(self) -> dict[str, object]:
        return {"name": self._naming.connector}

    def _suffix(self, version: int) -> str:
        return "" if version == 1 else self._naming.suffix(version)

    def _label(self, label: str, version: int) -> str:
        """The label of a version, of whichever version's."""
        had = self._naming.version_in(label)
        plain = label if had is None else label.removesuffix(self._naming.suffix(had))
        return plain + self._suffix(version)

    def _labels(self, version: int) -> set[str]:
        return {self._label(label, version) for label in _labels_of(self._config)}


def _labels_of(config: Mapping[str, str]) -> set[str]:
    """The labels that a configuration writes."""
    found: set[str] = set()

    def note(label: str) -> str:
        found.add(label)
        return label

    for name, text in config.items():
        if name.startswith(names.FAMILIES):
            _with_labels(name, text, note)
    return found


def _with_labels(option: str, text: str, rename: Callable[[str], str]) -> str:
    """A statement or a pattern with other labels.

    Raises:
        RebuildError: it holds labels that cannot be told for certain.
    """
    try:
        if option.startswith(names.PATTERN):
            return _renamed(parse_pattern(text), rename).text
        if option.startswith(names.ROW):
            return _row_text(parse_row(text), rename)
    except PatternError as error:
        raise RebuildError(f"{option}: {error}") from error
    return _statement(option, text, rename)


def _node(node: NodePattern, rename: Callable[[str], str]) -> NodePattern:
    return replace(node, labels=tuple(rename(label) for label in node.labels))


def _renamed(
    pattern: NodePattern | RelationshipPattern, rename: Callable[[str], str]
) -> NodePattern | RelationshipPattern:
    if isinstance(pattern, NodePattern):
        return _node(pattern, rename)
    return replace(pattern, start=_node(pattern.start, rename), end=_node(pattern.end, rename))


def _row_text(row: RowPattern, rename: Callable[[str], str]) -> str:
    parts = [_renamed(row.entity, rename).text]
    for link in row.links:
        left, right = ("-", "->") if link.outgoing else ("<-", "-")
        fields = f" {link.fields.text}" if link.fields.included else ""
        parts.append(f"{left}[:{quoted(link.type)}{fields}]{right}{_node(link.other, rename).text}")
    return ", ".join(parts)


def _statement(option: str, text: str, rename: Callable[[str], str]) -> str:
    bare = _TEXTS.sub(lambda match: " " * len(match[0]), text)
    if _has_other_labels(bare):
        raise RebuildError(
            f"{option} has labels that are not the one label of a node, (name:Label {{...}}): a version's cannot be put in their place",
            hint="write each label at its node, one for each node",
        )
    parts, end = [], 0
    for match in _LABEL.finditer(bare):
        label = text[match.start(2) : match.end(2)]
        plain = label[1:-1].replace("``", "`") if label.startswith("`") else label
        parts += [text[end : match.start(2)], quoted(rename(plain))]
        end = match.end(2)
    if not parts:
        raise RebuildError(f"{option} has no node with a label")
    return "".join([*parts, text[end:]])


def _has_other_labels(bare: str) -> bool:
    """Whether a statement has labels elsewhere than as the one of a node: a colon that neither is such a label's, nor a property's or
    a relationship type's."""
    if _IS_LABEL.search(bare):
        return True
    known = {match.end(1) for match in _LABEL.finditer(bare)}
    known = {bare.rindex(":", 0, end) for end in known}
    opened: list[str] = []
    for place, sign in enumerate(bare):
        if sign in "([":
            opened.append(sign)
        elif sign == "{":
            opened.append("block" if _BLOCK.search(bare, 0, place) else sign)
        elif sign in ")]}" and opened:
            opened.pop()
        elif sign == ":" and place not in known:
            inside = opened[-1] if opened else ""
            if inside != "{" and not (inside == "[" and _TYPE.search(bare, 0, place)):
                return True
    return False
