"""What a directory of `transformers` says, in our words. Without torch, for who only wants to translate."""

from collections.abc import Mapping
from pathlib import Path

from regard.config import did_you_mean, load_json
from regard.errors import ConfigError, ModelError
from regard.models.config import BlockConfig, Seq2SeqConfig
from regard.models.generation_config import GenerationConfig
from regard.weights.arrays import LazyModel, as_lazy_model, read_arrays
from regard.weights.directory import CONFIG, GENERATION, ONE_FILE
from regard.weights.maps import FOREIGN
from regard.weights.maps.settings import decimal, number, numbers
from regard.weights.maps.table import Foreign, Numbers, to_ours

OLD_NORM_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # TensorFlow's, still found in the first BERTs' files


def hf_model_type(directory: Path, raw: Mapping[str, object]) -> Foreign:
    """Which of their models it is, by its raw config.json."""
    kind = raw["model_type"]
    if not isinstance(kind, str):
        raise ModelError(f"{directory / CONFIG}: 'model_type' must be a text, not {kind!r:.100}")
    if kind not in FOREIGN:
        hint = did_you_mean(kind, FOREIGN) or f"; known are {', '.join(FOREIGN)}"
        raise ModelError(f"{directory / CONFIG}: regard does not read the model_type '{kind}'{hint}")
    return FOREIGN[kind]


def in_our_words(
    directory: Path, raw: Mapping[str, object], foreign: Foreign, weights: Mapping[str, Numbers]
) -> tuple[BlockConfig, GenerationConfig, dict[str, Numbers]]:
    """Settings, and the weights under our names."""
    theirs = {_modern(name): tensor for name, tensor in weights.items()}
    try:
        config = foreign.read_settings(raw, theirs)
        generation = read_generation(directory, raw, config)
    except ConfigError as error:  # the tables know the key, not the directory
        raise ConfigError(f"{directory}: {error}") from None
    return config, generation, to_ours(theirs, foreign, foreign.rows(config), directory)


def lazy_hf_model(directory: Path, raw: Mapping[str, object]) -> tuple[LazyModel, GenerationConfig] | None:
    """A translation model that can be used without torch, if it is one."""
    foreign = hf_model_type(directory, raw)
    path = directory / ONE_FILE
    if foreign.kind is not Seq2SeqConfig or not path.is_file():
        return None
    arrays = read_arrays(path)
    if arrays is None:
        return None
    config, generation, ours = in_our_words(directory, raw, foreign, arrays)
    assert isinstance(config, Seq2SeqConfig)
    found = as_lazy_model(config, arrays.called(ours), directory, int8=False)
    return None if found is None else (found, generation)


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

    def one(key: str) -> int | None:
        return number(both, key) if key in both and number(both, key) in range(vocab) else None

    banned = both.get("bad_words_ids", [])
    if not isinstance(banned, list) or not all(isinstance(word, list) for word in banned):
        raise ConfigError(f"config.json: 'bad_words_ids' must be a list of lists of ids, not {banned!r}")
    words = [token for word in banned if len(word) == 1 for token in numbers({"bad_words_ids": word}, "bad_words_ids")]
    max_tokens = number(both, "max_new_tokens", least=1) if "max_new_tokens" in both else None
    if max_tokens is None and translates and "max_length" in both:
        max_tokens = number(both, "max_length", least=2) - 1  # max_length counts the start token
    return GenerationConfig(
        start=one("decoder_start_token_id" if translates else "bos_token_id"),
        end=tuple(token for token in numbers(both, "eos_token_id") if token in range(vocab)),
        pad=one("pad_token_id"),
        suppressed=tuple(token for token in words if token in range(vocab)),
        max_tokens=max_tokens,
        beam=number(both, "num_beams", 1, least=1),
        length_penalty=decimal(both, "length_penalty", 1.0),
    )


def _modern(name: str) -> str:
    for old, new in OLD_NORM_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
