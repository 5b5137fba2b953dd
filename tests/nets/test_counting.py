"""Numbers of things in words."""

import pytest

from nets.counting import counted


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (0, "image", "0 images"),
        (1, "image", "1 image"),
        (2, "class", "2 classes"),
        (1, "class", "1 class"),
        (3, "batch", "3 batches"),
        (1000, "box", "1000 boxes"),
    ],
)
def test_a_noun_is_in_the_plural_unless_there_is_one(count, noun, words):
    assert counted(count, noun) == words
