"""A transform that changes no row. With one, rows have another form on their way through a task than in Kafka."""

from typing import Final

A_TRANSFORM: Final = {
    "transforms": "header",
    "transforms.header.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.header.header": "from",
    "transforms.header.value.literal": "a test",
}
"""Options of a connector."""
