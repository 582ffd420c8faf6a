"""Options about how values are represented."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.option_table import CONVERTING_FAILURE
from tidings_capture.postgres.settings.option_checks import placeholder_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import not_negative_problem
from tidings_envelope.toast import UNAVAILABLE

OPTIONS: Final = (
    Option(
        "decimal.handling.mode",
        default="precise",
        values=("string", "double", "precise"),
        documentation="How numeric and money are represented.",
    ),
    Option(
        "time.precision.mode",
        default="adaptive",
        values=(
            "adaptive",
            "adaptive_time_microseconds",
            "isostring",
            "structured",
            "microseconds",
            "nanoseconds",
            "connect",
        ),
        documentation="How dates, times and timestamps are represented.",
    ),
    Option(
        "hstore.handling.mode",
        default="json",
        values=("json", "map"),
        documentation="How hstore is represented.",
    ),
    Option(
        "money.fraction.digits",
        "int",
        "2",
        check=not_negative_problem,
        remark="The server's `lc_monetary` must write a decimal point, as for Debezium.",
        documentation="How many digits behind the point money has.",
    ),
    replace(
        CONVERTING_FAILURE,
        remark="For values that Debezium's schema has no place for, such as NaN with `decimal.handling.mode=precise`.",
    ),
    Option(
        "binary.handling.mode",
        default="bytes",
        values=("bytes", "base64", "hex", "base64-url-safe"),
        documentation="How bytea is represented.",
    ),
    Option(
        "interval.handling.mode",
        default="numeric",
        values=("string", "numeric"),
        documentation="How interval is represented: microseconds, or an ISO 8601 text.",
    ),
    Option(
        "include.unknown.datatypes",
        "boolean",
        "false",
        documentation="Whether columns of types without a conversion are sent as bytes.",
    ),
    Option(
        "include.schema.comments",
        "boolean",
        "false",
        documentation="Debezium does not read PostgreSQL's comments.",
        remark="Accepted, without effect, as in Debezium, which does not read PostgreSQL's comments.",
    ),
    Option(
        "unavailable.value.placeholder",
        default=UNAVAILABLE,
        check=placeholder_problem,
        documentation="What stands for a TOAST value that the server did not send.",
        form="string, or `hex:` and hexadecimal digits",
    ),
)
