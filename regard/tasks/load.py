"""A model directory -> an object that can translate, generate, embed, fill or classify."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from regard.cpu.device import import_torch, resolve_device, resolve_dtype
from regard.cpu.machine import only_cpu
from regard.cpu.threads import set_threads
from regard.errors import UsageError
from regard.inference.backend import Runtime
from regard.models import family_of
from regard.models.config import BlockConfig, GenerationConfig, Seq2SeqConfig
from regard.tasks.base import Model
from regard.tasks.translation import TranslationModel
from regard.text import tokenizer as text
from regard.text.tokenizer import Tokenizer
from regard.weights.model_directory import (
    CONFIG,
    INDEX,
    WEIGHTS,
    LazyModel,
    read_arrays,
    read_config_json,
    regard_settings,
    regard_shortlist,
)

BOX = Path(__file__).parent.parent / "box"
"""The translation model that comes with the package."""
KINDS = {
    "seq2seq": ("translation", "TranslationModel"),
    "encoder": ("encoder", "EncoderModel"),
    "decoder": ("language_model", "LanguageModel"),
    "vision": ("image_classifier", "ImageClassifier"),
}


def load(directory: str | Path, *, device: str = "auto", dtype: str = "auto", threads: int | None = None) -> Model:
    """Load a model and its tokenizer.

    Args:
        directory: A model directory: regard's own, or Hugging Face's as downloaded (Marian/OPUS-MT, BERT and
            sentence-transformers, RoFormer, GPT-2, Llama, ViT). A llama2.c `.bin` file works too. "box" is the
            translator that comes with the package.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the fastest one here.
        dtype: "float32", "bfloat16", "float16", or "auto": float32 on a CPU, bfloat16 on a GPU that has it.
        threads: CPU threads to use, for the whole process; 0 is one per core. None leaves them unchanged.

    Returns:
        A `TranslationModel` (translate), `LanguageModel` (generate), `EncoderModel` (embed, fill, classify) or
        `ImageClassifier` (classify). All have `trace`, `logits`, `save`, `config`, `tokenizer` and `network`, the
        torch module.

    Example:
        >>> model = regard.load("box")
        >>> model.translate("I am a student.", to="de")
        'Ich bin ein Student.'

    Nothing is downloaded, and nothing is ever unpickled.
    """
    path = model_path(directory)
    if threads is not None:
        set_threads(threads or None)
    if only_cpu(device) and dtype in ("auto", "float32") and (native := _without_torch(path)):
        return native
    import_torch()
    from regard.weights.model_io import read_model

    checkpoint = read_model(path)
    tokenizer = _tokenizer(path)
    place = resolve_device(device)
    checkpoint.model.to(place, resolve_dtype(dtype, place))
    runtime = Runtime(checkpoint.model, checkpoint.shortlist)
    return kind_of(checkpoint.config)(runtime, checkpoint.generation, tokenizer, path)


def model_path(directory: str | Path) -> Path:
    """The path of a model; "box" is the one that comes with the package, unless there is a directory of that name."""
    if not isinstance(directory, str | Path):
        raise UsageError(f"a model directory must be a path, not {type(directory).__name__}: {directory!r:.60}")
    if not str(directory):
        raise UsageError("the path of the model directory is empty")
    path = Path(directory)
    return BOX if str(directory) == "box" and not path.exists() else path


def kind_of(config: BlockConfig) -> type[Model]:
    """The class for models with such a config."""
    module, name = KINDS[family_of(config)]
    kind: type[Model] = getattr(import_module(f"regard.tasks.{module}"), name)
    return kind


def _without_torch(path: Path) -> TranslationModel | None:
    """A translation model that the native backend runs; None for everything else."""
    found = _lazy(path)
    if found is None:
        return None
    lazy, generation = found
    runtime = Runtime(lazy, regard_shortlist(path, lazy.config))
    if not runtime.runs_natively():
        return None
    return TranslationModel(runtime, generation, _tokenizer(path), path)


def _lazy(path: Path) -> tuple[LazyModel, GenerationConfig] | None:
    if not (path / CONFIG).is_file() or (path / INDEX).is_file():
        return None
    raw = read_config_json(path)
    if raw.get("family") == "seq2seq":
        arrays = read_arrays(path / WEIGHTS) if (path / WEIGHTS).is_file() else None
        settings = regard_settings(path, raw)
        assert isinstance(settings.config, Seq2SeqConfig)
        if arrays is None:
            return None
        return LazyModel(settings.config, arrays, path, settings.int8), settings.generation
    if "model_type" in raw:
        from regard.weights.hf_config import lazy_hf_model  # the tables of names are imported where they are needed

        return lazy_hf_model(path, raw)
    return None


def _tokenizer(path: Path) -> Tokenizer | None:
    return text.load(path.parent if path.is_file() else path)
