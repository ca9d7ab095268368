"""Names and numbers of both sides become placeholders, in the share of pairs that was asked for."""

from hypothesis import given
from hypothesis import strategies as st

from regard.text.placeholders import PLACEHOLDERS, with_placeholders


def test_what_both_sides_have() -> None:
    source, target = with_placeholders("Tom went to Boston in 1999.", "Tom ging 1999 nach Boston.", 1.0)
    marks = [one for one in source if one in PLACEHOLDERS]
    assert len(set(marks)) == 3
    first, second, third = marks
    assert source == f"{first} went to {second} in {third}."
    assert target == f"{first} ging {third} nach {second}."


def test_what_stays() -> None:
    for pair in (
        ("I am tired.", "Ich bin müde."),
        ("Tom likes Tom.", "Tom mag Tom."),  # twice: which is which cannot be told
        ("Mary left.", "Maria ging."),
        ("an arm", "an arm"),  # neither a name nor a number
    ):
        assert with_placeholders(*pair, 1.0) == pair


@given(st.text(), st.text())
def test_nothing_without_a_share(source: str, target: str) -> None:
    assert with_placeholders(source, target, 0.0) == (source, target)


@given(st.lists(st.sampled_from(["Tom", "Boston", "12", "the", "a", "7", "Ann"])))
def test_both_sides_have_the_same_ones(words: list[str]) -> None:
    text = " ".join(words)
    source, target = with_placeholders(text, text, 1.0)
    assert source == target


def test_the_share_is_kept() -> None:
    pairs = [(f"Tom has {i} apples.", f"Tom hat {i} Äpfel.") for i in range(1000)]
    changed = sum(with_placeholders(*pair, 0.25) != pair for pair in pairs)
    assert 200 < changed < 300
