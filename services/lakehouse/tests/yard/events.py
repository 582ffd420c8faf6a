"""Event classes as `tidings-schemas generate` would write them."""

from decimal import Decimal
from typing import ClassVar

from tidings_domain import BusinessEvent


class BoxChangedV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = "yard"
    __event__: ClassVar[str] = "box-changed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "BoxChanged", "namespace": "yard.v1", "deprecated": "2024-05-01", "fields": [
      {"name": "box", "type": "string"}, {"name": "items", "type": "int"}]}"""
    box: str
    items: int


class BoxChangedV2(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = "yard"
    __event__: ClassVar[str] = "box-changed"
    __major__: ClassVar[int] = 2
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "BoxChanged", "namespace": "yard.v2", "fields": [
      {"name": "box", "type": "string"}, {"name": "items", "type": "int"},
      {"name": "parts", "type": {"type": "array", "items": "string"}},
      {"name": "tags", "type": {"type": "map", "values": "string"}},
      {"name": "owner", "type": ["null", "string"], "default": null},
      {"name": "city", "type": ["null", "string"], "default": null},
      {"name": "note", "type": ["null", "string"], "default": null},
      {"name": "weight", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
      {"name": "made_at", "type": ["null", "string"], "default": null}]}"""
    box: str
    items: int
    parts: tuple[str, ...]
    tags: dict[str, str]
    owner: str | None = None
    city: str | None = None
    note: str | None = None
    weight: Decimal | None
    made_at: str | None = None


class OwnerRenamedV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = "yard"
    __event__: ClassVar[str] = "owner-renamed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "OwnerRenamed", "namespace": "yard.v1", "fields": [
      {"name": "owner", "type": "long"}, {"name": "name", "type": "string"}]}"""
    owner: int
    name: str


class ItemLeftV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = "yard"
    __event__: ClassVar[str] = "item-left"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = """
    {"type": "record", "name": "ItemLeft", "namespace": "yard.v1", "fields": [
      {"name": "box", "type": "string"}, {"name": "item", "type": "long"}]}"""
    box: str
    item: int
