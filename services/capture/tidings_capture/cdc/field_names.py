"""What ``field.name.adjustment.mode`` means beside a connector's converters."""

from collections.abc import Mapping

from tidings_capture.cdc.naming import NameAdjustment
from tidings_connect.converters.encoding import APICURIO_AVRO_CONVERTER, CONFLUENT_AVRO_CONVERTER


def field_adjustment(mode: str, config: Mapping[str, str]) -> NameAdjustment:
    """``field.name.adjustment.mode``; where it is ``none`` and one of the connector's own converters is Avro's, as for Avro: so
    does Debezium, which does not look at the worker's converters.

    Args:
        mode: the option's value.
        config: the connector's.
    """
    found = NameAdjustment(mode.lower())
    avro = (CONFLUENT_AVRO_CONVERTER, APICURIO_AVRO_CONVERTER)
    if found is NameAdjustment.NONE and any(
        config.get(name, "").strip() in avro for name in ("key.converter", "value.converter")
    ):
        return NameAdjustment.AVRO
    return found
