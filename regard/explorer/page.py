"""A translation and its attention as one HTML file: no network, no build, nothing but the file."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from regard.tasks import TranslationModel
from regard.tasks.base import Translation
from regard.text.words import readable
from regard.translate.result import Word

DIGITS = 3
SPACE = "·"


def translation_page(model: TranslationModel, text: str, found: Translation, words: Sequence[Word], about: str) -> str:
    """The page of a translation that was made before: every head of every layer, read off a second pass over it."""
    seen = model.trace(found)
    config = model.network.config
    names = {
        "cross": [f"decoder.blocks.{i}.cross.weights" for i in range(config.decoder_layers)],
        "encoder": [f"encoder.blocks.{i}.attention.weights" for i in range(config.encoder_layers)],
        "decoder": [f"decoder.blocks.{i}.attention.weights" for i in range(config.decoder_layers)],
    }
    source, target = seen["source_ids"][0].tolist(), seen["target_ids"][0].tolist()
    data: dict[str, Any] = {
        "text": text,
        "words": [{"text": word.text, "confidence": round(word.confidence, DIGITS)} for word in words],
        "about": about,
        "source": _shown(model.tokenizer.pieces(source)),
        "target": _shown(model.tokenizer.pieces_target(target)),
        "attention": {kind: [_rounded(seen[name][0].tolist()) for name in part] for kind, part in names.items()},
    }
    # "</script>" in a text must not end the script that holds it
    held = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = files("regard.explorer").joinpath("static/attention.html").read_text(encoding="utf-8")
    return page.replace("@DATA@", held)


def _shown(pieces: Sequence[str]) -> list[str]:
    """With a dot for the space before a word."""
    return [readable(piece).replace("▁", " ").replace(" ", SPACE) for piece in pieces]


def _rounded(values: Any) -> Any:
    return [_rounded(one) for one in values] if isinstance(values, list) else round(values, DIGITS)
