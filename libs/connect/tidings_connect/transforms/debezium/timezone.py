"""TimezoneConverter: times of change events in another time zone."""

import datetime
import re
import zoneinfo
from typing import Any, Final

from tidings_connect.data.schemas import field_of, get, is_envelope
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.record import DataError, SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_OFFSET: Final = re.compile(r"([+-])(\d{2}):(\d{2})(?::(\d{2}))?")
_RULES: Final = re.compile(r'\[(source|topic|[".\w\s]+):([".\w\s]+(?::[".\w\s]+)?(?:,|]\Z))+', re.ASCII)
"""A list of rules: only the first may have a prefix, which then holds for all."""
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - local times of no zone yet
_UNITS: Final = {
    semantic.TIMESTAMP.name: 1_000,
    semantic.MICRO_TIMESTAMP.name: 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
    semantic.CONNECT_TIMESTAMP.name: 1_000,
}
"""Per second, by the schema's name."""
_TIMES: Final = frozenset((*_UNITS, semantic.ZONED_TIMESTAMP.name, semantic.ZONED_TIME.name))
_YEAR_1: Final = -62_135_596_800
_400_YEARS: Final = 146_097 * 86_400
"""In seconds, after which days of the week and the rules of zones are the same again."""
_YEAR_10000: Final = 253_402_300_800
_EPOCH_FIELDS: Final = {"ts_ms": 1_000, "ts_us": 1_000_000, "ts_ns": 1_000_000_000}
_ZONED: Final = re.compile(r"(.*?)(?:\.(\d+))?(Z|[+-]\d{2}:\d{2}(?::\d{2})?)")


def _rules(items: list[str]) -> str | None:
    if not items or _RULES.fullmatch(f"[{', '.join(items)}]"):
        return None
    return (
        'Please specify a list of rules in the format of "source:<tablename>:<fieldname>", '
        '"topic:<topicname>:<fieldname>", "<matchname>:<fieldname>"'
    )


