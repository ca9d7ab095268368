"""The spine: a model directory in, an object out whose methods are the path of a text through the model.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/

loaded       what every loaded model shares
translator   an encoder and a decoder: translate a sentence
compiled     the worker that translates, mostly; asked  the one for every kind of search; inside  a look inside
interpreter  texts of any length and form, with a translator: segments, attempts, and the rendering that comes out
texts        one stack over a text: embed, fill, classify, generate
images       one stack over patches: classify
steps        one step of a search, the past in a cache
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cpu.device import import_torch, only_cpu, resolve_device, resolve_dtype
from regard.errors import ModelError
from regard.models import family_of
from regard.models.config import BlockConfig, Seq2SeqConfig
from regard.tasks.base import Model
from regard.tasks.translation import TranslationModel
from regard.text import tokenizer as text
from regard.text.tokenizer import Tokenizer
from regard.weights.arrays import lazy_model
from regard.weights.directory import CONFIG, INDEX, WEIGHTS, read_config_json, regard_settings, regard_shortlist

if TYPE_CHECKING:
    from regard.tasks.image_classifier import ImageClassifier
    from regard.tasks.text_models import EncoderModel, LanguageModel

__all__ = ["EncoderModel", "ImageClassifier", "LanguageModel", "Model", "TranslationModel", "kind_of", "load"]

KINDS = {
    "seq2seq": "TranslationModel",
    "encoder": "EncoderModel",
    "decoder": "LanguageModel",
    "vision": "ImageClassifier",
}
# imported on first use: a translation model may run without torch
_HOMES = {
    "TranslationModel": "translation",
    "EncoderModel": "text_models",
    "LanguageModel": "text_models",
    "ImageClassifier": "image_classifier",
}


def load(directory: str | Path, *, device: str = "auto", dtype: str = "auto") -> Model:
    """The model in a directory: regard's own, or Hugging Face's as it is; or in a llama2.c `.bin` file.

    On a CPU the numbers are float32 unless asked for otherwise, on a GPU bfloat16 where it has it.
    """
    path = Path(directory)
    if only_cpu(device) and dtype in ("auto", "float32") and (light := _without_torch(path)):
        return light
    import_torch()
    from regard.weights.checkpoint import read_model

    stored = read_model(path)
    tokenizer = _tokenizer(path, stored.config)
    place = resolve_device(device)
    stored.model.to(place, resolve_dtype(dtype, place))
    model = kind_of(stored.config)(stored.model, stored.generation, tokenizer, path)
    model.shortlist = stored.shortlist
    return model


def kind_of(config: BlockConfig) -> type[Model]:
    """The class of models with such settings."""
    kind: type[Model] = __getattr__(KINDS[family_of(config)])
    return kind


def _without_torch(path: Path) -> TranslationModel | None:
    """A translator, regard's own or Hugging Face's, with compiled loops for all it does; the rest is not for here."""
    if not (path / CONFIG).is_file() or (path / INDEX).is_file():
        return None
    raw = read_config_json(path)
    if "family" in raw:
        settings = regard_settings(path, raw)
        if not isinstance(settings.config, Seq2SeqConfig):
            return None
        found = lazy_model(settings.config, path / WEIGHTS, int8=settings.int8)
        light = None if found is None else (found, settings.generation)
    elif "model_type" in raw:
        from regard.weights.hf_config import lazy_hf_model  # the tables of names are for who needs them

        light = lazy_hf_model(path, raw)
    else:
        return None
    if light is None:
        return None
    weights, generation = light
    model = TranslationModel(weights, generation, _tokenizer(path, weights.config), path)
    model.shortlist = regard_shortlist(path, weights.config)
    return model


def _tokenizer(path: Path, config: BlockConfig) -> Tokenizer | None:
    tokenizer = text.load(path.parent if path.is_file() else path)
    if tokenizer is not None:
        written = getattr(config, "vocab", 0)
        read = getattr(config, "source_vocab", None) or written
        for pieces, known in ((tokenizer.vocab, read), (tokenizer.vocab_target, written)):
            if pieces > known:
                raise ModelError(
                    f"{path}: the tokenizer has {pieces:,} pieces, but the model knows only {known:,}; "
                    f"one of them belongs to another model"
                )
    return tokenizer


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.tasks' has no attribute '{name}'")
    return getattr(import_module(f"regard.tasks.{_HOMES[name]}"), name)
