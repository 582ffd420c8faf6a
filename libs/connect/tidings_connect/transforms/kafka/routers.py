"""RegexRouter and TimestampRouter."""

from tidings_connect.java.regex import TopicRewriter, regex_problem
from tidings_connect.java.simple_date_format import SimpleDateFormat
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.record import DataError, SourceRecord, Transform


class RegexRouter(Transform):
    """Renames topics by a regular expression."""

    CONFIG = ConfigSpec(
        Setting("regex", required=True, check=regex_problem), Setting("replacement", required=True)
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        try:
            self._rewrite = TopicRewriter(settings.text("regex"), settings.text("replacement"))
        except ValueError as error:
            raise SettingError("replacement", f"{settings.text('replacement')}\0{error}") from error

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        topic = self._rewrite(record.topic)
        return record if topic is None else record.with_topic(topic)


class TimestampRouter(Transform):
    """Puts the record's time into the topic's name."""

    CONFIG = ConfigSpec(
        Setting("topic.format", default="${topic}-${timestamp}"),
        Setting("timestamp.format", default="yyyyMMdd"),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._topic = settings.text("topic.format")
        try:
            self._format = SimpleDateFormat(settings.text("timestamp.format"))
        except ValueError as error:
            raise SettingError("timestamp.format", f"{settings.text('timestamp.format')}\0{error}") from error

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.timestamp is None:
            raise DataError("Timestamp missing on record")
        text = self._format.format(record.timestamp)
        return record.with_topic(self._topic.replace("${topic}", record.topic).replace("${timestamp}", text))
