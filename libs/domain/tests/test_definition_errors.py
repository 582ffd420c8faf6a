"""Mistakes in a domain are told when it is loaded: the file, the line, what is wrong, and the likely cause."""

import re
from collections.abc import Callable

import pytest

from tidings_domain import Domain, load_domain
from tidings_domain.errors import DomainError

Load = Callable[..., Domain]

TWICE = """@down_conversion(BoxPackedV2, to=BoxPackedV1)
def again(event):
    return BoxPackedV1(box_id=1)


@down_conversion"""

# file, what is replaced, by what, the line of the mistake, what the message says
MISTAKES = [
    ("rules.py", "import BoxGone, BoxPacked, ItemAdded", "import BoxGone, BoxPakced, ItemAdded", 7,
     r"events has no 'BoxPakced'; did you mean 'BoxPacked"),
    ("rules.py", "import BoxGone, BoxPacked, ItemAdded", "import BoxGone, BoxPacked, ItemAdded, Zebra", 7,
     r"events has no 'Zebra'; if it is an event, write its contract and run `tidings-schemas generate`"),
    ("rules.py", "import BoxGone, BoxPacked, ItemAdded", "import BoxGone, BoxPacked, ItemAdded, down_conversion", 7,
     r"events has no 'down_conversion'; did you mean: from tidings_domain import down_conversion"),
    ("aggregates.py", "weight: Decimal", "weight: rule", 18,
     r"NameError: name 'rule' is not defined; from tidings_domain import rule"),
    ("rules.py", "emits=BoxGone", "emits='BoxGone'", 24, r"emits 'BoxGone', which is not an event class"),
    ("rules.py", "emits=BoxGone", "emits=()", 24, r"@rule emits nothing"),
    ("rules.py", "rule(Box, emits=BoxGone)", "rule('Box', emits=BoxGone)", 24, r"'Box' is not an aggregate"),
    ("rules.py", "def gone(change)", "def packed(change)", 24, r"rule id 'packed' is already used at .*rules.py:10"),
    ("rules.py", "yield BoxGone(box_id=change.before.id)", "yield BoxGone(box_id=open('x').read())", 24,
     r"rule 'gone' uses open\(\): a rule may know only its change"),
    ("rules.py", "if change.deleted:", "if change.deleted)", 26, r"syntax error"),
    ("rules.py", "emits=BoxPacked)", "emits=__import__('PACKAGE.events').events.BoxPackedV1)", 10,
     r"the rule emits BoxPackedV1, but BoxPackedV2 is newer; yield BoxPackedV2"),
    ("aggregates.py", 'key=("box_id", "no")', 'key=("box_id", "number")', 15,
     r"Item: key column 'number' is not declared"),
    ("aggregates.py", 'key=("box_id", "no")', 'key=("boxid", "no")', 15, r"did you mean 'box_id'\?"),
    ("aggregates.py", ', key="id"):\n    id: int\n    state', '):\n    id: int\n    state', 26, r"Box lacks `key=`"),
    ("aggregates.py", 'Box(Aggregate, root=', "Box(Aggregate, table=", 26, r"has `table=`, but this kind of class takes `root=`"),
    ("aggregates.py", 'Box(Aggregate, root="public.boxes", ', "Box(Aggregate, ", 26, r"lacks `root=`"),
    ("aggregates.py", 'table="public.items"', 'table="items"', 15, r"table 'items' lacks its schema; write 'table=\"public.items\"'"),
    ("aggregates.py", 'children(Item, by="box_id")', "children(Item)", 31, r"children\(Item\) lacks `by`; name the child's column"),
    ("aggregates.py", 'reference(Owner, by="owner_id")', "reference(Owner)", 33, r"reference\(Owner\) lacks `by`"),
    ("aggregates.py", "children(Item,", "children('public.items',", 31, r"children\('public.items'\) needs a Row class"),
    ("aggregates.py", 'by="box_id"', 'by=("box_id", "no")', 31, r"Box.items: by=\('box_id', 'no'\) has 2 columns, but the key of Box has 1"),
    ("aggregates.py", "items = children", 'more = children(Item, by="box_id")\n    items = children', 32,
     r"Box.items: public.items is already Box.more"),
    ("aggregates.py", "weight: Decimal", "weight: Decimaal", 18, r"importing it raises NameError: name 'Decimaal'"),
    ("rules.py", "change.became(Box.state,", "change.became(Box.stat,", 12, r"rule 'packed': Box has no 'stat'; did you mean 'state'"),
    ("rules.py", "change.added(Box.items)", "change.added(Box.owner)", 20,
     r"rule 'item_added': Box.owner is not a field of child rows; ask change.changed\(Box.owner\)"),
    ("rules.py", "change.after.owner", "change.after.ownr", 14, r"rule 'packed': Box has no 'ownr'; did you mean 'owner'"),
    ("rules.py", "change.after.owner", "change.after.colour", 14, r"Box has no 'colour'; declare the column in the class, or look there: .*aggregates.py:26"),
    ("rules.py", "owner=owner.name if owner else None", "owner=change.after.owner.nam", 15, r"rule 'packed': Owner has no 'nam'; did you mean 'name'"),
    ("rules.py", "change.became(", "change.become(", 12, r"rule 'packed': a change has no 'become'; did you mean 'became'"),
    ("rules.py", "ItemAdded(box_id=", "ItemAdded(boxid=", 21, r"rule 'item_added': ItemAddedV1 has no field 'boxid'; did you mean 'box_id'"),
    ("rules.py", ", item_no=item.no)", ")", 21, r"rule 'item_added': ItemAddedV1 lacks item_no; a field may be left out only"),
    ("rules.py", "BoxGone(box_id=change.before.id)", "BoxGone(change.before.id)", 27, r"BoxGoneV1 takes its fields by name; write BoxGoneV1\(box_id=\.\.\.\)"),
    ("rules.py", "yield BoxGone", "return BoxGone", 27, r"rule 'gone' returns a BoxGoneV1; yield it"),
    ("rules.py", "emits=BoxGone)", "emits=ItemAdded)", 27, r"rule 'gone' yields BoxGoneV1, which is not in its `emits`; write emits=\(ItemAddedV1, BoxGoneV1\)"),
    ("rules.py", "def gone(change)", "async def gone(change)", 24, r"rule 'gone' is async"),
    ("rules.py", "def gone(change)", "def gone(before, change)", 24, r"rule 'gone' takes 2 arguments; a rule takes one: `def gone\(change: Change\[Box\]\)`"),
    ("aggregates.py", "label: str | None = None", "label: str | bytes | None = None", 26, r"Box or a row in it declares a type that cannot be read: .*str-like"),
    ("aggregates.py", 'owner = reference(Owner, by="owner_id")', 'owner: Owner | None', 26,
     r"Box.owner: Owner is a row of another table, and no column's value; write `owner = reference\(Owner, by=...\)`"),
    ("aggregates.py", 'items = children(Item, by="box_id")', "items: list[Item]", 26, r"write `items = children\(Item, by=...\)`"),
    ("aggregates.py", 'children(Item, by="box_id")', 'children(Item, by="boxid")', 31, r"Box.items: Item declares no column 'boxid'; did you mean 'box_id'"),
    ("aggregates.py", 'by="owner_id"', 'by="ownr_id"', 33, r"Box.owner: Box declares no column 'ownr_id'; did you mean 'owner_id'"),
    ("aggregates.py", "    label: str | None = None", '    label: str | None = None\n    seal = reference(Owner, by=("a", "b"))', 20,
     r"Item.seal: by=\('a', 'b'\) has 2 columns, but the key of Owner has 1"),
    ("aggregates.py", 'class Box(', 'class Holder(Row, table="public.owners", key=("id", "name")):\n    id: int\n    name: str\n\n\nclass Box(', 26,
     r"Holder: the key of public.owners is \('id', 'name'\) here and \('id',\) in Owner at .*aggregates.py:10"),
    ("versions.py", "(BoxPackedV2, to=BoxPackedV1)", "(BoxPackedV1, to=BoxPackedV2)", 7, r"does not go down; swap them"),
    ("versions.py", "@down_conversion(BoxPackedV2, to=BoxPackedV1)", "", 8, r"depot.box-packed.v1 is live, but nothing makes it"),
    ("versions.py", "BoxPackedV1(box_id=event.box_id)", "event", 7, r"returns BoxPackedV2"),
    ("versions.py", "box_id=event.box_id", "box_id=event.owner.length", 7, r"raises AttributeError on a sample with every"),
    ("versions.py", "box_id=event.box_id", "box_id=len(event.owner)", 7, r"raises TypeError on a sample without any optional"),
    ("versions.py", "box_id=event.box_id", "box_id=str(event.box_id)", 7,
     r"does not fit its contract: BoxPackedV1.box_id must be an integer, not str"),
    ("versions.py", "@down_conversion", TWICE, 12, r"already converted at .*versions.py:7"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "line", "says"),
    MISTAKES,
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_a_mistake_is_told_with_its_place_and_cause(
    box_domain: Load, box_files: dict[str, str], file: str, old: str, new: str, line: int, says: str
) -> None:
    text = box_files[file]
    assert old in text
    with pytest.raises(DomainError) as caught:
        box_domain({file: text.replace(old, new, 1)})
    message = str(caught.value)
    place = r"rules\.py:10: " if "nothing makes it" in says else rf"{re.escape(file)}:{line}: "
    assert re.search(place, message), message
    assert re.search(says, message), message


def test_an_event_without_a_contract(box_domain: Load, box_files: dict[str, str]) -> None:
    mine = "\nfrom tidings_domain import BusinessEvent\n\n\nclass Mine(BusinessEvent):\n    box_id: int\n"
    rules = mine + box_files["rules.py"].replace("emits=BoxGone", "emits=Mine")
    with pytest.raises(DomainError, match=r"rules\.py:30: rule 'gone' emits Mine, which has no contract"):
        box_domain({"rules.py": rules})


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(DomainError, match=r"package 'no_such\.domain' cannot be found") as caught:
        load_domain("no_such.domain")
    assert "TIDINGS_DOMAIN" in str(caught.value.hint)


def test_a_module_that_the_domain_imports_and_is_not_there(
    box_domain: Load, box_files: dict[str, str]
) -> None:
    with pytest.raises(DomainError, match=r"rules\.py:1: import fails: No module named 'nosuchthing'"):
        box_domain({"rules.py": "import nosuchthing\n" + box_files["rules.py"]})


@pytest.mark.parametrize(
    ("gone", "says"),
    [("rules.py", "defines no rule"), ("aggregates.py", r"rules\.py:6: \w+\.aggregates has no 'Box'")],
)
def test_a_domain_without_one_half(box_domain: Load, gone: str, says: str) -> None:
    with pytest.raises(DomainError, match=says):
        box_domain({gone: ""} | ({"versions.py": ""} if gone == "rules.py" else {}))


def test_a_rule_about_a_foreign_aggregate(box_domain: Load, box_files: dict[str, str]) -> None:
    foreign = box_domain().package
    rules = box_files["rules.py"].replace("from PACKAGE.aggregates", f"from {foreign}.aggregates")
    with pytest.raises(
        DomainError, match=r"rules\.py:10: rule 'packed' is about Box, which this domain does not define"
    ):
        box_domain({"rules.py": rules})


def test_a_question_about_another_class_s_field(box_domain: Load, box_files: dict[str, str]) -> None:
    """By its name alone it would be taken for the aggregate's own field."""
    text = box_files["rules.py"].replace("import Box\n", "import Box, Item\n")
    text = text.replace("became(Box.state,", "became(Item.no,")
    with pytest.raises(
        DomainError, match=r"rules.py:12: rule 'packed': Item\.no is not a field of Box; .* is about Box$"
    ):
        box_domain({"rules.py": text})


def test_two_aggregates_with_one_root(box_domain: Load, box_files: dict[str, str]) -> None:
    second = 'class Crate(Aggregate, root="public.boxes", key="id"):\n    id: int\n'
    with pytest.raises(DomainError, match=r"aggregates\.py:34: public.boxes is already the root of Box"):
        box_domain({"aggregates.py": box_files["aggregates.py"] + second})


def test_a_conversion_that_gives_two_results(box_domain: Load, box_files: dict[str, str]) -> None:
    versions = box_files["versions.py"].replace("box_id=event.box_id", "box_id=next(NUMBERS)")
    with pytest.raises(
        DomainError, match=r"versions\.py:9: .* gives two results for one event: it must be pure"
    ):
        box_domain(
            {"versions.py": "import itertools\n\nNUMBERS = itertools.count()\n" + versions.lstrip("\n")}
        )


def test_events_of_two_domains(box_domain: Load, box_files: dict[str, str]) -> None:
    foreign = (
        "from PACKAGE.events import BoxGone as Gone\n\n\nclass Other(Gone):\n    __domain__ = 'attic'\n\n"
    )
    rules = foreign + box_files["rules.py"].replace("emits=BoxGone", "emits=Other")
    with pytest.raises(
        DomainError, match=r"rule 'gone' emits an event of domain 'attic', others are of 'depot'"
    ):
        box_domain({"rules.py": rules})


def test_tables_are_listed_with_their_uses(box_domain: Load) -> None:
    domain = box_domain()
    assert {
        table: [(use.aggregate, str(use.role), use.key, use.by, use.of) for use in uses]
        for table, uses in domain.tables.items()
    } == {
        "public.boxes": [("Box", "root", ("id",), ("id",), None)],
        "public.items": [("Box", "child", ("box_id", "no"), ("box_id",), None)],
        "public.seals": [("Box", "child", ("id",), ("box_id",), None)],
        "public.owners": [("Box", "reference", ("id",), ("owner_id",), "public.boxes")],
    }
    assert {table: [use.table for use in uses] for table, uses in domain.references.items()} == {
        "public.boxes": ["public.owners"]
    }
