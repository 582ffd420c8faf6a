"""The options of object sinks: those of Confluent's S3 sink by their names, obeyed or refused, and what they say. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem
from tidings_connect.task.sink import TopicPartition
from tidings_sinks.objects.partitioning import (
    Directory,
    Moment,
    by_fields,
    by_partition,
    by_time,
    of_field,
    of_record,
    strftime_of,
)

FLUSH: Final = "flush.size"
INTERVAL: Final = "rotate.interval.ms"
OPEN: Final = "tidings.open.records"
FORMAT: Final = "format.class"
PARTITIONER: Final = "partitioner.class"
FIELDS: Final = "partition.field.name"
DURATION: Final = "partition.duration.ms"
PATH: Final = "path.format"
LOCALE: Final = "locale"
ZONE: Final = "timezone"
EXTRACTOR: Final = "timestamp.extractor"
TIME_FIELD: Final = "timestamp.field"
COMPATIBILITY: Final = "schema.compatibility"
TOPICS_DIR: Final = "topics.dir"
DELIMITER: Final = "file.delim"
WIDTH: Final = "filename.offset.zero.pad.width"
PARQUET_CODEC: Final = "parquet.codec"
AVRO_CODEC: Final = "avro.codec"
COMPRESSION: Final = "s3.compression.type"
DECIMALS: Final = "json.decimal.format"
NULLS: Final = "behavior.on.null.values"
BUCKET: Final = "s3.bucket.name"
REGION: Final = "s3.region"
ENDPOINT: Final = "store.url"
KEY: Final = "aws.access.key.id"
SECRET: Final = "aws.secret.access.key"  # noqa: S105 - the option's name
PATH_STYLE: Final = "s3.path.style.access.enabled"
URL: Final = "tidings.storage.url"
_PARTITIONERS: Final = (
    "DefaultPartitioner",
    "FieldPartitioner",
    "TimeBasedPartitioner",
    "DailyPartitioner",
    "HourlyPartitioner",
)
_FORMATS: Final = ("ParquetFormat", "AvroFormat", "JsonFormat")
_DAILY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
_HOURLY: Final = f"{_DAILY}/'hour'=HH"
_DAY_MS: Final = 86_400_000
_MOST_OPEN: Final = 100_000

REFUSED: Final[Mapping[str, str]] = {
    "rotate.schedule.interval.ms": "an object would hold what had come until a moment of the clock, and a replay would write others",
    "s3.part.size": "an object is uploaded when it is complete, in parts that the library chooses",
    "s3.ssea.name": "set the encryption of the bucket",
    "s3.sse.kms.key.id": "set the encryption of the bucket",
    "s3.sse.customer.key": "set the encryption of the bucket",
    "s3.acl.canned": "set the bucket's policy",
    "s3.object.tagging": "objects have no tags",
    "s3.credentials.provider.class": "classes of Java's are not there; keys, or what Amazon's environment gives, are taken",
    "s3.proxy.url": "set HTTPS_PROXY in the worker's environment",
    "store.kafka.keys": "keys are not stored; put them into the value with a transform",
    "store.kafka.headers": "headers are not stored; put them into the value with a transform",
    "directory.delim": "it is a slash",
    "enhanced.avro.schema.support": "enums are text, as the AvroConverter has them",
    "connect.meta.data": "it is always kept",
    "allow.optional.map.keys": "keys of maps are never null",
    "format.bytearray.extension": "there is no ByteArrayFormat",
    "format.bytearray.separator": "there is no ByteArrayFormat",
}


def _simple(value: str) -> str:
    return value.strip().rpartition(".")[2]


def _class_of(*names: str) -> Callable[[str], str | None]:
    return lambda value: None if _simple(value) in names else f"There are {', '.join(names)} here"


def _zone(value: str) -> str | None:
    try:
        ZoneInfo(value.strip())
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return "Invalid time zone identifier"
    except KeyError:
        return "Invalid time zone identifier"
    return None


def _path(value: str) -> str | None:
    try:
        strftime_of(value)
    except ValueError as error:
        return f"{error}"
    return None


def _extractor(value: str) -> str | None:
    if _simple(value) == "Wallclock":
        return "Wallclock is not deterministic: a replay would write records to other objects; use Record or RecordField"
    return None if _simple(value) in {"Record", "RecordField"} else "There are Record, RecordField here"


def _compatibility(value: str) -> str | None:
    return (
        None
        if value.strip().upper() == "NONE"
        else "There is NONE here: another schema begins another object"
    )


def _url(value: str) -> str | None:
    parts = urlsplit(value.strip())
    if parts.password or parts.query or parts.fragment:
        return "It holds more than a place"
    if parts.scheme == "file":
        return None if not parts.netloc and parts.path.startswith("/") else "A directory is file:///directory"
    if parts.scheme in {"s3", "gs"}:
        return None if parts.netloc else "It names no bucket"
    if parts.scheme == "abfss":
        return None if "@" in parts.netloc else "It is abfss://container@account.dfs.core.windows.net/prefix"
    return "There are file, s3, gs and abfss here"


def _endpoint(value: str) -> str | None:
    parts = urlsplit(value.strip())
    good = (
        parts.scheme in {"http", "https"} and parts.netloc and not parts.username and parts.path in {"", "/"}
    )
    return None if good else "It is http://host:port or https://host:port"


_SHARED: Final = (
    Option(FLUSH, "int", required=True, check=at_least_one_problem, documentation="How many records an object has at most."),
    Option(INTERVAL, "long", "-1", documentation="After how many milliseconds, by the records' own times, the open objects of a partition are complete; -1: never."),
    Option(OPEN, "int", str(_MOST_OPEN), check=at_least_one_problem, documentation="How many records the open objects of a partition have together at most."),
    Option(FORMAT, "string", required=True, check=_class_of(*_FORMATS), form=", ".join(f"`{n}`" for n in _FORMATS), documentation="The format of objects, with or without its package."),
    Option(PARTITIONER, "string", "DefaultPartitioner", check=_class_of(*_PARTITIONERS), form=", ".join(f"`{n}`" for n in _PARTITIONERS), documentation="What directories are made of: Kafka's partition, fields or the time."),
    Option(FIELDS, "list", "", documentation="The fields of FieldPartitioner; dots lead into structs."),
    Option(DURATION, "long", "-1", documentation="The length of a time slice of TimeBasedPartitioner, in milliseconds."),
    Option(PATH, "string", "", check=_path, documentation="The directories of TimeBasedPartitioner, such as 'year'=YYYY/'month'=MM."),
    Option(LOCALE, "string", "", documentation="Taken, and makes no difference: directories have numbers."),
    Option(ZONE, "string", "UTC", check=_zone, documentation="The time zone of directories."),
    Option(EXTRACTOR, "string", "Record", check=_extractor, documentation="Whose time counts: the record's or a field's."),
    Option(TIME_FIELD, "string", "timestamp", documentation="The field of the extractor RecordField."),
    Option(COMPATIBILITY, "string", "NONE", check=_compatibility, documentation="What happens to a record with another schema: it begins another object."),
    Option(TOPICS_DIR, "string", "topics", documentation="The directory of all."),
    Option(DELIMITER, "string", "+", documentation="What stands between topic, partition and offset in a name."),
    Option(WIDTH, "int", "10", check=at_least_one_problem, documentation="How many digits the offset in a name has at least."),
    Option(PARQUET_CODEC, "string", "snappy", values=("none", "gzip", "snappy", "zstd"), documentation="How Parquet is compressed."),
    Option(AVRO_CODEC, "string", "null", values=("null", "deflate"), documentation="How Avro is compressed."),
    Option(COMPRESSION, "string", "none", values=("none", "gzip"), documentation="How JSON is compressed."),
    Option(DECIMALS, "string", "BASE64", values=("BASE64", "NUMERIC"), documentation="How decimals look in JSON."),
    Option(NULLS, "string", "fail", values=("fail", "ignore"), documentation="What a record without a value is: an error, or nothing."),
)  # fmt: skip
_LOGIN: Final = (
    Option(REGION, "string", "us-west-2", documentation="The region of the bucket."),
    Option(ENDPOINT, "string", "", check=_endpoint, documentation="The URL of another server than Amazon's."),
    Option(KEY, "string", "", documentation="The key; empty: what the worker's environment gives."),
    Option(SECRET, "password", documentation="Its secret; with abfss the account's key."),
    Option(PATH_STYLE, "boolean", "true", documentation="Whether the bucket stands in the path or in the host's name."),
)  # fmt: skip
S3_OPTIONS: Final = (
    Option(BUCKET, "string", required=True, documentation="The bucket."),
    Option("storage.class", "string", "", check=_class_of("S3Storage"), documentation="Taken: io.confluent.connect.s3.storage.S3Storage."),
    *_LOGIN,
    *_SHARED,
)  # fmt: skip
OPTIONS: Final = (
    Option(URL, "string", required=True, check=_url, documentation="Where objects go: file:///directory, s3://bucket/prefix, gs://bucket/prefix or abfss://container@account.dfs.core.windows.net/prefix."),
    *_LOGIN,
    *_SHARED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says of rows, directories and names."""

    flush_size: int
    interval_ms: int
    open_records: int
    directory: Directory
    moment: Moment
    ignores_null: bool
    topics_dir: str
    delimiter: str
    width: int

    def name(self, directory: str, at: TopicPartition, offset: int) -> str:
        """An object's name, without its extension. Topic and partition are those that the record was read from: of two
        topics that transforms have made one, each has names of its own."""
        number = f"{offset:0{self.width}d}"
        last = self.delimiter.join((at.topic, str(at.partition), number))
        return "/".join(filter(None, (self.topics_dir, directory, last)))


