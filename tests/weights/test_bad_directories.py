"""Invalid, incomplete or malicious model directories: each is refused with a clear one-line error."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from weight_samples import (
    SAMPLES,
    change_json,
    change_tensors,
    everything_in,
    one_clear_line,
    saved,
)

import regard
from regard.errors import ConfigError, ModelError, RegardError, TokenizerError, WeightsError
from regard.models.config import GenerationConfig

TENSORS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"


def load(directory: Path) -> regard.Model:
    return regard.load(directory, device="cpu")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return saved(tmp_path / "own", SAMPLES["bert"][0], "regard")


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str], Path]:
    def make(kind: str) -> Path:
        return saved(tmp_path / kind, SAMPLES[kind][0], "huggingface", GenerationConfig(start=1, end=(2,), pad=0))

    return make


@pytest.fixture(params=["regard", "huggingface"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return saved(tmp_path / "model", SAMPLES["bert"][0], request.param)


# ---- the directory itself ----


def test_no_such_directory(tmp_path: Path) -> None:
    with one_clear_line(ModelError, str(tmp_path / "nowhere")):
        load(tmp_path / "nowhere")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("text")
    with one_clear_line(ModelError, str(tmp_path / "model"), "is a file"):
        load(tmp_path / "model")


def test_an_empty_directory(tmp_path: Path) -> None:
    with one_clear_line(ModelError, str(tmp_path), CONFIG):
        load(tmp_path)


def test_a_run_instead_of_its_model(tmp_path: Path) -> None:
    saved(tmp_path / "model", SAMPLES["bert"][0], "regard")
    with one_clear_line(
        ModelError,
        f"{tmp_path}: not a model directory, {CONFIG} is missing",
        f"the model of this run is {tmp_path / 'model'}",
    ):
        load(tmp_path)


# ---- config.json ----


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"model_type: bert", b'{"model_type": "b\xff\xfert"}', b"\x80\x04}q\x00.", b"[" * 100_000],
    ids=["empty", "cut", "YAML", "not UTF-8", "pickle", "deep"],
)
def test_config_that_is_no_json(either: Path, content: bytes) -> None:
    (either / CONFIG).write_bytes(content)
    with one_clear_line(ConfigError, str(either / CONFIG), "JSON"):
        load(either)


@pytest.mark.parametrize("content", ["[]", "7", "null", '"bert"', "[[1, 2]]"])
def test_config_that_is_no_table(either: Path, content: str) -> None:
    (either / CONFIG).write_text(content)
    with one_clear_line(ConfigError, str(either / CONFIG), "table"):
        load(either)


def test_config_missing(either: Path) -> None:
    (either / CONFIG).unlink()
    with one_clear_line(ModelError, str(either), CONFIG):
        load(either)


def test_config_of_nobody(either: Path) -> None:
    (either / CONFIG).write_text("{}")
    with one_clear_line(ModelError, str(either / CONFIG), "family", "model_type"):
        load(either)


def change_model(own: Path, **changes: Any) -> None:
    content = json.loads((own / CONFIG).read_text())
    content["model"] |= changes
    (own / CONFIG).write_text(json.dumps(content))


def test_unknown_key_in_the_model_settings(own: Path) -> None:
    change_model(own, haeds=2)
    with one_clear_line(ConfigError, str(own / CONFIG), "'haeds'", "did you mean 'heads'?"):
        load(own)


def test_unknown_key_at_the_top(own: Path) -> None:
    change_json(own / CONFIG, format=..., fromat=1)
    with one_clear_line(ModelError, str(own / CONFIG), "'fromat'", "did you mean 'format'?"):
        load(own)


def test_unknown_family(own: Path) -> None:
    change_json(own / CONFIG, family="encodr")
    with one_clear_line(ModelError, str(own / CONFIG), "'encodr'", "did you mean 'encoder'?"):
        load(own)
    change_json(own / CONFIG, family="xyz")
    with one_clear_line(ModelError, str(own / CONFIG), "'xyz'", "seq2seq, encoder, decoder, vision"):
        load(own)


@pytest.mark.parametrize("number", [None, 0, 3, "1", True, 1e9])
def test_an_unsupported_format(own: Path, number: object) -> None:
    change_json(own / CONFIG, format=number)
    with one_clear_line(ModelError, str(own / CONFIG), "format"):
        load(own)


@pytest.mark.parametrize("table", [..., None, [], "width=8"])
def test_no_model_settings(own: Path, table: object) -> None:
    change_json(own / CONFIG, model=table)
    with one_clear_line(ModelError, str(own / CONFIG), "'model'"):
        load(own)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("width", "8"),
        ("width", 8.5),
        ("width", True),
        ("width", None),
        ("width", -8),
        ("width", 9),
        ("heads", 0),
        ("dropout", 2.0),
        ("dropout", "0.1"),
        ("activation", "glue"),
        ("labels", "ab"),
        ("labels", [1]),
        ("norm_first", 1),
        ("rotary_scaling", {"kind": "linear"}),
    ],
)
def test_settings_of_the_wrong_kind(own: Path, key: str, value: object) -> None:
    change_model(own, **{key: value})
    named = "factor" if key == "rotary_scaling" else key
    with one_clear_line(ConfigError, str(own / CONFIG), named):
        load(own)


@pytest.mark.parametrize("key", ["vocab", "width", "layers", "context", "inner", "heads"])
def test_settings_beyond_measure(own: Path, key: str) -> None:
    """A huge number in a file costs neither memory nor time."""
    for value in (10**9, 10**18, 10**30):
        change_model(own, **{key: value, "head_width": 4} if key == "heads" else {key: value})
        with one_clear_line(WeightsError, str(own)):
            load(own)


def test_missing_setting(own: Path) -> None:
    content = json.loads((own / CONFIG).read_text())
    del content["model"]["width"]
    (own / CONFIG).write_text(json.dumps(content))
    with one_clear_line(ConfigError, str(own / CONFIG), "'width' is missing"):
        load(own)


def test_unknown_model_type(theirs: Callable[[str], Path]) -> None:
    directory = theirs("bert")
    change_json(directory / CONFIG, model_type="berd")
    with one_clear_line(ModelError, str(directory / CONFIG), "'berd'", "did you mean 'bert'?"):
        load(directory)
    change_json(directory / CONFIG, model_type="t5")
    with one_clear_line(ModelError, str(directory / CONFIG), "'t5'", "marian, bert, roformer, gpt2, llama, vit"):
        load(directory)


@pytest.mark.parametrize("value", [["bert"], None, 7, ["x" * 1000]])
def test_a_family_or_model_type_that_is_not_a_string(own: Path, theirs: Callable[[str], Path], value: object) -> None:
    change_json(own / CONFIG, family=value)
    with one_clear_line(ModelError, str(own / CONFIG), "'family' must be a string, not "):
        load(own)
    directory = theirs("bert")
    change_json(directory / CONFIG, model_type=value)
    with one_clear_line(ModelError, str(directory / CONFIG), "'model_type' must be a string, not "):
        load(directory)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("bert", "hidden_act", "quick_gelu"),
        ("bert", "hidden_act", ["gelu"]),
        ("bert", "position_embedding_type", "relative_key_query"),
        ("bert", "is_decoder", True),
        ("bert", "hidden_size", "8"),
        ("bert", "hidden_size", ...),
        ("bert", "num_attention_heads", 3),
        ("bert", "layer_norm_eps", "tiny"),
        ("roformer", "rotary_value", True),
        ("roformer", "embedding_size", 4),
        ("roformer", "hidden_act", "mish"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("gpt2", "add_cross_attention", True),
        ("gpt2", "n_embd", None),
        ("gpt2", "activation_function", "laplace"),
        ("llama", "hidden_act", "gelu"),
        ("llama", "num_key_value_heads", 3),
        ("llama", "attention_bias", "yes"),
        ("vit", "image_size", 9),
        ("vit", "image_size", [8, 8]),
        ("vit", "hidden_act", "xielu"),
        ("marian", "normalize_before", True),
        ("marian", "normalize_embedding", True),
        ("marian", "static_position_embeddings", False),
        ("marian", "encoder_attention_heads", 4),
        ("marian", "activation_function", "gelu_fast"),
    ],
)
def test_unsupported_settings(theirs: Callable[[str], Path], kind: str, key: str, value: object) -> None:
    directory = theirs(kind)
    change_json(directory / CONFIG, **{key: value})
    named = {"num_attention_heads": "heads", "num_key_value_heads": "kv_heads"}.get(key, key)
    named = "image" if (key, value) == ("image_size", 9) else named
    with one_clear_line(ConfigError, str(directory), named):
        load(directory)


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("kind", ["yarn", "dynamic", "longrope", 7])
def test_unsupported_rotary_scaling(theirs: Callable[[str], Path], spelling: str, kind: object) -> None:
    directory = theirs("llama")
    change_json(directory / CONFIG, rope_parameters=..., rope_scaling=...)
    change_json(directory / CONFIG, **{spelling: {"rope_type": kind, "factor": 4.0}})
    with one_clear_line(ConfigError, str(directory), f"'{kind}'", "default, linear, llama3"):
        load(directory)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("eos_token_id", ["end"]),
        ("eos_token_id", "2"),
        ("eos_token_id", [[2]]),
        ("eos_token_id", 2.5),
        ("bad_words_ids", [5]),
        ("bad_words_ids", [["x"]]),
        ("bad_words_ids", "pad"),
        ("pad_token_id", "0"),
        ("bos_token_id", [1]),
        ("max_new_tokens", "many"),
        ("max_new_tokens", 0),
        ("max_new_tokens", -3),
        ("num_beams", 0),
        ("num_beams", 2.5),
        ("length_penalty", "long"),
    ],
)
@pytest.mark.parametrize("file", [CONFIG, "generation_config.json"])
def test_generation_settings_of_the_wrong_kind(
    theirs: Callable[[str], Path], file: str, key: str, value: object
) -> None:
    directory = theirs("gpt2")
    for name in (CONFIG, "generation_config.json"):
        change_json(directory / name, **{key: ...})
    change_json(directory / file, **{key: value})
    with one_clear_line(ConfigError, str(directory), key):
        load(directory)


BAD_GENERATION = (
    *("{", "[]", '{"start": "x"}', '{"stat": 1}', '{"max_tokens": 0}', '{"end": 3}'),
    *('{"pad": 30}', '{"start": -1}', '{"suppressed": [3, 31]}', '{"never": [3]}'),  # of 30 pieces
)


@pytest.mark.parametrize("raw", BAD_GENERATION)
def test_own_generation_settings(own: Path, raw: str) -> None:
    (own / "generation_config.json").write_text(raw)
    with one_clear_line(ConfigError, str(own / "generation_config.json")):
        load(own)


def test_generation_keys_of_format_1(own: Path) -> None:
    """Directories of format 1 have other names for two of the settings."""
    change_json(own / CONFIG, format=1)
    (own / "generation_config.json").write_text('{"never": [3], "max_new": 7}')
    assert load(own).generation == GenerationConfig(suppressed=(3,), max_tokens=7)
    (own / "generation_config.json").write_text('{"never": [3], "suppressed": [4]}')
    with one_clear_line(ConfigError, str(own / "generation_config.json"), "'never'"):
        load(own)


def test_tokens_outside_the_vocabulary_are_ignored(theirs: Callable[[str], Path]) -> None:
    """The first Llamas have the padding -1; models with a reduced vocabulary often keep the original end token."""
    directory = theirs("llama")
    words = [[5], [99], [6, 7]]
    changes = {"pad_token_id": -1, "bos_token_id": 50256, "eos_token_id": [2, 50256], "bad_words_ids": words}
    change_json(directory / "generation_config.json", **changes)
    assert load(directory).generation == GenerationConfig(end=(2,), suppressed=(5,))


@pytest.mark.parametrize("labels", [{"0": "a", "2": "b"}, {"a": "0"}])
def test_labels_with_a_gap(theirs: Callable[[str], Path], labels: dict[str, str]) -> None:
    directory = theirs("bert")
    change_json(directory / CONFIG, architectures=["BertForSequenceClassification"], id2label=labels)
    with one_clear_line(ConfigError, str(directory), "id2label"):
        load(directory)


# ---- the tensors ----


def test_tensors_missing(either: Path) -> None:
    (either / TENSORS).unlink()
    with one_clear_line(WeightsError, str(either), TENSORS):
        load(either)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_tensors_cut_short(either: Path, part: float) -> None:
    whole = (either / TENSORS).read_bytes()
    (either / TENSORS).write_bytes(whole[: int(len(whole) * part)])
    with one_clear_line(WeightsError, str(either / TENSORS)):
        load(either)


@pytest.mark.parametrize("missing", [1, 3, 4, 100])
def test_tensors_cut_by_little(either: Path, missing: int) -> None:
    (either / TENSORS).write_bytes((either / TENSORS).read_bytes()[:-missing])
    with one_clear_line(WeightsError, str(either / TENSORS)):
        load(either)


def header(text: str | bytes, body: bytes = b"") -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return len(raw).to_bytes(8, "little") + raw + body


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        b"<!DOCTYPE html><html><body>404</body></html>",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
        pickle.dumps({"weight": 1}),
        header("{"),
        header("[]"),
        header(b"\xff\xfe"),
        header("{}"),
        (2**62).to_bytes(8, "little") + b"{}",
        header(json.dumps({"a": entry([4], 0, 2**60)}), b"\x00" * 16),
        header(json.dumps({"a": entry([2**40, 2**40], 0, 16)}), b"\x00" * 16),
        header(json.dumps({"a": entry([4], 16, 0)}), b"\x00" * 16),
        header(json.dumps({"a": entry([4], 0, 16), "b": entry([4], 8, 24)}), b"\x00" * 24),
        header(json.dumps({"a": entry([4], 0, 16, "F33")}), b"\x00" * 16),
        header(json.dumps({"a": entry([-4], 0, 16)}), b"\x00" * 16),
        header(json.dumps({"a": 7}), b"\x00" * 16),
    ],
    ids=[
        "nothing",
        "zeros",
        "ones",
        "a web page",
        "a pointer",
        "a pickle",
        "a cut header",
        "a list",
        "not UTF-8",
        "no tensors",
        "an endless header",
        "beyond the end",
        "overflow",
        "backwards",
        "overlap",
        "unknown type",
        "negative",
        "no entry",
    ],
)
def test_tensors_that_are_garbage(either: Path, content: bytes) -> None:
    (either / TENSORS).write_bytes(content)
    with one_clear_line(WeightsError, str(either)):
        load(either)


def some_name(directory: Path) -> str:
    return next(name for name, tensor in sorted(load_file(directory / TENSORS).items()) if tensor.dim() == 2)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (30, 8, 1), ()])
def test_wrong_shape(either: Path, shape: tuple[int, ...]) -> None:
    change_tensors(either, **{some_name(either): torch.zeros(shape)})
    with one_clear_line(WeightsError, str(either), "shape", str(list(shape))):
        load(either)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("gpt2", "transformer.h.0.attn.c_attn.weight"),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight"),
        ("roformer", "encoder.layer.0.attention.self.query.weight"),
        ("roformer", "encoder.layer.0.attention.self.key.bias"),
        ("vit", "embeddings.cls_token"),
        ("vit", "embeddings.position_embeddings"),
        ("marian", "final_logits_bias"),
    ],
)
@pytest.mark.parametrize("shape", [(5,), (2,), (8, 2), (7, 11), (2, 3, 5), ()])
def test_wrong_shape_where_the_layout_differs(
    theirs: Callable[[str], Path], kind: str, name: str, shape: tuple[int, ...]
) -> None:
    directory = theirs(kind)
    assert name in load_file(directory / TENSORS)
    change_tensors(directory, **{name: torch.zeros(shape)})
    with one_clear_line(WeightsError, str(directory), "shape"):
        load(directory)


def test_left_over_tensor(either: Path) -> None:
    change_tensors(either, **{"extra.weight": torch.zeros(3)})
    with one_clear_line(WeightsError, str(either), "extra.weight"):
        load(either)


def test_left_over_layer(theirs: Callable[[str], Path]) -> None:
    """A model with fewer layers in its settings than in its file would silently be another model."""
    directory = theirs("llama")
    change_json(directory / CONFIG, num_hidden_layers=1)
    with one_clear_line(WeightsError, str(directory), "left over"):
        load(directory)


def test_missing_tensor(either: Path) -> None:
    change_tensors(either, **{some_name(either): ...})
    with one_clear_line(WeightsError, str(either), "missing"):
        load(either)


def test_missing_layer(theirs: Callable[[str], Path]) -> None:
    directory = theirs("llama")
    change_json(directory / CONFIG, num_hidden_layers=3)
    with one_clear_line(WeightsError, str(directory), "missing", "blocks.2", "more"):
        load(directory)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.uint8])
def test_integer_tensor(either: Path, dtype: torch.dtype) -> None:
    name = some_name(either)
    shape = load_file(either / TENSORS)[name].shape
    change_tensors(either, **{name: torch.ones(shape, dtype=dtype)})
    with one_clear_line(WeightsError, str(either), "floating point"):
        load(either)


class Trap:
    """A pickle that runs code when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_pickles_are_never_opened(either: Path, tmp_path: Path, name: str) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    (either / TENSORS).unlink()
    (either / name).write_bytes(trap)
    with one_clear_line(WeightsError, str(either), "pickled", "safetensors"):
        load(either)
    with one_clear_line(WeightsError, name):  # asked for by name, it is taken for a llama2.c file, and is none
        load(either / name)
    (either / TENSORS).write_bytes(trap)
    with one_clear_line(WeightsError, TENSORS):
        load(either)
    assert not (tmp_path / "sprung").exists()


