"""A translator, regard's own or OPUS-MT's, translates without torch, the same as with it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from regard import load
from regard.errors import ModelError, WeightsError
from regard.inference.native import kernels
from regard.inference.native_backend import NativeModel
from regard.models import build
from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.tasks.load import BOX
from regard.tasks.translation import TranslationModel
from regard.weights.model_directory import Checkpoint, LazyModel, read_arrays
from regard.weights.model_io import Style, read_model, write_model
from regard.weights.quantize import quantize
from regard.weights.safetensors_files import state_tensors

compiled_only = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU that the loops are not for")
SIZES = {"vocab": 60, "width": 32, "heads": 4, "inner": 64, "encoder_layers": 2, "decoder_layers": 1, "context": 64}
KINDS: list[dict[str, object]] = [
    {},
    {"norm_first": True, "positions": "learned"},
    {"tied": "target", "source_vocab": 50, "positions": "sinusoidal_halves"},
    {"tied": "none", "output_bias": True, "scale_embeddings": False, "positions": "none"},
    {"kv_heads": 2, "head_width": 16, "attention_bias": False, "attention_output_bias": False},
    {"feedforward_bias": False, "activation": "gelu"},
]
MARIANS: list[dict[str, object]] = [
    {},
    {"tied": "target", "source_vocab": 50, "scale_embeddings": False},
    {"tied": "none", "activation": "silu"},
]
"""What differs among models that transformers' Marian can be."""
ROWS = [[5, 6, 7, 2], [9, 2], [11, 12, 13, 14, 15, 16, 2]]


def config(**others: object) -> Seq2SeqConfig:
    return Seq2SeqConfig(**SIZES | others)  # type: ignore[arg-type]