def _zone(text: str) -> datetime.tzinfo | None:
    match = _OFFSET.fullmatch(text)
    if match is not None:
        hours, minutes, seconds = (int(match.group(i) or 0) for i in (2, 3, 4))
        offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return datetime.timezone(-offset if match.group(1) == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return None


class TimezoneConverter(Transform):
    """See the module.

    Texts with a zone are shown in the other zone. Times without one are taken for times in that zone, and become
    those in UTC. ``source.ts_*``, where a rule names them, are shifted by the zone's offset.
    """

    CONFIG = ConfigSpec(
        Setting(
            "converted.timezone",
            required=True,
            check=lambda text: (
                None
                if _zone(text)
                else "Please specify either a geographic timezone (e.g. America/Los_Angeles) or a UTC offset in the format "
                "of +/-hh:mm, (e.g. +08:00)."
            ),
        ),
        Setting("include.list", "list", check=_rules),
        Setting("exclude.list", "list", check=_rules),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        zone = _zone(settings.text("converted.timezone"))
        assert zone is not None
        self._zone = zone
        include, exclude = settings.items_of("include.list"), settings.items_of("exclude.list")
        if include and exclude:
            raise SettingError(
                "exclude.list", "Both include and exclude lists are specified. Please specify only one."
            )
        self._include, self._exclude = bool(include), bool(exclude)
        self._by_topic: dict[str, set[str]] = {}
        self._by_table: dict[str, set[str]] = {}
        self._by_either: dict[str, set[str]] = {}
        self._collect(exclude or include)

    def _collect(self, rules: list[str]) -> None:
        prefix = ""
        for rule in rules:
            parts = rule.split(":")
            if len(parts) > 1 and parts[0].lower() in ("source", "topic"):
                prefix = parts.pop(0)
            fields = {"topic": self._by_topic, "source": self._by_table}.get(prefix, self._by_either)
            fields.setdefault(parts[0], set()).update(parts[1:2])

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        schema = record.value_schema
        if record.value is None or schema is None or not is_envelope(schema):
            return record
        source = record.value.get("source")
        table = source.get("table") if isinstance(source, dict) else None
        rule = self._rule(record.topic, table)
        if not (self._include or self._exclude) or (self._exclude and rule is None):
            return record.with_value(schema, self._converted(schema, record.value, None))
        if rule is None or (self._exclude and not rule):
            return record
        return record.with_value(schema, self._converted(schema, record.value, rule))

    def _rule(self, topic: str, table: str | None) -> set[str] | None:
        """The fields that the lists name for a record, all of them if there are none; None: they do not name it."""
        for rules, name in (
            (self._by_topic, topic),
            (self._by_table, table),
            (self._by_either, topic),
            (self._by_either, table),
        ):
            if name is not None and name in rules:
                return rules[name]
        return None

    def _converted(
        self, schema: ConnectSchema, value: dict[str, Any], fields: set[str] | None
    ) -> dict[str, Any]:
        result = dict(value)
        for block in ("before", "after", "source"):
            field = field_of(schema, block)
            if field is None or value.get(block) is None or field.schema.type is not ConnectType.STRUCT:
                continue
            named = _named(block, fields) if fields else set()
            if block == "source" and not named:
                continue
            result[block] = self._block(block, field.schema, value[block], named if fields else None)
        return result

    def _block(
        self, block: str, schema: ConnectSchema, value: dict[str, Any], named: set[str] | None
    ) -> dict[str, Any]:
        result = dict(value)
        for field in schema.fields:
            wanted = named is None or (field.name in named) is self._include
            found = get(value, field)  # a time's null becomes its default, and no other field's
            if wanted and found is not None and _is_time(block, field):
                result[field.name] = self._time(field, found)
        return result

    def _time(self, field: Field, value: Any) -> Any:
        """The value of a field that `_is_time`."""
        name = field.schema.name
        try:
            if name in _UNITS:
                return self._as_local(value, _UNITS[name])
            if name == semantic.ZONED_TIMESTAMP.name:
                return self._zoned_timestamp(value)
            if name == semantic.ZONED_TIME.name:
                return self._zoned_time(value)
            return self._shifted(value, _EPOCH_FIELDS[field.name])
        except (ValueError, OverflowError):
            raise DataError(f"field {field.name} holds a time that cannot be in another zone") from None

    def _as_local(self, number: int, per_second: int) -> int:
        """A time without a zone, taken for one in the zone."""
        seconds = number // per_second
        if seconds >= _YEAR_10000:
            seconds = seconds % _400_YEARS + _400_YEARS
        local = _EPOCH + datetime.timedelta(seconds=max(seconds, _YEAR_1))
        return number - _seconds(self._zone.utcoffset(local)) * per_second

    def _shifted(self, number: int, per_second: int) -> int:
        moment = datetime.datetime.fromtimestamp(number // per_second, datetime.UTC).astimezone(self._zone)
        return number + _seconds(moment.utcoffset()) * per_second

    def _zoned_timestamp(self, text: str) -> str:
        match = _ZONED.fullmatch(text)
        if match is None:
            return text  # infinity
        body, fraction, offset = match.groups()
        year, rest = int(body[: body.index("-", 1)]), body[body.index("-", 1) :]
        # Python's years end where "for ever" begins in many tables: 9999-12-31. The calendar repeats after 400 years.
        within = year if 1 < year < 9999 else 2000 + year % 400
        local = datetime.datetime.fromisoformat(f"{within:04d}{rest}")
        moment = local.replace(tzinfo=_zone(offset) or datetime.UTC)
        # As there, the offset is that of the text's own clock, taken for one in the zone.
        clock_in_zone = local if year > 9999 else local.replace(year=year if year > 0 else 4)
        shift = datetime.timezone(datetime.timedelta(seconds=_seconds(self._zone.utcoffset(clock_in_zone))))
        shown = moment.astimezone(shift)
        clock = f"{_year_text(shown.year + year - within)}-{shown:%m-%dT%H:%M:%S}"
        return f"{clock}{_fraction(fraction)}{_offset_text(shift)}"

    def _zoned_time(self, text: str) -> str:
        match = _ZONED.fullmatch(text)
        if match is None:
            return text
        body, fraction, offset = match.groups()
        clock = datetime.time.fromisoformat(body)
        now = datetime.datetime.now(datetime.UTC).astimezone(self._zone)
        shift = datetime.timezone(datetime.timedelta(seconds=_seconds(now.utcoffset())))
        day = datetime.datetime(
            2000, 1, 2, clock.hour, clock.minute, clock.second, tzinfo=_zone(offset) or datetime.UTC
        )
        return f"{day.astimezone(shift):%H:%M:%S}{_fraction(fraction)}{_offset_text(shift)}"


def _is_time(block: str, field: Field) -> bool:
    name = field.schema.name
    return name in _TIMES or (name is None and block == "source" and field.name in _EPOCH_FIELDS)


def _year_text(year: int) -> str:
    """As Java writes it: more than four digits with a sign."""
    return f"+{year}" if year > 9999 else f"-{-year:04d}" if year < 0 else f"{year:04d}"


def _seconds(offset: datetime.timedelta | None) -> int:
    return 0 if offset is None else offset // datetime.timedelta(seconds=1)


def _fraction(digits: str | None) -> str:
    digits = (digits or "").rstrip("0")
    return f".{digits}" if digits else ""


def _offset_text(zone: datetime.timezone) -> str:
    seconds = _seconds(zone.utcoffset(None))
    if not seconds:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}" if rest else text


def _named(block: str, fields: set[str]) -> set[str]:
    """The fields of one block that rules name; without a block's name both rows are meant."""
    named = {field.removeprefix(f"{block}.") for field in fields if field.startswith(f"{block}.")}
    if block != "source":
        named |= {field for field in fields if not field.startswith(("source.", "before.", "after."))}
    return named
