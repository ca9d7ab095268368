"""Model directories made to hang, to crash or to fill the memory: each is refused with one clear line, at once."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from weight_samples import LLAMA, SAMPLES, change_json, change_tensors, one_clear_line, saved

import regard
from regard.documents.confidence import Confidence
from regard.errors import ConfigError, ModelError, RegardError, WeightsError
from regard.models.config import DecoderConfig, GenerationConfig
from regard.tasks.base import by_probability
from regard.tasks.language_model import LanguageModel
from regard.weights.model_directory import MAX_HEADER_BYTES, Card
from regard.weights.model_io import read_model

TENSORS, CONFIG, GENERATION = "model.safetensors", "config.json", "generation_config.json"
DEEP = "[" * 100_000


def load(directory: Path) -> regard.Model:
    return regard.load(directory, device="cpu")


@contextmanager
def seconds_of_cpu(most: float) -> Iterator[None]:
    begin = time.process_time()
    yield
    assert time.process_time() - begin < most


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return saved(tmp_path / "own", SAMPLES["bert"][0], "regard")


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str, int], Path]:
    def make(kind: str, number: int = 0) -> Path:
        generation = GenerationConfig(start=1, end=(2,), pad=0)
        return saved(tmp_path / kind, SAMPLES[kind][number], "huggingface", generation)

    return make


# ---- files that are no files ----


@pytest.mark.parametrize("name", [CONFIG, TENSORS, GENERATION, "card.json", "confidence.json", "modules.json"])
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_no_file_of_a_directory_is_waited_for(theirs: Callable[[str], Path], name: str, kind: str) -> None:
    directory = theirs("bert")
    (directory / name).unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(directory / name)
    else:
        (directory / name).symlink_to("/dev/zero")
    message = name
    try:
        load(directory)
        Card.load(directory)
        Confidence.load(directory)
    except RegardError as error:
        message = str(error)
    assert name in message


# ---- sizes ----


@pytest.mark.parametrize(("kind", "number"), [("bert", 5), ("gpt2", 2), ("vit", 1)])
def test_more_labels_than_memory(theirs: Callable[[str, int], Path], kind: str, number: int) -> None:
    directory = theirs(kind, number)
    change_json(directory / CONFIG, id2label=..., num_labels=10**10)
    with one_clear_line(ConfigError, str(directory), "num_labels must be at most 262,144, not 10,000,000,000"):
        load(directory)


def test_many_labels_take_no_time() -> None:
    labels = [f"label {i}" for i in range(60_000)] + ["crane", "crane"]
    with seconds_of_cpu(5):  # 0.1 s; a minute when the time is quadratic
        found = by_probability(labels, torch.zeros(len(labels)))
    assert "crane (60000)" in found
    assert "label 7" in found


def test_a_context_without_end(theirs: Callable[[str], Path]) -> None:
    directory = theirs("llama")
    change_json(directory / CONFIG, max_position_embeddings=10**13)
    with one_clear_line(ConfigError, str(directory), "context must be at most 16,777,216, not 10,000,000,000,000"):
        load(directory)


def test_a_model_without_an_end_token_stops(tmp_path: Path) -> None:
    """A language model writes a finite number of tokens, unless it is told to write more."""
    model = load(saved(tmp_path / "model", DecoderConfig(**LLAMA | {"context": 1 << 24}), "regard"))
    assert isinstance(model, LanguageModel)
    settings = regard.SearchSettings()
    assert model.request([1, 2], settings).max_tokens == 4096
    assert model.request([1, 2], regard.SearchSettings(max_tokens=10_000)).max_tokens == 10_000
    short = load(saved(tmp_path / "short", DecoderConfig(**LLAMA), "regard"))
    assert isinstance(short, LanguageModel)
    assert short.request([1, 2], settings).max_tokens == 14


@pytest.mark.parametrize("style", ["regard", "huggingface"])
def test_a_million_end_tokens(tmp_path: Path, style: Any) -> None:
    directory = saved(tmp_path / "model", SAMPLES["marian"][0], style, GenerationConfig(start=1, end=(2,), pad=0))
    key = "end" if style == "regard" else "eos_token_id"
    change_json(directory / GENERATION, **{key: [2] * 300_000})
    if style == "huggingface":  # the same token again and again is one token
        assert load(directory).generation.end == (2,)
        return
    with one_clear_line(ConfigError, str(directory), "end tokens must be at most 100, not 300,000"):
        load(directory)


@pytest.mark.parametrize("digits", [400, 4000, 100_000])
@pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads", "layer_norm_eps", "eos_token_id", "num_labels"])
def test_an_endless_number(theirs: Callable[[str, int], Path], key: str, digits: int) -> None:
    directory = theirs("bert", 5)
    change_json(directory / CONFIG, id2label=..., **{key: 7777})
    text = (directory / CONFIG).read_text().replace("7777", "7" * digits)
    (directory / CONFIG).write_text(text)
    with one_clear_line(ConfigError, str(directory / CONFIG), f"a number has {digits:,} digits, more than 40"):
        load(directory)


def test_a_number_that_is_infinite(theirs: Callable[[str], Path]) -> None:
    directory = theirs("bert")
    text = (directory / CONFIG).read_text().replace("1e-12", "1e999")
    (directory / CONFIG).write_text(text)
    with one_clear_line(ConfigError, str(directory / CONFIG), "the number 1e999 is too large"):
        load(directory)


def test_numbers_of_heads_that_no_tensor_can_have(theirs: Callable[[str], Path]) -> None:
    directory = theirs("roformer")
    huge = 10**30
    change_json(directory / CONFIG, hidden_size=huge, num_attention_heads=huge // 2, embedding_size=...)
    with one_clear_line(WeightsError, str(directory)):
        load(directory)


# ---- time ----


def test_many_keys_of_which_one_is_there_twice(own: Path) -> None:
    keys = ", ".join(f'"k{i}": 1' for i in range(60_000))
    (own / CONFIG).write_text(f'{{{keys}, "last": 1, "last": 2}}')
    with seconds_of_cpu(5), one_clear_line(ConfigError, str(own / CONFIG), "'last' appears twice"):
        load(own)  # 0.1 s; 25 s when the time is quadratic


def empty_tensors(count: int) -> bytes:
    entry = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = ("{" + ",".join(entry % i for i in range(count)) + "}").encode()
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize("kind", ["regard", "marian", "llama"])
@pytest.mark.parametrize("count", [60_000, 300_000])
def test_many_empty_tensors(own: Path, theirs: Callable[[str], Path], kind: str, count: int) -> None:
    directory = own if kind == "regard" else theirs(kind)
    (directory / TENSORS).write_bytes(empty_tensors(count))
    with seconds_of_cpu(20), pytest.raises(WeightsError) as caught:
        load(directory)
    too_many = count * 60 > MAX_HEADER_BYTES
    assert ("its header claims" in str(caught.value)) == too_many


def test_many_layers(own: Path) -> None:
    (own / TENSORS).write_bytes(empty_tensors(50_000))
    content = json.loads((own / CONFIG).read_text())
    content["model"]["layers"] = 40_000
    (own / CONFIG).write_text(json.dumps(content))
    with seconds_of_cpu(20), one_clear_line(WeightsError, str(own), "40,000 layers, more than 2,048"):
        load(own)


def test_many_layers_of_a_llama2c_file(tmp_path: Path) -> None:
    header = (2, 1, 1_000_000, 1, 1, 1, 1)
    (tmp_path / "model.bin").write_bytes(b"".join(number.to_bytes(4, "little") for number in header))
    with one_clear_line(WeightsError, str(tmp_path / "model.bin"), "not a llama2.c checkpoint"):
        load(tmp_path / "model.bin")


# ---- the files beside the weights ----


@pytest.mark.parametrize("content", [DEEP, "7" * 5000, '[{"type": "x.Normalize", "path": ""}]', "\ud800"])
def test_modules_that_are_no_list(theirs: Callable[[str], Path], content: str) -> None:
    directory = theirs("bert")
    if content.startswith("[{"):
        content = json.dumps(json.loads(content) * 100)
    (directory / "modules.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with one_clear_line(ConfigError, str(directory / "modules.json"), "must be a list of at most 10 modules"):
        load(directory)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"sentence": [1.0], "word": [1.0]}, "'sentence' must have 6 weights, not 1"),
        ({"sentence": [1.0] * 6, "word": [1.0] * 7}, "'word' must have 6 weights, not 7"),
        ({"error": {"sentence": "small"}}, "'error': 'sentence' must be a number"),
        ({"error": [0.1]}, "'error' must be a table"),
    ],
)
def test_a_confidence_that_cannot_be_used(tmp_path: Path, content: object, reason: str) -> None:
    (tmp_path / "confidence.json").write_text(json.dumps(content))
    with one_clear_line(ConfigError, str(tmp_path / "confidence.json"), reason):
        Confidence.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"figures": [{"BLEU": 7}]}, "'figures'[0]: 'BLEU' must be a string, not 7"),
        ({"figures": [[]]}, "'figures'[0] must be a table"),
        ({"figures": [{str(i): "x" for i in range(1000)}]}, "columns in figures must be at most 30, not 1,000"),
        ({"limits": ["x"] * 100_000}, "limits must be at most 1,000, not 100,000"),
        ({"pairs": [["en", "de"]]}, "'pairs'[0] must be a string"),
    ],
)
def test_a_card_that_cannot_be_shown(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    card = {"name": "n", "about": "a", "pairs": ["en-de"]} | change
    (tmp_path / "card.json").write_text(json.dumps(card))
    with one_clear_line(ConfigError, str(tmp_path / "card.json"), reason):
        Card.load(tmp_path)


@pytest.mark.parametrize("shape", [(), (3,), (8, 1)])
def test_scales_of_another_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from regard.models import build
    from regard.weights.model_directory import Checkpoint
    from regard.weights.model_io import write_model
    from regard.weights.quantize import quantize

    directory = tmp_path / "int8"
    directory.mkdir()
    write_model(directory, Checkpoint(quantize(build(SAMPLES["bert"][0])), GenerationConfig()))
    change_tensors(directory, **{"stack.blocks.0.attention.query.weight.scale": torch.ones(shape)})
    with pytest.raises(ModelError, match=r"^[^\n]*$"):
        read_model(directory, trainable=True)
