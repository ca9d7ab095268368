"""The tables of names, read in both directions."""

from pathlib import Path

import pytest
import torch
from weight_samples import EVERY, NAMES, SAMPLES, random_model, saved

from regard.models.config import BlockConfig, EncoderConfig, GenerationConfig
from regard.weights.maps import HF_MODEL_TYPES
from regard.weights.maps.table import SAME, TRANSPOSED, Layout, _match, from_hf, pairs_to_halves, shaped, thirds, to_hf
from regard.weights.model_io import Style, read_model
from regard.weights.safetensors_files import parameters

LAYOUTS = {
    "same": (SAME, (6, 4)),
    "transposed": (TRANSPOSED, (6, 4)),
    "shaped": (shaped((24,), (1, 1, 24)), (1, 1, 24)),
    "thirds of a matrix": (thirds(transposed=True), (4, 18)),
    "thirds of a vector": (thirds(transposed=False), (18,)),
    "one head's pairs": (pairs_to_halves(1), (8, 5)),
    "three heads' pairs": (pairs_to_halves(3), (18, 5)),
    "pairs of a bias": (pairs_to_halves(3), (18,)),
}


def headless(config: BlockConfig) -> bool:
    return isinstance(config, EncoderConfig) and config.head == "none"


@pytest.mark.parametrize(("layout", "shape"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_undone(layout: Layout, shape: tuple[int, ...]) -> None:
    theirs = torch.randn(shape)
    ours = layout.read(theirs)
    assert torch.equal(layout.write(ours), theirs)
    for first, second in zip(layout.read(layout.write(ours)), ours, strict=True):
        assert torch.equal(first, second)


def test_where_pairs_go() -> None:
    """Neighbours 2i, 2i + 1 of each head become i, i + K/2 of the same head."""
    (ours,) = pairs_to_halves(2).read(torch.arange(12))
    assert ours.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_where_thirds_go() -> None:
    """GPT-2's weights are transposed, with query, key and value side by side."""
    query, key, value = thirds(transposed=True).read(torch.arange(12).reshape(2, 6))
    assert query.tolist() == [[0, 6], [1, 7]]
    assert key.tolist() == [[2, 8], [3, 9]]
    assert value.tolist() == [[4, 10], [5, 11]]


@pytest.mark.parametrize(("kind", "config"), EVERY, ids=NAMES)
def test_names_go_there_and_back(kind: str, config: BlockConfig) -> None:
    model_type, ours = HF_MODEL_TYPES[kind], parameters(random_model(config))
    rows = model_type.rows(config)
    theirs = to_hf(ours, model_type, rows, bare=headless(config))
    back = from_hf(theirs, model_type, rows, Path("somewhere"))
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)
    again = to_hf(back, model_type, rows, bare=headless(config))
    assert again.keys() == theirs.keys()
    assert all(torch.equal(again[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", HF_MODEL_TYPES)
def test_every_row_is_used(kind: str) -> None:
    unused: set[tuple[str, ...]] = set()
    used: set[tuple[str, ...]] = set()
    for config in SAMPLES[kind]:
        names = parameters(random_model(config))
        for row in HF_MODEL_TYPES[kind].rows(config):
            found = any(_match(row.regard[0], name) is not None for name in names)
            (used if found else unused).add(row.regard)
    # `part` gives every norm a bias, which RMSNorm has not
    assert {row for row in unused - used if not row[0].endswith("norm.bias")} == set()


@pytest.mark.parametrize("kind", HF_MODEL_TYPES)
def test_no_name_is_claimed_twice(kind: str) -> None:
    for config in SAMPLES[kind]:
        rows = HF_MODEL_TYPES[kind].rows(config)
        theirs = [row.hf for row in rows]
        ours = [name for row in rows for name in row.regard]
        assert len(set(theirs)) == len(theirs)
        assert len(set(ours)) == len(ours)


@pytest.mark.parametrize("style", ["regard", "huggingface"])
@pytest.mark.parametrize(("kind", "config"), EVERY, ids=NAMES)
def test_a_directory_goes_there_and_back(kind: str, config: BlockConfig, style: Style, tmp_path: Path) -> None:
    given = GenerationConfig(start=3, end=(4, 5), pad=0, suppressed=(0, 7), max_tokens=9)
    generation = GenerationConfig() if kind == "vit" else given
    directory = saved(tmp_path / "saved", config, style, generation)
    back = read_model(directory)
    before, after = parameters(random_model(config)), parameters(back.model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert back.generation == generation
    # `or`: where transformers writes out a default, it is the same number
    assert (back.config.per_head_width, back.config.kv_heads or config.heads) == (
        config.per_head_width,
        config.kv_heads or config.heads,
    )
    for name in vars(config).keys() - {"head_width", "kv_heads", "source_vocab"}:
        assert getattr(back.config, name) == getattr(config, name), name


@pytest.mark.parametrize(
    "generation",
    [
        GenerationConfig(),
        GenerationConfig(max_tokens=7),
        GenerationConfig(suppressed=(5,)),
        GenerationConfig(start=0, end=(0,), pad=0),
        GenerationConfig(end=(1, 2, 3)),
    ],
)
@pytest.mark.parametrize("style", ["regard", "huggingface"])
@pytest.mark.parametrize("kind", ["marian", "gpt2", "llama"])
def test_generation_goes_there_and_back(kind: str, style: Style, generation: GenerationConfig, tmp_path: Path) -> None:
    directory = saved(tmp_path / "saved", SAMPLES[kind][0], style, generation)
    assert read_model(directory).generation == generation


def test_every_model_type_has_samples() -> None:
    assert SAMPLES.keys() == HF_MODEL_TYPES.keys()
