"""Debezium's transforms, by their Java class names (``io.debezium.transforms``)."""

from typing import Final

from tidings_connect.transforms.debezium.changed_state import ExtractChangedRecordState
from tidings_connect.transforms.debezium.header_to_value import HeaderToValue
from tidings_connect.transforms.debezium.logical_router import ByLogicalTableRouter, ToLogicalTopicRouter
from tidings_connect.transforms.debezium.outbox import EventRouter
from tidings_connect.transforms.debezium.partition_routing import PartitionRouting
from tidings_connect.transforms.debezium.schema_change_filter import SchemaChangeEventFilter
from tidings_connect.transforms.debezium.scripting import ContentBasedRouter, Filter
from tidings_connect.transforms.debezium.timezone import TimezoneConverter
from tidings_connect.transforms.debezium.unwrap import ExtractNewRecordState
from tidings_connect.transforms.record import Transform

_PACKAGE: Final = "io.debezium.transforms."
TRANSFORMS: Final[dict[str, type[Transform]]] = {
    f"{_PACKAGE}ExtractNewRecordState": ExtractNewRecordState,
    f"{_PACKAGE}ExtractChangedRecordState": ExtractChangedRecordState,
    f"{_PACKAGE}outbox.EventRouter": EventRouter,
    f"{_PACKAGE}ByLogicalTableRouter": ByLogicalTableRouter,
    f"{_PACKAGE}ToLogicalTopicRouter": ToLogicalTopicRouter,
    f"{_PACKAGE}partitions.PartitionRouting": PartitionRouting,
    f"{_PACKAGE}Filter": Filter,
    f"{_PACKAGE}ContentBasedRouter": ContentBasedRouter,
    f"{_PACKAGE}TimezoneConverter": TimezoneConverter,
    f"{_PACKAGE}HeaderToValue": HeaderToValue,
    f"{_PACKAGE}SchemaChangeEventFilter": SchemaChangeEventFilter,
}
