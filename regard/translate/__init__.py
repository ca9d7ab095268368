"""Documents and people: sentences, protected spans, glossaries, retries, confidence, file formats.

    regard.translate("I ate an apple.", to="de")

`regard.translate` is this package, and Python binds a package's name in its parent at its first import: a function of
that name would be replaced by the package. So the package itself can be called, like the function
`regard.translate.document_translator.translate`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from regard.translate.document_translator import translate

        return translate(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
