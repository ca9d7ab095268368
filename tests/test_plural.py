"""One of a thing, and several."""

import pytest

from regard.plural import counted, with_article


@pytest.mark.parametrize(
    ("number", "things", "expected"),
    [
        (0, ("pair",), "0 pairs"),
        (1, ("pair",), "1 pair"),
        (2000, ("pair",), "2,000 pairs"),
        (1, ("batch", "batches"), "1 batch"),
        (3, ("batch", "batches"), "3 batches"),
    ],
)
def test_counted(number: int, things: tuple[str, ...], expected: str) -> None:
    assert counted(number, *things) == expected


def test_the_article_fits() -> None:
    assert (with_article("encoder"), with_article("decoder")) == ("an encoder", "a decoder")
