"""What other programs call things: one table of names a family, and the settings beside it."""

from regard.weights.maps.bert import BERT
from regard.weights.maps.gpt2 import GPT2
from regard.weights.maps.llama import LLAMA
from regard.weights.maps.marian import MARIAN
from regard.weights.maps.roformer import ROFORMER
from regard.weights.maps.table import Foreign
from regard.weights.maps.vit import VIT

FOREIGN: dict[str, Foreign] = {foreign.model_type: foreign for foreign in (MARIAN, BERT, ROFORMER, GPT2, LLAMA, VIT)}
"""Every `model_type` of transformers that regard reads and writes."""
