"""The spine: a model directory in, an object out whose methods are the path of a text through the model.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/

loaded       what every loaded model shares
translator   an encoder and a decoder: translate a sentence
interpreter  texts of any length and form, with a translator: segments, attempts, and the rendering that comes out
texts        one stack over a text: embed, fill, classify, generate
images       one stack over patches: classify
steps        one step of a search, the past in a cache
"""

from collections.abc import Callable
from pathlib import Path

from regard import hardware
from regard.errors import ModelError
from regard.models import family_of
from regard.pipeline.images import Viewer
from regard.pipeline.loaded import Model
from regard.pipeline.texts import Reader, Writer
from regard.pipeline.translator import Translator
from regard.text import tokenizer as text
from regard.weights import store

__all__ = ["Model", "Reader", "Translator", "Viewer", "Writer", "load"]

KINDS: dict[str, Callable[..., Model]] = {
    "seq2seq": Translator,
    "encoder": Reader,
    "decoder": Writer,
    "vision": Viewer,
}


def load(directory: str | Path, *, device: str = "auto", dtype: str = "auto") -> Model:
    """The model in a directory: regard's own, or Hugging Face's as it is; or in a llama2.c `.bin` file.

    On a CPU the numbers are float32 unless asked for otherwise, on a GPU bfloat16 where it has it.
    """
    hardware.prepare()  # before torch's first use: some machines die of what they advertise
    path = Path(directory)
    stored = store.read(path)
    tokenizer = text.load(path.parent if path.is_file() else path)
    if tokenizer is not None:
        written = getattr(stored.config, "vocab", 0)
        read = getattr(stored.config, "source_vocab", None) or written
        for pieces, known in ((tokenizer.vocab, read), (tokenizer.vocab_target, written)):
            if pieces > known:
                raise ModelError(
                    f"{path}: the tokenizer has {pieces:,} pieces, but the model knows only {known:,}; "
                    f"one of them belongs to another model"
                )
    place = hardware.device(device)
    stored.model.to(place, hardware.dtype(dtype, place))
    model = KINDS[family_of(stored.config)](stored.model, stored.generation, tokenizer, path)
    model.shortlist = stored.shortlist
    return model
