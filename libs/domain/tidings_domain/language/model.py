"""The model that authors write: typed rows, and aggregates built from them.

::

    class Line(Row, table="public.order_items", key=("order_id", "line_no")):
        order_id: int
        line_no: int
        unit_price: Decimal

    class Order(Aggregate, root="public.orders", key="id"):
        id: int
        status: str
        lines = children(Line, by="order_id")
        customer = reference(Buyer, by="customer_id", required=True)

A row declares the columns that the rules use, and only these are read, kept in the state and compared: a column that
nobody declared can be added, renamed or retyped in the database and nothing changes. Instances are frozen msgspec
structs, equal when their values are.

A child may have children, too: ``Line.parts = children(Part, by="line_id")``.

Mistakes are reported when the class is defined, with file, line and the likely cause.
"""

from collections.abc import Iterator
from types import GenericAlias
from typing import Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, get_args, overload

import msgspec
from msgspec import StructMeta

from tidings_domain.language.sites import Site, caller_site, mistake, nearest
from tidings_domain.language.temporal import MICROSECONDS, MILLISECONDS

__all__ = ["MICROSECONDS", "MILLISECONDS", "Aggregate", "Row", "children", "reference"]

Columns = str | tuple[str, ...]
R = TypeVar("R", bound="Row")


class Relation(msgspec.Struct, frozen=True):
    """What `children` and `reference` leave behind for the class that is being defined."""

    kind: str
    row: type["Row"]
    by: tuple[str, ...]
    site: Site
    required: bool = False


