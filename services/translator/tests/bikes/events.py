"""Event classes as `tidings-schemas generate` would write them, in a domain whose name a test can choose."""

import os
from decimal import Decimal
from typing import ClassVar

from tidings_domain import BusinessEvent

NAME = os.environ.get("BIKES_NAME", "bikes")


class OrderPlacedV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "OrderPlaced", "namespace": "bikes.v1", "fields": [
      {"name": "order_id", "type": "long"}, {"name": "lines", "type": "int"}]}"""
    order_id: int
    lines: int


class OrderPlacedV2(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 2
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "OrderPlaced", "namespace": "bikes.v2", "fields": [
      {"name": "order_id", "type": "long"}, {"name": "lines", "type": "int"},
      {"name": "customer", "type": ["null", "string"], "default": null},
      {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}}]}"""
    order_id: int
    lines: int
    customer: str | None = None
    total: Decimal


class OrderPaidV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-paid"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "OrderPaid", "namespace": "bikes.v1", "fields": [
      {"name": "order_id", "type": "long"}, {"name": "payments", "type": "int"}]}"""
    order_id: int
    payments: int


class PaymentTakenBackV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "payment-taken-back"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "PaymentTakenBack", "namespace": "bikes.v1", "fields": [
      {"name": "order_id", "type": "long"}, {"name": "payment_id", "type": "long"}]}"""
    order_id: int
    payment_id: int
