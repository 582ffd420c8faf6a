"""New topics' partitions, replication and settings: Kafka Connect's ``topic.creation.*`` of source connectors.

Groups are tried in the order of ``topic.creation.groups``; the first whose ``include`` matches a topic's whole name and
whose ``exclude`` does not decides, else ``default``. What a group does not say of partitions and replication is the
default group's. Reference: KIP-158.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_connect.java.regex import JavaPattern, compile_java

PREFIX: Final = "topic.creation."
GROUPS: Final = "topic.creation.groups"
_DEFAULT: Final = "default"
_OWN: Final = ("include", "exclude", "partitions", "replication.factor")
BROKER_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """What topics of one group are created with."""

    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    config: Mapping[str, str] = field(default_factory=dict)
    include: tuple[JavaPattern, ...] = ()
    exclude: tuple[JavaPattern, ...] = ()

    def matches(self, topic: str) -> bool:
        """Whether the group is for a topic."""
        return _any(self.include, topic) and not _any(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """All groups of a connector."""

    default: TopicGroup = field(default_factory=TopicGroup)
    groups: tuple[TopicGroup, ...] = ()

    def group(self, topic: str) -> TopicGroup:
        """The group that decides how a topic is created."""
        return next((group for group in self.groups if group.matches(topic)), self.default)


def read_topic_creation(config: Mapping[str, str]) -> TopicCreation:
    """The groups of a checked configuration."""
    default = _group(config, _DEFAULT, TopicGroup())
    return TopicCreation(default, tuple(_group(config, name, default) for name in group_names(config)))


def group_names(config: Mapping[str, str]) -> list[str]:
    """The groups that the options name, without the default one."""
    names = [name.strip() for name in config.get(GROUPS, "").split(",")]
    return [name for name in names if name and name != _DEFAULT]


def topic_creation_problems(config: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the options of groups, by option."""
    problems: dict[str, str] = {}
    groups = [_DEFAULT, *group_names(config)]
    for name in config:
        if not name.startswith(PREFIX) or name == GROUPS:
            continue
        group = next((g for g in groups if name.startswith(f"{PREFIX}{g}.")), None)
        if group is None:
            problems[name] = f"{name} is for a group that {GROUPS} does not name"
            continue
        problem = _problem(name.removeprefix(f"{PREFIX}{group}."), config[name], group)
        if problem is not None:
            problems[name] = f"{name} {problem}"
    for group in groups[1:]:
        name = f"{PREFIX}{group}.include"
        if not config.get(name, "").strip():
            problems[name] = f"{name} is required, because {GROUPS} names the group"
    return problems


def _problem(option: str, value: str, group: str) -> str | None:
    if option in ("include", "exclude"):
        if group == _DEFAULT:
            return "is for groups only: the default group has every topic that no other has"
        try:
            _patterns(value)
        except ValueError as error:
            return f"is not a list of regular expressions: {error}"
    if option in ("partitions", "replication.factor") and not re.fullmatch(r"-1|[1-9]\d*", value.strip()):
        return "must be -1 or a positive whole number"
    return None


def _group(config: Mapping[str, str], name: str, default: TopicGroup) -> TopicGroup:
    prefix = f"{PREFIX}{name}."
    own = {n.removeprefix(prefix): value.strip() for n, value in config.items() if n.startswith(prefix)}
    return TopicGroup(
        partitions=int(own.get("partitions", default.partitions)),
        replication_factor=int(own.get("replication.factor", default.replication_factor)),
        config={option: value for option, value in own.items() if option not in _OWN},
        include=_patterns(own.get("include", "")),
        exclude=_patterns(own.get("exclude", "")),
    )


def _patterns(value: str) -> tuple[JavaPattern, ...]:
    return tuple(compile_java(entry.strip()) for entry in value.split(",") if entry.strip())


def _any(patterns: tuple[JavaPattern, ...], topic: str) -> bool:
    return any(pattern.matches(topic) for pattern in patterns)
