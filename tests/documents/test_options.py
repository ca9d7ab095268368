"""What may be chosen about a translation, and what is refused."""

import math
from dataclasses import fields
from typing import Any

import pytest

from regard.decoding.settings import SearchSettings, TextSearchOptions
from regard.documents.options import TranslationOptions
from regard.errors import UsageError


def test_every_search_setting_is_a_keyword() -> None:
    assert {*TextSearchOptions.__annotations__, "n_best", "boost"} == {field.name for field in fields(SearchSettings)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": 5}, "to must be a language such as 'de', not 5"),
        ({"source": ["en"]}, "source must be a language"),
        ({"glossary": "terms.tsv"}, r"read a file with Glossary.read\(path\)"),
        ({"min_confidence": 7}, "min_confidence must be at least 0 and at most 1, not 7"),
        ({"min_confidence": math.nan}, "min_confidence must be at least 0 and at most 1"),
        ({"min_confidence": "high"}, "min_confidence must be a number"),
        ({"alternatives": 8}, "alternatives must be at least 0 and at most 7, not 8"),
        ({"alternatives": 1.5}, "alternatives must be a whole number"),
        ({"search": {"beem": 4}}, "unknown search setting 'beem' - did you mean 'beam'"),
        ({"search": {"zzz": 4}}, "unknown search setting 'zzz'; choose from beam, "),
        ({"search": {"num_beams": 4}}, "did you mean 'beam'"),
        ({"search": {"n_best": 4}}, "unknown search setting 'n_best'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TranslationOptions(**options)
