"""regard: the Transformer, whole.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/

import regard
box = regard.open_interpreter()           # the translator in the box; texts of any length and form
box.translate("I am a student.", to="de").text
model = regard.load("path/to/a/model/directory")
model.translate("I am a student.")        # or generate, embed, fill, classify, as its family allows
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.blocks.trace import Trace
    from regard.errors import RegardError
    from regard.tasks import load
    from regard.tasks.base import Model
    from regard.translate.document_translator import DocumentTranslator, load_translator

__all__ = ["DocumentTranslator", "Model", "RegardError", "Trace", "load", "load_translator"]
__version__ = "0.1.0"

# imported when first asked for: torch takes seconds, and `regard --help` should not wait for it
_HOMES = {
    "DocumentTranslator": "regard.translate.document_translator",
    "Model": "regard.tasks.base",
    "RegardError": "regard.errors",
    "Trace": "regard.blocks.trace",
    "load": "regard.tasks",
    "load_translator": "regard.translate.document_translator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
