import pytest
import torch

from regard.errors import ConfigError
from regard.models import build, family_of
from regard.models.config import DecoderConfig
from regard.models.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_laid_out(name: str) -> None:
    config = preset(name)
    with torch.device("meta"):
        model = build(config)
    family = {"transformer": "seq2seq", "bert": "encoder", "vit": "vision"}.get(name.split("-")[0], "decoder")
    assert family_of(config) == family
    assert all(weight.is_meta for weight in model.parameters())


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("gpt2-meduim", "gpt2-medium"), ("transfomer-base", "transformer-base"), ("llama-3.1-7b", "llama-3.1-8b")],
)
def test_an_unknown_preset_suggests_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"^unknown preset '{wrong}' - did you mean '{near}'\\?$"):
        preset(wrong)


def test_an_unknown_preset_that_is_near_to_nothing_names_them_all() -> None:
    with pytest.raises(ConfigError, match=r"^unknown preset 'zzz'; choose one of transformer-base, .*, vit-small$"):
        preset("zzz")


def test_a_family_has_presets_of_its_own() -> None:
    with pytest.raises(
        ConfigError, match=r"^preset 'bert-base' is of another family; choose one of gpt2, .*, llama-small$"
    ):
        preset("bert-base", DecoderConfig)
    with pytest.raises(ConfigError, match=r"^unknown preset 'gpt-smal' - did you mean 'gpt-small'\?$"):
        preset("gpt-smal", DecoderConfig)


@pytest.mark.parametrize(
    ("name", "heads", "kv_heads", "head_width", "base"),
    [
        ("llama-2-7b", 32, 32, 128, 10_000.0),
        ("llama-3.1-8b", 32, 8, 128, 500_000.0),
        ("llama-3.2-1b", 32, 8, 64, 500_000.0),
    ],
)
def test_the_heads_of_the_llamas(name: str, heads: int, kv_heads: int, head_width: int, base: float) -> None:
    config = preset(name)
    assert isinstance(config, DecoderConfig)
    assert (config.heads, config.kv_heads or config.heads, config.per_head_width) == (heads, kv_heads, head_width)
    assert (config.rotary_base, config.norm_eps, config.norm) == (base, 1e-5, "rms")