def write(directory: Path, *, int8: bool = False, style: Style = "regard", **others: object) -> Path:
    model = build(config(**others))
    initialize(model, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    directory.mkdir(exist_ok=True)
    write_model(
        directory, Checkpoint(quantize(model) if int8 else model, GenerationConfig(start=1, end=(2,), pad=0)), style
    )
    return directory


def write_marian(directory: Path, **others: object) -> Path:
    return write(directory, style="huggingface", positions="sinusoidal_halves", output_bias=True, **others)


@compiled_only
@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_native_model_takes_exactly_the_weights_of_the_modules(kind: dict[str, object], int8: bool) -> None:
    """One weight missing, left over, or of another shape or dtype, and it does not fit."""
    model = build(config(**kind))
    if int8:
        quantize(model)
    arrays = {name: tensor.detach().numpy() for name, tensor in state_tensors(model).items()}

    def fits(arrays: dict[str, NDArray[Any]]) -> bool:
        return NativeModel.of_file(config(**kind), arrays, int8=int8) is not None

    assert fits(arrays)
    assert not fits(arrays | {"more": arrays["source.tokens.weight.scale" if int8 else "source.tokens.weight"]})
    for name, array in arrays.items():
        assert not fits({other: value for other, value in arrays.items() if other != name}), name
        assert not fits(arrays | {name: array[:-1]}), name
        assert not fits(arrays | {name: array.astype(np.float64)}), name


@compiled_only
@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_written_without_the_network_is_written_with_it(
    kind: dict[str, object], int8: bool, tmp_path: Path
) -> None:
    light, full = load(write(tmp_path, int8=int8, **kind)), load(tmp_path)
    assert isinstance(light, TranslationModel)
    assert isinstance(light._runtime.model, LazyModel)
    before = light.write(ROWS, beam=3)
    assert isinstance(light._runtime.model, LazyModel), "to translate, nobody needs the modules"
    assert full.network.config == light.config
    assert full.write(ROWS, beam=3) == before
    light.logits(ROWS[0])  # which opens it
    assert not isinstance(light._runtime.model, LazyModel)
    assert light.write(ROWS, beam=3) == before
    for name, tensor in state_tensors(light.network).items():
        assert torch.equal(tensor, state_tensors(read_model(tmp_path).model)[name]), name


@compiled_only
@pytest.mark.parametrize("kind", MARIANS, ids=str)
def test_an_opus_directory_is_used_as_it_is(kind: dict[str, object], tmp_path: Path) -> None:
    light = load(write_marian(tmp_path / "theirs", **kind))
    own = load(write(tmp_path / "ours", positions="sinusoidal_halves", output_bias=True, **kind))
    assert isinstance(light, TranslationModel)
    assert light.config == read_model(tmp_path / "theirs").config
    assert light.generation == own.generation
    before = light.write(ROWS, beam=3)
    assert isinstance(light._runtime.model, LazyModel), "to translate, nobody needs the modules"
    assert own.write(ROWS, beam=3) == before
    for name, tensor in state_tensors(light.network).items():
        assert torch.equal(tensor, state_tensors(read_model(tmp_path / "theirs").model)[name]), name
    assert light.write(ROWS, beam=3) == before


@pytest.mark.parametrize("damage", ["missing", "left over", "shape"])
def test_an_opus_directory_that_does_not_fit_is_refused(damage: str, tmp_path: Path) -> None:
    path = write_marian(tmp_path) / "model.safetensors"
    tensors = load_file(path)
    match damage:
        case "missing":
            del tensors["model.encoder.layers.1.fc1.weight"]
        case "left over":
            tensors["more"] = torch.zeros(3)
        case "shape":
            tensors["final_logits_bias"] = torch.zeros(61)
    save_file(tensors, path)
    named = {
        "missing": r"encoder\.blocks\.1\.feedforward\.up\.weight",
        "left over": "more",
        "shape": "final_logits_bias",
    }
    with pytest.raises(WeightsError, match=named[damage]):
        load(tmp_path)


@compiled_only
def test_what_is_learnt_later_is_said(tmp_path: Path) -> None:
    light = load(write(tmp_path))
    before = light.write(ROWS)
    with torch.no_grad():
        for parameter in light.network.parameters():
            parameter.copy_(torch.randn_like(parameter))
    assert light.write(ROWS) != before
    assert load(tmp_path).write(ROWS) == before, "the file is as it was"


@compiled_only
def test_a_copy_writes_the_same(tmp_path: Path) -> None:
    light = load(write(tmp_path))
    before = light.write(ROWS)
    assert deepcopy(light).write(ROWS) == before
    assert deepcopy(load(tmp_path)).write(ROWS) == before


@pytest.mark.parametrize("damage", ["missing", "left over", "shape", "dtype"])
def test_a_file_that_does_not_fit_is_refused_as_ever(damage: str, tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    tensors = load_file(path)
    name = "encoder.blocks.1.feedforward.up.weight"
    match damage:
        case "missing":
            del tensors[name]
        case "left over":
            tensors["more"] = torch.zeros(3)
        case "shape":
            tensors[name] = torch.zeros(63, 32)
        case "dtype":
            tensors[name] = torch.zeros(64, 32, dtype=torch.int8)
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=name.replace(".", r"\.") if damage != "left over" else "more"):
        load(tmp_path)


def test_half_precision_is_for_torch(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path)
    assert read_arrays(path) is None
    assert not isinstance(load(tmp_path)._runtime.model, LazyModel)


@pytest.mark.parametrize("length", [0, 5, 8, 100, -1])
def test_a_file_that_was_cut_is_refused(length: int, tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(WeightsError, match="not a complete safetensors file"):
        read_arrays(path)


def test_arrays_are_those_of_the_library(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(7, dtype=torch.int8),
        "b": torch.randn(3, 5),
        "c": torch.zeros(0, 4),
        "d": torch.ones(()),
    }
    save_file(tensors, tmp_path / "x", metadata={"format": "pt"})
    found = read_arrays(tmp_path / "x")
    assert found is not None
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert np.array_equal(found[name], tensor.numpy())
        assert np.asarray(found[name]).flags.aligned


@compiled_only
@pytest.mark.parametrize(
    "program",
    [
        "assert regard.load_translator().translate('I ate an apple. You {n} too.', to='de').text",
        "model = regard.load(sys.argv[1]); out = model.write([[5, 6, 2]] * 20, beam=4); assert len(out) == 20",
    ],
    ids=["box", "directory"],
)
@pytest.mark.parametrize("whose", [write, write_marian])
def test_torch_is_not_imported(program: str, whose: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = whose(tmp_path / "model")
    start, end = "import sys, regard; ", "; assert not {'torch', 'transformers'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", start + program + end, str(folder)], check=True, timeout=120)


@compiled_only
def test_a_copy_of_the_box_needs_no_torch_at_all(tmp_path: Path) -> None:
    """Where importing torch fails, translating goes on."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('nobody needs it')")
    shutil.copytree(BOX, tmp_path / "box")
    command = [
        sys.executable,
        "-m",
        "regard",
        "translate",
        "-m",
        str(tmp_path / "box"),
        "I ate an apple.",
        "--to",
        "de",
    ]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout == "Ich habe einen Apfel gegessen.\n", done.stderr


def test_layers_that_someone_made_up_cost_no_time(tmp_path: Path) -> None:
    path = write(tmp_path) / "config.json"
    path.write_text(path.read_text().replace('"encoder_layers": 2', '"encoder_layers": 1000000000'))
    with pytest.raises(WeightsError, match="1,000,000,000 layers"):
        load(tmp_path)


@pytest.mark.parametrize("shape", [[0, 2**62, 2**62], [0] * 70], ids=["huge", "deep"])
def test_shapes_that_no_array_has_are_a_clear_error(shape: list[int], tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(WeightsError, match="not a complete safetensors file"):
        read_arrays(tmp_path / "x")


def test_shards_come_before_a_single_file(tmp_path: Path) -> None:
    write(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor * 0.5 for name, tensor in tensors.items()}, tmp_path / "one.safetensors")
    index = {"weight_map": dict.fromkeys(tensors, "one.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = load(tmp_path)
    assert torch.equal(state_tensors(found.network)["source.tokens.weight"], tensors["source.tokens.weight"] * 0.5)


@compiled_only
@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")], ids=str)
def test_weights_that_are_no_numbers_are_noticed(int8: bool, broken: float, tmp_path: Path) -> None:
    path = write(tmp_path, int8=int8) / "model.safetensors"
    tensors = load_file(path)
    tensors["decoder.blocks.0.feedforward_residual.norm.weight"][3] = broken
    save_file(tensors, path)
    with pytest.raises(ModelError, match="not finite"):
        load(tmp_path).write(ROWS)


@compiled_only
@pytest.mark.parametrize("limit", [{"OMP_THREAD_LIMIT": "1"}, {"OMP_DYNAMIC": "true"}], ids=str)
def test_fewer_threads_than_were_asked_for_do_all_the_work(limit: dict[str, str], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", width=256, inner=1024, vocab=3000)
    program = "import sys, regard; from regard.cpu import threads; threads.set_threads(4); "
    program += "print(regard.load(sys.argv[1]).write([[*range(5, 60), 2]], max_tokens=5))"
    outs = []
    for more in ({}, limit):
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(command, env=os.environ | more, check=True, capture_output=True, text=True, timeout=120)
        outs.append(done.stdout)
    assert outs[0] == outs[1] != ""


def test_the_threads_that_were_asked_for_reach_torch(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", positions="rotary")  # for which there is no compiled loop
    program = "import sys, regard; from regard.cpu import threads; threads.set_threads(1); regard.load(sys.argv[1]); "
    command = [sys.executable, "-c", program + "import torch; print(torch.get_num_threads())", str(folder)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout == "1\n"


@compiled_only
def test_one_translator_may_be_asked_by_many_at_once(tmp_path: Path) -> None:
    expected = load(write(tmp_path)).write(ROWS, beam=2)
    light = load(tmp_path)

    def ask(number: int) -> list[list[int]]:
        if number % 3 == 0:
            light.logits(ROWS[0])
        return light.write(ROWS, beam=2)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [expected] * 24
