"""What regard exports is read by transformers; and every variant survives the round trip."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from parity_checks import same_model
from their_models import PAD, VARIANTS, Both, Pair, ragged
from torch import Tensor

import regard
from regard.errors import ConfigError
from regard.models import build
from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, GenerationConfig, VisionConfig
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import write_model

# parts of theirs that no task of regard's needs, and that are therefore not kept
NOT_OURS = ("cls.seq_relationship.",)
NO_TEXT: dict[str, Any] = {"width": 16, "heads": 2, "inner": 24, "layers": 2, "activation": "gelu", "dropout": 0.1}
SIZES: dict[str, Any] = NO_TEXT | {"vocab": 30}
ROTARY: dict[str, Any] = {"context": 16, "positions": "rotary"}
PROBABILITIES = "attention_probs_dropout_prob"


def kept(pair: Pair) -> dict[str, Tensor]:
    unused = NOT_OURS + (("pooler.",) if pair.family == "vit" else ())
    return {name: tensor for name, tensor in pair.theirs.state_dict().items() if not name.startswith(unused)}


def their_logits(pair: Pair, theirs: object) -> Tensor:
    ids_BL, present_BL = ragged([9, 4])
    if pair.family == "vit":
        inputs = {"pixel_values": torch.randn(2, 2, 12, 12, generator=torch.Generator().manual_seed(0))}
    else:
        inputs = {"input_ids": ids_BL, "attention_mask": present_BL.long()}
    if pair.family == "marian":
        inputs["decoder_input_ids"] = ragged([5, 6], vocab=40)[0]
    out = theirs(**inputs)  # type: ignore[operator]
    logits: Tensor = next(out[key] for key in ("logits", "prediction_logits", "last_hidden_state") if key in out)
    return logits


@torch.inference_mode()
@pytest.mark.parametrize("name", VARIANTS)
def test_export(both: Both, name: str, tmp_path: Path) -> None:
    pair = both(name)
    pair.ours.save(tmp_path / "for them", "huggingface")
    kind = {"BertForPreTraining": "BertForMaskedLM"}.get(type(pair.theirs).__name__, type(pair.theirs).__name__)
    read = getattr(__import__("transformers"), kind)
    extra = {"add_pooling_layer": False} if name in ("bert, bare without a pooler", "vit, bare") else {}
    theirs, report = read.from_pretrained(tmp_path / "for them", output_loading_info=True, **extra)
    theirs.eval()
    wanted, found = kept(pair), theirs.state_dict()
    if kind == type(pair.theirs).__name__:
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        assert not report["mismatched_keys"]
        assert found.keys() == wanted.keys()
    for key in found:
        exact = "embed_positions" not in key  # computed, and not by the same program
        assert torch.equal(found[key], wanted[key]) if exact else torch.allclose(found[key], wanted[key], atol=1e-6)
    assert (their_logits(pair, theirs) - their_logits(pair, pair.theirs)).abs().max() <= 1e-6


@pytest.mark.parametrize("style", ["regard", "huggingface"])
@pytest.mark.parametrize("name", VARIANTS)
def test_there_and_back(both: Both, name: str, style: str, tmp_path: Path) -> None:
    ours = both(name).ours
    ours.save(tmp_path / "saved", style)
    again = regard.load(tmp_path / "saved", device="cpu")
    same_model(ours, again)
    again.save(tmp_path / "twice", style)
    for file in sorted(path for path in (tmp_path / "saved").rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "twice" / file.relative_to(tmp_path / "saved")).read_bytes()


@pytest.mark.parametrize("name", ["marian", "gpt2", "llama", "bert, masked words", "roformer, bare"])
def test_missing_special_tokens_are_written_as_null(both: Both, name: str, tmp_path: Path) -> None:
    """Without the keys, transformers uses 58,100 for Marian and 50,256 for GPT-2, outside these vocabularies."""
    pair = both(name)
    unaware = type(pair.ours)(pair.ours.network, GenerationConfig(), None, pair.directory)
    unaware.save(tmp_path / "for them", "huggingface")
    theirs = type(pair.theirs).from_pretrained(tmp_path / "for them")
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(theirs.config, key) is None


@pytest.mark.parametrize("name", ["marian", "gpt2", "llama"])
def test_generation_settings_are_exported(both: Both, name: str, tmp_path: Path) -> None:
    pair = both(name)
    generation = GenerationConfig(start=3, end=(4, 5), pad=6, suppressed=(7, 8), max_tokens=9)
    type(pair.ours)(pair.ours.network, generation, None, pair.directory).save(tmp_path / "for them", "huggingface")
    theirs = type(pair.theirs).from_pretrained(tmp_path / "for them").generation_config
    start = theirs.decoder_start_token_id if pair.family == "marian" else theirs.bos_token_id
    assert (start, theirs.eos_token_id, theirs.pad_token_id) == (3, [4, 5], 6)
    assert (theirs.bad_words_ids, theirs.max_new_tokens) == ([[7], [8]], 9)


@torch.inference_mode()
def test_beam_settings_are_exported(both: Both, tmp_path: Path) -> None:
    """`generate` without further arguments gives what regard gives."""
    pair = both("marian")
    generation = GenerationConfig(
        start=PAD, end=(2,), pad=PAD, suppressed=(PAD,), max_tokens=14, beam=4, length_penalty=0.6, length_form="plain"
    )
    ours = type(pair.ours)(pair.ours.network, generation, None, pair.directory)
    ours.save(tmp_path / "for them", "huggingface")
    theirs = type(pair.theirs).from_pretrained(tmp_path / "for them").eval()
    assert (theirs.generation_config.num_beams, theirs.generation_config.length_penalty) == (4, 0.6)
    ids_BS, present_BS = ragged([9, 3, 6])
    rows = theirs.generate(input_ids=ids_BS, attention_mask=present_BS.long()).tolist()
    expected = [[token for token in row[1 : row.index(2) if 2 in row else None] if token != PAD] for row in rows]
    assert ours.write([ids_BS[row, :length].tolist() for row, length in enumerate([9, 3, 6])]) == expected


def test_a_length_form_without_a_name_is_refused(both: Both, tmp_path: Path) -> None:
    pair = both("marian")
    generation = GenerationConfig(start=PAD, end=(2,), pad=PAD, beam=4, length_penalty=0.6, length_form="paper")
    ours = type(pair.ours)(pair.ours.network, generation, None, pair.directory)
    with pytest.raises(ConfigError, match="length_form = 'paper' cannot be written for transformers"):
        ours.save(tmp_path / "for them", "huggingface")
    assert not (tmp_path / "for them").exists()


@pytest.mark.parametrize(
    ("config", "hidden", "attention"),
    [
        (EncoderConfig(**SIZES, context=16, segments=2, embedding_norm=True), "hidden_dropout_prob", PROBABILITIES),
        (EncoderConfig(**SIZES, segments=2, embedding_norm=True, **ROTARY), "hidden_dropout_prob", PROBABILITIES),
        (DecoderConfig(**SIZES, context=16, norm_first=True), "resid_pdrop", "attn_pdrop"),
        (VisionConfig(**NO_TEXT, image=8, patch=4, norm_first=True), "hidden_dropout_prob", PROBABILITIES),
    ],
    ids=["bert", "roformer", "gpt2", "vit"],
)
def test_no_attention_dropout_is_claimed(config: BlockConfig, hidden: str, attention: str, tmp_path: Path) -> None:
    """regard drops no attention weights, so a model trained further in transformers must not start to."""
    write_model(tmp_path, Checkpoint(build(config), GenerationConfig()), "huggingface")
    theirs = transformers.AutoConfig.from_pretrained(tmp_path)
    assert (getattr(theirs, hidden), getattr(theirs, attention)) == (0.1, 0.0)
