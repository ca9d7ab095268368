"""Hugging Face's model types: for each one its settings and a table of tensor names."""

from regard.weights.maps.bert import BERT
from regard.weights.maps.gpt2 import GPT2
from regard.weights.maps.llama import LLAMA
from regard.weights.maps.marian import MARIAN
from regard.weights.maps.roformer import ROFORMER
from regard.weights.maps.table import HFModelType
from regard.weights.maps.vit import VIT

HF_MODEL_TYPES: dict[str, HFModelType] = {each.name: each for each in (MARIAN, BERT, ROFORMER, GPT2, LLAMA, VIT)}
"""Every `model_type` of transformers that regard reads and writes."""