def value_of(config: Mapping[str, str], options: Sequence[Option], name: str) -> str:
    """An option's value, or its default."""
    default = next((option.default for option in options if option.name == name), None)
    return (config.get(name) or default or "").strip()


def check_together(config: Mapping[str, str], options: Sequence[Option]) -> dict[str, list[str]]:
    """What options say that does not go together, by option."""
    partitioner = _simple(value_of(config, options, PARTITIONER))
    if partitioner == "FieldPartitioner" and not _names(config):
        return {FIELDS: [f"{FIELDS} is needed by FieldPartitioner"]}
    if partitioner == "TimeBasedPartitioner":
        if int(value_of(config, options, DURATION)) < 1:
            return {DURATION: [f"{DURATION} is needed by TimeBasedPartitioner, at least 1"]}
        if not value_of(config, options, PATH):
            return {PATH: [f"{PATH} is needed by TimeBasedPartitioner"]}
    if int(value_of(config, options, FLUSH)) > int(value_of(config, options, OPEN)):
        return {OPEN: [f"{OPEN} must be at least {FLUSH}"]}
    return {}


def _names(config: Mapping[str, str]) -> list[str]:
    return list(filter(None, (part.strip() for part in config.get(FIELDS, "").split(","))))


def read_settings(config: Mapping[str, str], options: Sequence[Option]) -> Settings:
    """What a configuration without problems says."""

    def value(name: str) -> str:
        return value_of(config, options, name)

    moment = of_record if _simple(value(EXTRACTOR)) == "Record" else of_field(value(TIME_FIELD))
    zone = ZoneInfo(value(ZONE))
    directories: Mapping[str, Callable[[], Directory]] = {
        "DefaultPartitioner": lambda: by_partition,
        "FieldPartitioner": lambda: by_fields(_names(config)),
        "TimeBasedPartitioner": lambda: by_time(value(PATH), zone, int(value(DURATION)), moment),
        "DailyPartitioner": lambda: by_time(_DAILY, zone, _DAY_MS, moment),
        "HourlyPartitioner": lambda: by_time(_HOURLY, zone, _DAY_MS // 24, moment),
    }
    return Settings(
        flush_size=int(value(FLUSH)),
        interval_ms=int(value(INTERVAL)),
        open_records=int(value(OPEN)),
        directory=directories[_simple(value(PARTITIONER))](),
        moment=moment,
        ignores_null=value(NULLS) == "ignore",
        topics_dir=value(TOPICS_DIR).strip("/"),
        delimiter=value(DELIMITER),
        width=int(value(WIDTH)),
    )
