"""int8 models on disk: a quarter of the size, the same translations as the quantized model in memory."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from regard.blocks.int8 import Int8Matrix
from regard.cli.main import main
from regard.errors import ConfigError, UsageError, WeightsError
from regard.models import build
from regard.models.config import (
    BlockConfig,
    DecoderConfig,
    EncoderConfig,
    GenerationConfig,
    Seq2SeqConfig,
    VisionConfig,
)
from regard.models.initialize import initialize
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import read_model, write_model
from regard.weights.quantize import is_quantized, quantize
from regard.weights.safetensors_files import state_tensors

SIZES = {"width": 32, "heads": 4, "inner": 64}
CONFIGS: dict[str, BlockConfig] = {
    "tied": Seq2SeqConfig(vocab=90, **SIZES, encoder_layers=1, decoder_layers=2),  # type: ignore[arg-type]
    "untied": Seq2SeqConfig(vocab=90, source_vocab=70, tied="none", **SIZES, encoder_layers=1, decoder_layers=1),  # type: ignore[arg-type]
    "encoder": EncoderConfig(vocab=90, **SIZES, layers=1, context=16, segments=2),  # type: ignore[arg-type]
    "decoder": DecoderConfig(vocab=90, **SIZES, layers=1, context=16, activation="swiglu", norm="rms"),  # type: ignore[arg-type]
    "vision": VisionConfig(image=8, patch=4, **SIZES, layers=1, labels=("a", "b")),  # type: ignore[arg-type]
}


def made(config: BlockConfig, directory: Path) -> nn.Module:
    model = build(config)
    initialize(model, seed=1)
    directory.mkdir()
    write_model(directory, Checkpoint(quantize(model.eval()), GenerationConfig()))
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_read_is_what_was_written(name: str, tmp_path: Path) -> None:
    model = made(CONFIGS[name], tmp_path / "m")
    read = read_model(tmp_path / "m").model
    assert is_quantized(read)
    written, found = state_tensors(model), state_tensors(read)
    assert written.keys() == found.keys()
    assert all(torch.equal(written[name], found[name]) for name in written)


def test_what_was_one_matrix_is_one(tmp_path: Path) -> None:
    made(CONFIGS["tied"], tmp_path / "m")
    read = read_model(tmp_path / "m").model
    assert read.source.tokens.weight is read.target.tokens.weight is read.output.weight  # type: ignore[union-attr]
    assert sum(isinstance(part, Int8Matrix) for part in read.modules()) == 1 + 6 + 2 * 10
    names = load_file(tmp_path / "m" / "model.safetensors").keys()
    assert "source.tokens.weight.whole" in names
    assert not any(name.startswith(("output", "target")) for name in names)


def test_a_translation_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    model = made(CONFIGS["tied"], tmp_path / "m")
    source, target = torch.randint(90, (2, 7)), torch.randint(90, (2, 5))
    with torch.inference_mode():
        assert torch.equal(read_model(tmp_path / "m").model(source, target), model(source, target))


def test_int8_is_regards_own(tmp_path: Path) -> None:
    model = quantize(build(CONFIGS["tied"]))
    with pytest.raises(UsageError, match="convert the float32 model"):
        write_model(tmp_path, Checkpoint(model, GenerationConfig()), "huggingface")


def test_the_wrong_kind_of_numbers_is_named(tmp_path: Path) -> None:
    made(CONFIGS["tied"], tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"source.tokens.weight.whole": tensors["source.tokens.weight.whole"].float()}, path)
    with pytest.raises(WeightsError, match=r"'source.tokens.weight.whole' is torch.float32, not torch.int8"):
        read_model(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(
        (tmp_path / "m" / "config.json").read_text().replace('"int8"', '"int3"')
    )
    with pytest.raises(ConfigError, match="int3"):
        read_model(tmp_path / "m")


def test_regard_convert_int8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Seq2SeqConfig(vocab=400, width=128, heads=4, inner=256, encoder_layers=1, decoder_layers=1)
    model = build(config)
    initialize(model, seed=1)
    (tmp_path / "large").mkdir()
    write_model(tmp_path / "large", Checkpoint(model, GenerationConfig(start=1, end=(2,), pad=0)))
    assert main(["convert", str(tmp_path / "large"), str(tmp_path / "small"), "--int8"]) == 0
    large, small = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("large", "small"))
    assert small < 0.3 * large
    assert main(["info", str(tmp_path / "small")]) == 0
    assert "MB of int8" in capsys.readouterr().out
