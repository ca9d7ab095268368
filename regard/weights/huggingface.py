"""Read and write Hugging Face directories with the tables in maps/. `transformers` is neither run nor needed."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from regard.errors import ConfigError, UsageError
from regard.io import write_json
from regard.models.config import BlockConfig, EncoderConfig, GenerationConfig, Seq2SeqConfig, VisionConfig
from regard.weights.hf_config import convert_hf, hf_model_type
from regard.weights.maps import HF_MODEL_TYPES
from regard.weights.maps.table import HFModelType, to_hf
from regard.weights.model_directory import CONFIG, GENERATION, WEIGHTS, Checkpoint
from regard.weights.quantize import is_quantized
from regard.weights.safetensors_files import build_model, parameters, read_tensors, write_tensors
from regard.weights.sentence_transformers import read_pooling, write_pooling


def read_huggingface(directory: Path, raw: Mapping[str, object]) -> Checkpoint:
    model_type = hf_model_type(directory, raw)
    config, generation, tensors = convert_hf(directory, raw, model_type, read_tensors(directory))
    if isinstance(config, EncoderConfig):
        config = read_pooling(directory, config)
    return Checkpoint(build_model(config, tensors, directory), generation)


def write_huggingface(directory: Path, checkpoint: Checkpoint) -> None:
    if is_quantized(checkpoint.model):
        raise UsageError("transformers cannot read int8 weights of regard; convert the float32 model instead")
    model_type = _model_type_for(checkpoint.config)
    config = checkpoint.config
    tensors = to_hf(parameters(checkpoint.model), model_type, model_type.rows(config), bare=_is_headless(config))
    tensors |= model_type.computed(config)
    tokens = {} if isinstance(config, VisionConfig) else _hf_tokens(checkpoint.generation, config)
    search = _hf_search(checkpoint.generation)
    write_tensors(directory / WEIGHTS, tensors)
    write_json(directory / CONFIG, model_type.write_settings(config) | tokens | {"dtype": "float32"})
    if tokens:
        write_json(directory / GENERATION, tokens | search)
    if isinstance(config, EncoderConfig) and (_is_headless(config) or _has_custom_pooling(config)):
        write_pooling(directory, config)


def _is_headless(config: BlockConfig) -> bool:
    if isinstance(config, EncoderConfig):
        return config.head == "none"
    return isinstance(config, VisionConfig) and not config.labels


def _has_custom_pooling(config: EncoderConfig) -> bool:
    return config.pooling != "mean" or config.normalize


def _model_type_for(config: BlockConfig) -> HFModelType:
    """The model type that can express these settings: written and read back, they are the same."""
    reasons = []
    for model_type in HF_MODEL_TYPES.values():
        if type(config) is not model_type.config_type:
            continue
        try:
            lost = _lost_settings(config, model_type)
        except ConfigError as error:  # it cannot write one of them at all, which is worse than losing some
            reasons.append((len(fields(config)), model_type.name, [str(error)]))
            continue
        if not lost:
            return model_type
        reasons.append((len(lost), model_type.name, lost))
    _, kind, lost = min(reasons)
    raise ConfigError(f"cannot be written for transformers: the closest model type, {kind}, has no {', '.join(lost)}")


def _lost_settings(config: BlockConfig, model_type: HFModelType) -> list[str]:
    if isinstance(config, EncoderConfig) and config.pooling != "pooler":  # these are written to files of their own
        config = replace(config, pooling="mean", normalize=False)
    names = ["pooler.dense.weight"] if getattr(config, "pooler", "none") != "none" else []
    names += ["final_logits_bias"] if getattr(config, "output_bias", False) else []
    back = model_type.read_settings(model_type.write_settings(config), names)
    return [
        f"{field.name} = {getattr(config, field.name)!r}"
        for field in fields(config)
        if field.name != "dropout"  # some types lack it, and it changes no output
        and _resolved(config, field.name) != _resolved(back, field.name)
    ]


def _resolved(config: BlockConfig, name: str) -> object:
    """A setting's value; a default that follows from other settings is replaced by its value."""
    if name == "head_width":
        return config.per_head_width
    value = getattr(config, name)
    if name == "kv_heads" and value is None:
        return config.heads
    if name == "source_vocab" and value is None:
        return config.vocab if isinstance(config, Seq2SeqConfig) else None
    return value


def _hf_tokens(generation: GenerationConfig, config: BlockConfig) -> dict[str, object]:
    """Missing tokens are written as null: without the key, transformers uses defaults of another vocabulary."""
    ends = generation.end
    tokens: dict[str, object] = {
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends) or None,
        "pad_token_id": generation.pad,
    }
    if not isinstance(config, Seq2SeqConfig):
        return tokens | {"bos_token_id": generation.start}
    return tokens if generation.start is None else tokens | {"decoder_start_token_id": generation.start}


def _hf_search(generation: GenerationConfig) -> dict[str, object]:
    """The search settings of generation_config.json, only where they have an effect: transformers warns about a length
    penalty without beams."""
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
        # as regard searches by default: until `num_beams` hypotheses have finished
        search |= {"num_beams": generation.beam, "length_penalty": generation.length_penalty, "early_stopping": True}
    return search