def _columns(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(cast("tuple[str, ...]", value))


def _relation(kind: str, row: object, by: Columns | None, *, required: bool = False) -> Relation:
    site = caller_site(1)
    what = f"{kind}({getattr(row, '__name__', repr(row))})"
    if not (isinstance(row, type) and issubclass(row, Row)):
        raise mistake(
            site,
            f"{what} needs a Row class, which says the table's columns",
            hint='declare `class Line(Row, table="public.order_items", key=(...)): ...` and pass it',
        )
    if issubclass(row, Aggregate):
        raise mistake(
            site,
            f"{what}: an aggregate cannot be part of another one",
            hint=f"declare a Row on table '{row.__table__}' with the columns that are needed here",
        )
    if not by:
        column = (
            "the child's column that holds the root's key"
            if kind == "children"
            else "the column that refers to it"
        )
        raise mistake(site, f"{what} lacks `by`", hint=f"name {column}, for example by='order_id'")
    return Relation(kind, row, _columns(by), site, required)


def children(row: type[R], *, by: Columns | None = None) -> tuple[R, ...]:
    """The child rows of an aggregate, or of a child, ordered by their key.

    Args:
        row: the child table's Row class.
        by: the child's column or columns that hold the key of the row above, in the order of that key.
    """
    return cast("tuple[R, ...]", _relation("children", row, by))


@overload
def reference(row: type[R], *, by: Columns | None = None, required: Literal[True]) -> R: ...


@overload
def reference(row: type[R], *, by: Columns | None = None, required: Literal[False] = False) -> R | None: ...


def reference(row: type[R], *, by: Columns | None = None, required: bool = False) -> R | None:
    """The row that this row refers to, as of the commit in which this row last changed.

    It is None when the foreign key is null or the row is not known (its table is not captured, say).

    Args:
        row: the Row class of the table that is referred to.
        by: this row's column or columns that hold the other's key.
        required: it is never None after a transaction that a rule sees: one that brings a row without it holds the aggregate
            (see docs/domain.md, "References").
    """
    return cast("R | None", _relation("reference", row, by, required=required))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class RowMeta(StructMeta):
    """Takes `table` and `key`, turns `children` and `reference` into fields, and checks the definition."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        table: str | None = None,
        root: str | None = None,
        key: Columns | None = None,
        **options: Any,
    ) -> Any:
        options = {"frozen": True, "kw_only": True, **options}
        if namespace.get("__module__") == __name__:
            return super().__new__(mcls, name, bases, namespace, **options)
        site = caller_site(0)
        relations = {field: value for field, value in namespace.items() if isinstance(value, Relation)}
        for field in relations:
            del namespace[field]
        _check_class_line(site, name, bases, table, root, key)
        _check_relations(name, relations)
        if relations:
            bases = (_with_fields(name, bases, relations),)
        namespace["__site__"] = site
        namespace["__table__"] = table or root
        namespace["__key__"] = _columns(key)
        inherited = (getattr(base, "__relations__", {}) for base in bases)
        namespace["__relations__"] = {
            field: value for known in (*inherited, relations) for field, value in known.items()
        }
        return super().__new__(mcls, name, bases, namespace, **options)


def _with_fields(name: str, bases: tuple[type, ...], relations: dict[str, Relation]) -> type:
    """A base class that has the relations as fields; a class body's own annotations cannot be added to on every
    Python version."""
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__qualname__": f"{name}Relations",
        "__annotations__": {},
    }
    for field, relation in relations.items():
        many = relation.kind == "children"
        namespace["__annotations__"][field] = (
            GenericAlias(tuple, (relation.row, ...)) if many else relation.row | None
        )
        namespace[field] = () if many else None
    return cast("type", RowMeta(f"{name}Relations", bases, namespace))


def _check_class_line(
    site: Site, name: str, bases: tuple[type, ...], table: str | None, root: str | None, key: Columns | None
) -> None:
    aggregate = any(issubclass(base, Aggregate) for base in bases)
    wanted, given, wrong = ("root", root, table) if aggregate else ("table", table, root)
    example = 'class Order(Aggregate, root="public.orders", key="id")'
    if not aggregate:
        example = 'class Line(Row, table="public.order_items", key=("order_id", "line_no"))'
    if wrong is not None:
        other = "table" if aggregate else "root"
        raise mistake(
            site, f"{name} has `{other}=`, but this kind of class takes `{wanted}=`", hint=f"write {example}"
        )
    if not given:
        raise mistake(site, f"{name} lacks `{wanted}=`, the table it is read from", hint=f"write {example}")
    if given.count(".") != 1:
        raise mistake(
            site, f"{name}: table '{given}' lacks its schema", hint=f"write '{wanted}=\"public.{given}\"'"
        )
    if not key:
        raise mistake(site, f"{name} lacks `key=`, the primary key of {given}", hint=f"write {example}")


def _check_relations(name: str, relations: dict[str, Relation]) -> None:
    tables: dict[str, str] = {}
    for field, relation in relations.items():
        if relation.kind != "children":
            continue
        table = relation.row.__table__
        if table in tables:
            raise mistake(
                relation.site,
                f"{name}.{field}: {table} is already {name}.{tables[table]}",
                hint="use each child table once and pick rows in the rule",
            )
        tables[table] = field


class Row(msgspec.Struct, metaclass=RowMeta):
    """A row of one table with the columns that the rules use. See the module's text for how to declare one.

    Values have Python's types: `Decimal` for numeric, `datetime` for timestamp (naive) and timestamptz (aware, UTC),
    `date`, `time`, `UUID`, `bytes`, `str` for text and enums (or a `Literal` or `StrEnum`), `dict` or `list` for json.
    """

    __table__: ClassVar[str]
    __key__: ClassVar[tuple[str, ...]]
    __relations__: ClassVar[dict[str, Relation]] = {}
    __site__: ClassVar[Site]


class Aggregate(Row):
    """A business object: its root table's row, its child rows, and rows it refers to."""


def declared_columns(cls: type[Row]) -> set[str]:
    """The columns that a class declares."""
    return {field.encode_name for field in msgspec.structs.fields(cls) if field.name not in cls.__relations__}


def _rows_in(annotation: object) -> Iterator[type[Row]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, Row):
        yield annotation
    for argument in get_args(annotation):
        yield from _rows_in(argument)


def check_columns(cls: type[Row]) -> None:
    """Check that the key's columns are declared; annotations can be resolved only after the module is complete.

    Raises:
        DomainError: a key column is not declared, or an annotation cannot be resolved.
    """
    try:
        fields = msgspec.structs.fields(cls)
    except NameError as error:
        raise mistake(
            cls.__site__, f"{cls.__name__}: an annotation names '{error.name}', which is not known"
        ) from error
    declared = {field.encode_name for field in fields} - set(cls.__relations__)
    for field in fields:
        if field.name not in cls.__relations__:
            for row in _rows_in(field.type):
                word = "children" if field.type is not row and "[" in str(field.type) else "reference"
                raise mistake(
                    cls.__site__,
                    f"{cls.__name__}.{field.name}: {row.__name__} is a row of another table, and no column's value",
                    hint=f"write `{field.name} = {word}({row.__name__}, by=...)`",
                )
    for column in cls.__key__:
        if column not in declared:
            raise mistake(
                cls.__site__,
                f"{cls.__name__}: key column '{column}' is not declared",
                hint=f"{nearest(column, declared)} Else add `{column}: int` (or its type) to the class",
            )
