"""Directories of `transformers`, both ways, through the tables in maps/. No code of theirs is run or needed."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from regard.errors import ConfigError, UsageError
from regard.io import write_json
from regard.models.config import BlockConfig, EncoderConfig, Seq2SeqConfig, VisionConfig
from regard.models.generation_config import GenerationConfig
from regard.weights.directory import CONFIG, GENERATION, ONE_FILE, Checkpoint
from regard.weights.hf_config import hf_model_type, in_our_words
from regard.weights.maps import FOREIGN
from regard.weights.maps.table import Foreign, to_theirs
from regard.weights.quantize import is_quantized
from regard.weights.sentence_transformers import read_pooling, write_pooling
from regard.weights.tensors import fill, parameters, read_tensors, write_tensors


def read_huggingface(directory: Path, raw: Mapping[str, object]) -> Checkpoint:
    kind = hf_model_type(directory, raw)
    config, generation, ours = in_our_words(directory, raw, kind, read_tensors(directory))
    if isinstance(config, EncoderConfig):
        config = read_pooling(directory, config)
    return Checkpoint(fill(config, ours, directory), generation)


def write_huggingface(directory: Path, stored: Checkpoint) -> None:
    if is_quantized(stored.model):
        raise UsageError("int8 weights are regard's own; convert the float32 model for transformers instead")
    foreign = _foreign_for(stored.config)
    config = stored.config
    theirs = to_theirs(parameters(stored.model), foreign, foreign.rows(config), bare=_is_headless(config))
    theirs |= foreign.computed(config)
    tokens = {} if isinstance(config, VisionConfig) else _their_tokens(stored.generation, config)
    search = _their_search(stored.generation)
    write_tensors(directory / ONE_FILE, theirs)
    write_json(directory / CONFIG, foreign.write_settings(config) | tokens | {"dtype": "float32"})
    if tokens:
        write_json(directory / GENERATION, tokens | search)
    if isinstance(config, EncoderConfig) and (_is_headless(config) or _embeds_in_its_own_way(config)):
        write_pooling(directory, config)


def _is_headless(config: BlockConfig) -> bool:
    if isinstance(config, EncoderConfig):
        return config.head == "none"
    return isinstance(config, VisionConfig) and not config.labels


def _embeds_in_its_own_way(config: EncoderConfig) -> bool:
    return config.pooling != "mean" or config.normalize


def _foreign_for(config: BlockConfig) -> Foreign:
    """The model type that can say everything these settings say; found by saying it and reading it back."""
    reasons = []
    for foreign in FOREIGN.values():
        if type(config) is not foreign.kind:
            continue
        try:
            lost = _lost_settings(config, foreign)
        except ConfigError as error:  # it has no word at all for one of them: farther than any that loses some
            reasons.append((len(fields(config)), foreign.model_type, [str(error)]))
            continue
        if not lost:
            return foreign
        reasons.append((len(lost), foreign.model_type, lost))
    _, kind, lost = min(reasons)
    raise ConfigError(f"cannot be written for transformers: its nearest type, {kind}, does not know {', '.join(lost)}")


def _lost_settings(config: BlockConfig, foreign: Foreign) -> list[str]:
    if isinstance(config, EncoderConfig) and config.pooling != "pooler":  # these travel in files of their own
        config = replace(config, pooling="mean", normalize=False)
    names = ["pooler.dense.weight"] if getattr(config, "pooler", "none") != "none" else []
    names += ["final_logits_bias"] if getattr(config, "output_bias", False) else []
    back = foreign.read_settings(foreign.write_settings(config), names)
    return [
        f"{field.name} = {getattr(config, field.name)!r}"
        for field in fields(config)
        if field.name != "dropout"  # which some cannot say, and which changes no answer
        and _spelled_out(config, field.name) != _spelled_out(back, field.name)
    ]


def _spelled_out(config: BlockConfig, name: str) -> object:
    """A setting's value, with the defaults that follow from other settings worked out."""
    if name == "head_width":
        return config.per_head_width
    value = getattr(config, name)
    if name == "kv_heads" and value is None:
        return config.heads
    if name == "source_vocab" and value is None:
        return config.vocab if isinstance(config, Seq2SeqConfig) else None
    return value


def _their_tokens(generation: GenerationConfig, config: BlockConfig) -> dict[str, object]:
    """Those that there are not are written as null: left out, they would be the tokens of another vocabulary."""
    ends = generation.end
    tokens: dict[str, object] = {
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends) or None,
        "pad_token_id": generation.pad,
    }
    if not isinstance(config, Seq2SeqConfig):
        return tokens | {"bos_token_id": generation.start}
    return tokens if generation.start is None else tokens | {"decoder_start_token_id": generation.start}


def _their_search(generation: GenerationConfig) -> dict[str, object]:
    """Keys of generation_config.json that say how to search. They are written only where they change something:
    transformers warns about a length penalty without beams."""
    search: dict[str, object] = {}
    if generation.max_tokens is not None:
        search["max_new_tokens"] = generation.max_tokens
    if generation.suppressed:
        search["bad_words_ids"] = [[token] for token in generation.suppressed]
    if generation.beam > 1:
        if generation.length_form != "plain" and generation.length_penalty:
            raise ConfigError(
                f"length_form = {generation.length_form!r} cannot be written for transformers, which divides by "
                f"length ** length_penalty; set it to 'plain' in {GENERATION}"
            )
        # `early_stopping` is how regard searches by default: until as many hypotheses have ended as the beam has
        search |= {"num_beams": generation.beam, "length_penalty": generation.length_penalty, "early_stopping": True}
    return search