# ---- shards ----


def shard(directory: Path, **index: Any) -> None:
    """Two shards and an index with these changes."""
    tensors = load_file(directory / TENSORS)
    names = sorted(tensors)
    halves = {"a.safetensors": names[: len(names) // 2], "b.safetensors": names[len(names) // 2 :]}
    for file, part in halves.items():
        save_file({name: tensors[name].clone() for name in part}, directory / file)
    (directory / TENSORS).unlink()
    where = {name: file for file, part in halves.items() for name in part}
    (directory / INDEX).write_text(json.dumps({"weight_map": where | index}))


def test_shards(either: Path) -> None:
    shard(either)
    assert load(either).logits([1, 2, 3]).shape == (3, 8)


@pytest.mark.parametrize("place", ["../x", "../model/a.safetensors", "/etc/passwd", "sub/x", "./a.safetensors", ".."])
def test_a_shard_elsewhere(either: Path, place: str) -> None:
    (either.parent / "x").write_bytes(b"secret")
    shard(either, extra=place)
    with one_clear_line(WeightsError, str(either / INDEX), f"'{place}'"):
        load(either)


def test_a_shard_that_is_not_there(either: Path) -> None:
    shard(either)
    (either / "b.safetensors").unlink()
    with one_clear_line(WeightsError, str(either / INDEX), "'b.safetensors'"):
        load(either)


def test_a_tensor_in_no_shard(either: Path) -> None:
    shard(either, extra="a.safetensors")
    with one_clear_line(WeightsError, str(either / INDEX), "'extra'"):
        load(either)


def test_a_tensor_in_two_shards(either: Path) -> None:
    shard(either)
    tensors = load_file(either / "a.safetensors") | load_file(either / "b.safetensors")
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, either / "b.safetensors")
    with one_clear_line(WeightsError, str(either / "b.safetensors"), "another shard"):
        load(either)


def test_a_shard_cut_short(either: Path) -> None:
    shard(either)
    whole = (either / "b.safetensors").read_bytes()
    (either / "b.safetensors").write_bytes(whole[: len(whole) // 2])
    with one_clear_line(WeightsError, str(either / "b.safetensors")):
        load(either)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 7}}', '{"weight_map": null}'])
def test_an_index_of_nothing(either: Path, content: str) -> None:
    (either / INDEX).write_text(content)
    with one_clear_line(WeightsError, str(either / INDEX), "weight_map"):
        load(either)


def test_an_index_that_is_no_json(either: Path) -> None:
    (either / INDEX).write_text("{")
    with one_clear_line(ConfigError, str(either / INDEX)):
        load(either)


# ---- what lies beside ----


def give_tokenizer(directory: Path, pieces: int) -> None:
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(pieces)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))


