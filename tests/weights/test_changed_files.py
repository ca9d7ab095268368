"""Weights that another program changes, cuts or replaces while a process uses them.

Each runs in a child process: a mapped file that is cut kills the process (SIGBUS).
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.cpu.child_environment import child_environment
from regard.inference.native import kernels
from regard.models import build
from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.tasks.load import load
from regard.weights.model_directory import SHORTLIST, WEIGHTS, Checkpoint
from regard.weights.model_io import Style, write_model
from regard.weights.shortlist import Shortlist, read_shortlist, write_shortlist

SIZES = {"vocab": 3000, "width": 64, "heads": 2, "inner": 64, "context": 64}
TRANSLATION = Seq2SeqConfig(encoder_layers=1, decoder_layers=1, positions="sinusoidal_halves", **SIZES)  # type: ignore[arg-type]
compiled_only = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")

CUT = "import os; os.truncate(path, 4096)"
OVERWRITE = "f = open(path, 'r+b'); f.seek(8192); f.write(b'\\x40' * (os.path.getsize(path) - 8192)); f.close()"


def written(folder: Path, config: BlockConfig, style: Style = "regard") -> Path:
    folder.mkdir(exist_ok=True)
    network = build(config)
    initialize(network, seed=1)
    write_model(folder, Checkpoint(network, GenerationConfig(start=1, end=(2,), pad=0)), style)
    shutil.copy(folder / WEIGHTS, folder / f"{WEIGHTS}.other")
    return folder


def run(folder: Path, use: str, change: str, then: str) -> subprocess.CompletedProcess[str]:
    """`use` gives `result()`; the file is changed between two calls; `then` says what must hold: the "same" result,
    also after the file is cut, or an "error"."""
    program = f"""
import os, sys, numpy, torch, regard
from regard.errors import RegardError
folder, path = sys.argv[1], sys.argv[1] + "/{WEIGHTS}"
model = regard.load(folder)
rows = [[i, i + 1, i + 2] for i in range(3, 2900, 30)]
def result(): return {use}
before = {"result()" if then == "same" else "None"}
{change}
try:
    after = result()
    {CUT if then == "same" else ""}
    after = str(after) + str(result())
except RegardError as error:
    sys.stdout.write(str(error))
    raise SystemExit(error.exit_code)
assert {"after == str(before) * 2" if then == "same" else "False"}
"""
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)], env=child_environment(), capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("config", "style", "use"),
    [
        (TRANSLATION, "regard", "model.write(rows, max_tokens=5)"),
        (TRANSLATION, "huggingface", "model.write(rows, max_tokens=5)"),
        (DecoderConfig(layers=1, **SIZES), "regard", "model.write(rows, max_tokens=3)"),  # type: ignore[arg-type]
        (EncoderConfig(layers=1, **SIZES), "regard", "model.logits(rows[9])"),  # type: ignore[arg-type]
    ],
    ids=["translation", "marian", "decoder", "encoder"],
)
def test_a_loaded_model_does_not_depend_on_its_file(
    config: BlockConfig, style: Style, use: str, tmp_path: Path
) -> None:
    done = run(written(tmp_path / "model", config, style), use, OVERWRITE, "same")
    assert done.returncode == 0, done.stderr or done.stdout


@compiled_only
@pytest.mark.parametrize("change", [CUT, OVERWRITE], ids=["cut", "overwritten"])
def test_weights_that_are_needed_later_and_have_changed_are_one_clear_error(change: str, tmp_path: Path) -> None:
    """The torch network of a translation model is built on first use."""
    done = run(written(tmp_path / "model", TRANSLATION), "model.logits(rows[9])", change, "error")
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout == f"{tmp_path}/model/{WEIGHTS}: has changed since it was opened; load the model again"


def test_weights_that_were_replaced_are_still_those_that_were_loaded(tmp_path: Path) -> None:
    folder = written(tmp_path, TRANSLATION)
    model = load(folder)
    (folder / f"{WEIGHTS}.other").write_bytes(b"another model")
    (folder / f"{WEIGHTS}.other").replace(folder / WEIGHTS)
    assert model.logits([3, 4, 5]).isfinite().all()


def test_a_shortlist_is_a_copy(tmp_path: Path) -> None:
    """The C code uses its numbers as indices."""
    write_shortlist(tmp_path, Shortlist(np.full((60, 2), 7, np.int32), np.arange(4, dtype=np.int32)))
    found = read_shortlist(tmp_path, 60, 60)
    assert found is not None
    content = (tmp_path / SHORTLIST).read_bytes()
    with (tmp_path / SHORTLIST).open("r+b") as file:
        file.write(content[:-480] + b"\x7f" * 480)
    assert found.related_VC.max() == 7
    assert found.frequent_F.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7)], ids=str)
def test_every_dtype_is_read_as_the_library_reads_it(
    dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path
) -> None:
    from safetensors.torch import load_file
    from safetensors.torch import save_file as save_tensors

    from regard.weights.safetensors_files import read_file

    torch.manual_seed(1)
    tensor = (torch.randn(shape) * 3).to(dtype)
    save_tensors({"b": torch.ones(3, dtype=torch.int8), "a": tensor}, tmp_path / "x")
    found, expected = read_file(tmp_path / "x"), load_file(tmp_path / "x")
    assert found.keys() == expected.keys()
    for name, one in found.items():
        assert one.dtype == expected[name].dtype
        assert torch.equal(one, expected[name])
