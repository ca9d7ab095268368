"""A translation and its attention as one self-contained HTML file."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from regard.documents.result import Word
from regard.tasks import TranslationModel
from regard.tasks.translation import Translation
from regard.text.word_ids import readable

DECIMALS = 3
SPACE_MARK = "·"


def translation_page(
    model: TranslationModel, text: str, translation: Translation, words: Sequence[Word], about: str
) -> str:
    """The page of a finished translation: every head of every layer, from a second pass over its tokens."""
    trace = model.trace(translation)
    config = model.network.config
    names = {
        "cross": [f"decoder.blocks.{i}.cross.weights" for i in range(config.decoder_layers)],
        "encoder": [f"encoder.blocks.{i}.attention.weights" for i in range(config.encoder_layers)],
        "decoder": [f"decoder.blocks.{i}.attention.weights" for i in range(config.decoder_layers)],
    }
    source, target = trace["source_ids"][0].tolist(), trace["target_ids"][0].tolist()
    data: dict[str, Any] = {
        "text": text,
        "words": [{"text": word.text, "confidence": round(word.confidence, DECIMALS)} for word in words],
        "about": about,
        "source": _visible(model.tokenizer.pieces(source)),
        "target": _visible(model.tokenizer.pieces_target(target)),
        "attention": {kind: [_rounded(trace[name][0].tolist()) for name in layers] for kind, layers in names.items()},
    }
    # "</script>" in a text must not end the script element
    encoded = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = files("regard.explorer").joinpath("static/attention.html").read_text(encoding="utf-8")
    return page.replace("@DATA@", encoded)


def _visible(pieces: Sequence[str]) -> list[str]:
    """Pieces with a dot for each space."""
    return [readable(piece).replace("▁", " ").replace(" ", SPACE_MARK) for piece in pieces]


def _rounded(values: Any) -> Any:
    return [_rounded(value) for value in values] if isinstance(values, list) else round(values, DECIMALS)
