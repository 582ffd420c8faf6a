"""What a rule can ask a change."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tidings_domain import Aggregate, Change, Row, children


class Leaf(Row, table="public.leaves", key=("tree_id", "no")):
    tree_id: int
    no: int
    size: int = 1


class Tree(Aggregate, root="public.trees", key="id"):
    id: int
    state: str
    leaves = children(Leaf, by="tree_id")


def tree(state: str = "young", *leaves: int, size: int = 1) -> Tree:
    made: Any = Tree
    found: Tree = made(id=1, state=state, leaves=tuple(Leaf(tree_id=1, no=no, size=size) for no in leaves))
    return found


def change(before: Tree | None, after: Tree | None) -> Change[Tree]:
    return Change(before, after, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("before", "after", "created", "deleted", "changed", "became_old"),
    [
        (None, tree(), True, False, True, False),
        (None, tree("old"), True, False, True, True),
        (tree(), tree(), False, False, False, False),
        (tree(), tree("old"), False, False, True, True),
        (tree("old"), tree("old", 1), False, False, False, False),
        (tree("old"), tree(), False, False, True, False),
        (tree("old"), None, False, True, False, False),
    ],
)
def test_questions_about_the_root(
    before: Tree | None, after: Tree | None, created: bool, deleted: bool, changed: bool, became_old: bool
) -> None:
    asked = change(before, after)
    assert (asked.created, asked.deleted) == (created, deleted)
    assert (asked.changed(Tree.state), asked.changed("state")) == (changed, changed)
    assert asked.became(Tree.state, "old") is became_old


def test_before_its_creation_an_aggregate_had_no_value_and_no_rows() -> None:
    asked = change(None, tree("old", 1))
    assert (asked.changed(Tree.state), asked.became(Tree.state, "old")) == (True, True)
    assert [leaf.no for leaf in asked.added(Tree.leaves)] == [1]
    assert asked.knows(Tree.leaves)
    none = change(None, tree(cast("str", None)))
    assert (none.changed(Tree.state), none.became(Tree.state, None)) == (False, False), "none is nothing"


@pytest.mark.parametrize(
    ("before", "after", "added", "removed"),
    [
        (None, tree("young", 1, 2), [1, 2], []),
        (tree("young", 1, 2), tree("young", 2, 3), [3], [1]),
        (tree("young", 1), tree("young", 1, size=9), [], []),
        (tree("young", 1), tree("young"), [], [1]),
        (tree("young", 1), None, [], [1]),
    ],
)
def test_questions_about_children(
    before: Tree | None, after: Tree | None, added: list[int], removed: list[int]
) -> None:
    asked = change(before, after)
    assert [leaf.no for leaf in asked.added(Tree.leaves)] == added
    assert [leaf.no for leaf in asked.removed(Tree.leaves)] == removed


def test_current_is_what_is_there_now() -> None:
    assert change(None, tree("old")).current == tree("old")
    with pytest.raises(LookupError, match="it has no current state"):
        _ = change(tree(), None).current
