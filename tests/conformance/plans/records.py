"""What our conversion plans make of a slot's messages, without the capture runtime."""

import re
import time
from collections import defaultdict

import psycopg
from plans.scenario import Records, Scenario

from tidings_capture.cdc.encoding.markers import compile_markers
from tidings_capture.cdc.encoding.options import (
    BinaryHandling,
    ConversionOptions,
    DecimalHandling,
    HstoreHandling,
    IntervalHandling,
    TimePrecision,
)
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.filters import ColumnFilter, TableFilter, compile_list
from tidings_capture.postgres.client import Endpoint, Session
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.wire.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    decode_message,
)
from tidings_connect.converters.encoding import make_converter

READABLE = (
    "TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"
)


def convert(scenario: Scenario, raw: list[tuple[int, bytes]], catalog_session: Session) -> Records:
    options, properties = conversion_options(scenario), scenario.properties()
    key_converter, value_converter = (make_converter(properties, is_key=is_key) for is_key in (True, False))
    markers = compile_markers(options, key_converter, value_converter)
    catalog = Catalog(catalog_session, ColumnFilter())
    tables = captured_tables(scenario)
    records: Records = defaultdict(list)
    plans: dict[int, Plan] = {}
    checked_plans: dict[int, Plan] = {}
    context = EventContext()
    context.now_ns = time.time_ns()
    last_commit_lsn = None
    for lsn, data in raw:
        context.position = lsn
        match decode_message(data):
            case Begin() as begin:
                context.begin(begin.xid, begin.commit_ts_us, last_commit_lsn)
                records[markers.transaction_topic].append(markers.begin(context))
            case Commit() as commit:
                context.position = last_commit_lsn = commit.end_lsn
                records[markers.transaction_topic].append(markers.end(context))
            case Relation() as relation if tables.captures(relation.schema, relation.name):
                table = catalog.table_of_relation(relation)
                topic = re.sub(r"[^A-Za-z0-9._-]", "_", f"{scenario.prefix}.{table.qualified_name}")
                plans[relation.oid], checked_plans[relation.oid] = (
                    compile_plan(
                        table, options, key_converter, value_converter, topic, checked_only=checked_only
                    )
                    for checked_only in (False, True)
                )
            case Insert() | Update() | Delete() as change if change.relation_oid in plans:
                plan = plans[change.relation_oid]
                counted = context.total_order, dict(context.event_counts)
                checked = checked_plans[change.relation_oid].change(data, 0, context)
                context.total_order, context.event_counts = counted
                fast = plan.change(b"header" + data, len(b"header"), context)
                assert fast == checked
                records[plan.topic] += fast
            case Truncate() as truncate:
                for oid in truncate.relation_oids:
                    records[plans[oid].topic] += plans[oid].truncate(context)
            case _:
                pass
    key_converter.close()
    value_converter.close()
    return records


def captured_tables(scenario: Scenario) -> TableFilter:
    lists = [
        compile_list(scenario.options.get(f"table.{which}.list", "")) for which in ("include", "exclude")
    ]
    return TableFilter((), (), *lists)


def conversion_options(scenario: Scenario) -> ConversionOptions:
    options = scenario.options
    return ConversionOptions(
        topic_prefix=scenario.prefix,
        database=scenario.database,
        provide_transaction_metadata=True,
        decimal_handling=DecimalHandling(options.get("decimal.handling.mode", "precise")),
        time_precision=TimePrecision(options.get("time.precision.mode", "adaptive")),
        binary_handling=BinaryHandling(options.get("binary.handling.mode", "bytes")),
        interval_handling=IntervalHandling(options.get("interval.handling.mode", "numeric")),
        propagated_columns=compile_list(options.get("column.propagate.source.type", "")),
        propagated_types=compile_list(options.get("datatype.propagate.source.type", "")),
        hstore_handling=HstoreHandling(options.get("hstore.handling.mode", "json")),
        money_fraction_digits=int(options.get("money.fraction.digits", "2")),
        include_unknown_datatypes=options.get("include.unknown.datatypes") == "true",
        tombstones_on_delete=options.get("tombstones.on.delete") != "false",
    )


def session(url: str) -> Session:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return Session(
        Endpoint(
            host=str(parts["host"]),
            port=int(parts["port"] or 5432),
            user=str(parts["user"]),
            database=str(parts["dbname"]),
            password=str(parts.get("password") or ""),
        )
    )
