"""Batches -> logits. Four families that stack one block; each file is a whole forward pass, top to bottom."""

from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, Seq2SeqConfig, VisionConfig
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.models.vision import Vision

Family = Seq2Seq | Encoder | Decoder | Vision

FAMILIES: dict[str, tuple[type[BlockConfig], type[Family]]] = {  # the complete list: nothing registers itself
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "encoder": (EncoderConfig, Encoder),
    "decoder": (DecoderConfig, Decoder),
    "vision": (VisionConfig, Vision),
}


def family_of(config: BlockConfig) -> str:
    """The name under which this kind of settings stands in the table."""
    return next(name for name, (kind, _) in FAMILIES.items() if type(config) is kind)


def build(config: BlockConfig) -> Family:
    """A model with these settings, its weights as torch made them; `initialize` or a checkpoint comes next."""
    _, family = FAMILIES[family_of(config)]
    return family(config)  # type: ignore[arg-type]
