"""Read the settings of Hugging Face directories. Without torch, for translation models that run without it."""

from collections.abc import Mapping
from pathlib import Path

from regard.config import did_you_mean, load_json
from regard.errors import ConfigError, ModelError
from regard.models.config import BlockConfig, GenerationConfig, Seq2SeqConfig
from regard.weights.maps import HF_MODEL_TYPES
from regard.weights.maps.config_fields import decimal, number, numbers
from regard.weights.maps.table import HFModelType, Numbers, from_hf
from regard.weights.model_directory import CONFIG, GENERATION, WEIGHTS, LazyModel, check_counts, read_arrays

OLD_NORM_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # TensorFlow's names, still found in files of the first BERTs


def hf_model_type(directory: Path, raw: Mapping[str, object]) -> HFModelType:
    """The model type of a raw config.json."""
    name = raw["model_type"]
    if not isinstance(name, str):
        raise ModelError(f"{directory / CONFIG}: 'model_type' must be a string, not {name!r:.100}")
    if name not in HF_MODEL_TYPES:
        hint = did_you_mean(name, HF_MODEL_TYPES) or f"; supported are {', '.join(HF_MODEL_TYPES)}"
        raise ModelError(f"{directory / CONFIG}: regard does not support the model_type '{name}'{hint}")
    return HF_MODEL_TYPES[name]


def convert_hf(
    directory: Path, raw: Mapping[str, object], model_type: HFModelType, weights: Mapping[str, Numbers]
) -> tuple[BlockConfig, GenerationConfig, dict[str, Numbers]]:
    """Settings in regard's form, and the weights under regard's names."""
    weights = {_modern(name): tensor for name, tensor in weights.items()}
    try:
        config = model_type.read_settings(raw, weights)
        generation = read_generation(directory, raw, config)
    except ConfigError as error:  # the readers of keys do not know the directory
        raise ConfigError(f"{directory}: {error}") from None
    check_counts(config, len(weights), directory)
    return config, generation, from_hf(weights, model_type, model_type.rows(config), directory)


def lazy_hf_model(directory: Path, raw: Mapping[str, object]) -> tuple[LazyModel, GenerationConfig] | None:
    """A translation model that can run without torch; None for every other model."""
    model_type = hf_model_type(directory, raw)
    path = directory / WEIGHTS
    if model_type.config_type is not Seq2SeqConfig or not path.is_file():
        return None
    arrays = read_arrays(path)
    if arrays is None:
        return None
    config, generation, weights = convert_hf(directory, raw, model_type, arrays)
    assert isinstance(config, Seq2SeqConfig)
    return LazyModel(config, weights, directory, int8=False), generation


def read_generation(directory: Path, raw: Mapping[str, object], config: BlockConfig) -> GenerationConfig:
    """generation_config.json takes precedence over config.json, where older files keep the same keys.

    Tokens outside the vocabulary are ignored: the first Llamas have the padding -1, and models with a reduced
    vocabulary often keep the end token of the full one. `length_penalty` means the same in both: a hypothesis of n
    tokens, with the end token and without the start token, is divided by n ** length_penalty. `early_stopping` is not
    read: a search in regard stops as with `true`, after as many finished hypotheses as the beam has.
    """
    path = directory / GENERATION
    both = dict(raw) | (load_json(path) if path.is_file() else {})
    both = {key: value for key, value in both.items() if value is not None}
    translates = isinstance(config, Seq2SeqConfig)
    vocab = getattr(config, "vocab", 0)

    def token(key: str) -> int | None:
        return number(both, key) if key in both and number(both, key) in range(vocab) else None

    bad_words = both.get("bad_words_ids", [])
    if not isinstance(bad_words, list) or not all(isinstance(word, list) for word in bad_words):
        raise ConfigError(f"config.json: 'bad_words_ids' must be a list of lists of ids, not {bad_words!r}")
    suppressed = dict.fromkeys(
        id for word in bad_words if len(word) == 1 for id in numbers({"bad_words_ids": word}, "bad_words_ids")
    )
    max_tokens = number(both, "max_new_tokens", least=1) if "max_new_tokens" in both else None
    if max_tokens is None and translates and "max_length" in both:
        max_tokens = number(both, "max_length", least=2) - 1  # max_length counts the start token
    return GenerationConfig(
        start=token("decoder_start_token_id" if translates else "bos_token_id"),
        end=tuple(id for id in dict.fromkeys(numbers(both, "eos_token_id")) if id in range(vocab)),
        pad=token("pad_token_id"),
        suppressed=tuple(id for id in suppressed if id in range(vocab)),
        max_tokens=max_tokens,
        beam=number(both, "num_beams", 1, least=1),
        length_penalty=decimal(both, "length_penalty", 1.0),
    )


def _modern(name: str) -> str:
    for old, new in OLD_NORM_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