def test_a_tokenizer_of_another_model(either: Path) -> None:
    give_tokenizer(either, 30)
    assert load(either).has_tokenizer
    give_tokenizer(either, 31)
    with one_clear_line(ModelError, str(either), "31", "30"):
        load(either)


def test_a_tokenizer_larger_than_the_source_vocabulary(tmp_path: Path) -> None:
    directory = saved(tmp_path / "model", SAMPLES["marian"][1], "regard")  # 20 pieces to read, 30 to write
    give_tokenizer(directory, 30)
    with one_clear_line(ModelError, str(directory), "30", "20"):
        load(directory)


def test_a_broken_tokenizer(either: Path) -> None:
    (either / "tokenizer.json").write_text("{}")
    with one_clear_line(TokenizerError, str(either / "tokenizer.json")):
        load(either)


@pytest.mark.parametrize(
    ("modules", "pooling"),
    [
        ("{}", None),
        ("[7]", None),
        ('[{"type": "x.Pooling"}]', None),
        ('[{"type": "x.WordWeights", "path": "1"}]', None),
        ('[{"type": "x.Pooling", "path": "1_Pooling"}]', {"pooling_mode_max_tokens": True}),
        (
            '[{"type": "x.Pooling", "path": "1_Pooling"}]',
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        ),
        ('[{"type": "x.Pooling", "path": "1_Pooling"}]', {"pooling_mode": "max"}),
        ('[{"type": "x.Pooling", "path": "1_Pooling"}]', {"pooling_mode": ["cls", "mean"]}),
        ('[{"type": "x.Pooling", "path": ".."}]', None),
        ('[{"type": "x.Pooling", "path": "../elsewhere"}]', None),
    ],
)
def test_pooling_that_is_not_known(
    theirs: Callable[[str], Path], modules: str, pooling: dict[str, object] | None
) -> None:
    directory = theirs("bert")
    elsewhere = directory.parent / "elsewhere"
    elsewhere.mkdir()
    for place in (directory.parent, elsewhere):  # where no module may lead
        (place / CONFIG).write_text('{"pooling_mode_cls_token": true}')
    (directory / "modules.json").write_text(modules)
    if pooling is not None:
        (directory / "1_Pooling" / CONFIG).write_text(json.dumps(pooling))
    with one_clear_line(ConfigError, str(directory)):
        load(directory)


# ---- and nothing is written ----


def test_a_failed_conversion_writes_nothing(either: Path) -> None:
    change_tensors(either, **{some_name(either): ...})
    before = everything_in(either.parent)
    with pytest.raises(RegardError):
        load(either).save(either.parent / "converted")
    assert everything_in(either.parent) == before
