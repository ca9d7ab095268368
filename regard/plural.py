"""Counts and articles in messages."""


def counted(number: int, thing: str, things: str = "") -> str:
    """'1 pair', '2,000 pairs'; `things` is the plural, if it is not `thing` with an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def with_article(thing: str) -> str:
    """'an encoder model', 'a decoder model'"""
    return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}"
