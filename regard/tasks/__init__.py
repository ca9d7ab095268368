"""The spine: a model directory in, an object out whose methods follow a text through the model.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/

load               a directory -> a model
base               what every model shares, and what those that generate share
translation        an encoder and a decoder: translate a sentence
language_model     a decoder: continue a text; encoder  embed, fill, classify a text; text_model  what both share
image_classifier   an encoder over patches: classify an image
introspect         attention, logits and traces of a translation
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.tasks.base import Model
from regard.tasks.load import kind_of, load
from regard.tasks.translation import Translation, TranslationModel

if TYPE_CHECKING:
    from regard.tasks.encoder import EncoderModel
    from regard.tasks.image_classifier import ImageClassifier
    from regard.tasks.language_model import LanguageModel

__all__ = [
    "EncoderModel",
    "ImageClassifier",
    "LanguageModel",
    "Model",
    "Translation",
    "TranslationModel",
    "kind_of",
    "load",
]

# imported on first use: they need torch, and a translation model may run without
_HOMES = {"EncoderModel": "encoder", "LanguageModel": "language_model", "ImageClassifier": "image_classifier"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.tasks' has no attribute '{name}'")
    return getattr(import_module(f"regard.tasks.{_HOMES[name]}"), name)
