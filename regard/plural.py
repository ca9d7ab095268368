"""Words that messages share."""


def counted(number: int, thing: str, things: str = "") -> str:
    """'1 pair', '2,000 pairs'; `things` where the plural is not made with an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
