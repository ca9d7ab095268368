"""A complete Transformer in one Python package: translate, train, and look inside, on your own machine.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/

import regard

regard.translate("I am a student.", to="de")       # the translator in the box, offline

translator = regard.load_translator()               # documents, glossaries, confidence
translator.translate("I am a student.", to="de").confidence

model = regard.load("path/to/a/model/directory")    # or "box"
model.translate("I am a student.")                  # or generate, embed, fill, classify: see model.tasks
model.trace("I am a student.")                      # every number between input and output
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.blocks.trace import Trace
    from regard.decoding.settings import SearchSettings
    from regard.documents.document_translator import DocumentTranslator, load_translator, translate
    from regard.documents.glossary import Glossary, Term
    from regard.documents.result import TranslationResult
    from regard.errors import RegardError
    from regard.tasks.base import Model
    from regard.tasks.load import load

__all__ = [
    "DocumentTranslator",
    "Glossary",
    "Model",
    "RegardError",
    "SearchSettings",
    "Term",
    "Trace",
    "TranslationResult",
    "load",
    "load_translator",
    "translate",
]
__version__ = "0.1.0"

# imported on first use: torch takes seconds, and `regard --help` must not wait for it
_HOMES = {
    "DocumentTranslator": "regard.documents.document_translator",
    "Glossary": "regard.documents.glossary",
    "Model": "regard.tasks.base",
    "RegardError": "regard.errors",
    "SearchSettings": "regard.decoding.settings",
    "Term": "regard.documents.glossary",
    "Trace": "regard.blocks.trace",
    "TranslationResult": "regard.documents.result",
    "load": "regard.tasks.load",
    "load_translator": "regard.documents.document_translator",
    "translate": "regard.documents.document_translator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
