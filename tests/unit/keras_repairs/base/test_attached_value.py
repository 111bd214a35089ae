"""Values attached to objects."""

from __future__ import annotations

import copy

from tfdist.keras_repairs.base.attached_value import AttachedValue

COUNT: AttachedValue[int] = AttachedValue("count")
TITLE: AttachedValue[str] = AttachedValue("title")


class Owner:
    pass


def test_an_object_has_one_attribute_for_all_its_values() -> None:
    owner = Owner()
    assert COUNT.get(owner) is None
    COUNT.set(owner, 1)
    TITLE.set(owner, "one")
    assert (COUNT.get(owner), TITLE.get(owner)) == (1, "one")
    assert len(vars(owner)) == 1


def test_a_value_is_made_once() -> None:
    owner = Owner()
    assert COUNT.get_or_make(owner, lambda: 1) == 1
    assert COUNT.get_or_make(owner, lambda: 2) == 1


def test_a_copy_has_the_values_of_its_original_until_either_gets_others() -> None:
    owner = Owner()
    COUNT.set(owner, 1)
    taken = copy.copy(owner)
    COUNT.set(taken, 2)
    TITLE.set(owner, "one")
    assert (COUNT.get(owner), TITLE.get(owner)) == (1, "one")
    assert (COUNT.get(taken), TITLE.get(taken)) == (2, None)
