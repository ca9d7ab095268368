"""The spine: which family does what, and what it says to input that it cannot use."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import regard
from regard.cpu import capabilities
from regard.errors import InputError, InputTooLong, ModelError, TaskError, TokenizerError, UsageError
from regard.models import build
from regard.models.config import (
    BlockConfig,
    DecoderConfig,
    EncoderConfig,
    GenerationConfig,
    Seq2SeqConfig,
    VisionConfig,
)
from regard.models.initialize import initialize
from regard.tasks import EncoderModel, ImageClassifier, LanguageModel, TranslationModel, kind_of
from regard.tasks.base import BATCH
from regard.weights.quantize import quantize

TEXT = """The orchard behind the school has nine old pear trees and a bench that nobody paints.
In September the children fill their pockets, and the teacher pretends to look at the clouds.
A grey cat owns the bench. It sleeps there when the sun is low and leaves when the bell rings.
Once a year someone from the town counts the trees and writes the number nine in a notebook.
The pears are small and hard and sweet, and they are gone before the first frost comes.
When it rains the cat sits under the bench and looks at the school as if it had asked a question.""".splitlines()
SENTENCES = [
    *TEXT,
    "a cat",
    "nine pears",
    "It rains.",
    "the the the the the the",
    "bench",
    "clouds and frost and bells",
]
CONTEXT = 64
SMALL: dict[str, Any] = {"width": 16, "heads": 2, "inner": 24}
STACK: dict[str, Any] = SMALL | {"layers": 2, "context": CONTEXT}
LABELS: dict[str, Any] = {"head": "classifier", "labels": ("sun", "rain", "frost")}


def wordpiece() -> Tokenizer:
    """BERT's kind: [CLS] text [SEP]."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=160, show_progress=False, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def byte_level() -> Tokenizer:
    """GPT-2's kind: nothing around the text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def with_end() -> Tokenizer:
    """Marian's kind: text </s>."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=140, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


TRANSLATION = GenerationConfig(start=0, end=(1,), pad=0, suppressed=(0,))
MAKE: dict[str, tuple[Callable[..., BlockConfig], Callable[[], Tokenizer] | None, GenerationConfig]] = {
    "translator": (  # not deep: it would repeat one token for ever, as untrained ones do
        lambda vocab: Seq2SeqConfig(
            **SMALL, vocab=vocab, context=CONTEXT, encoder_layers=1, decoder_layers=1, tied="target"
        ),
        with_end,
        TRANSLATION,
    ),
    "embedder": (
        lambda vocab: EncoderConfig(**STACK, vocab=vocab, normalize=True),
        wordpiece,
        GenerationConfig(pad=0),
    ),
    "filler": (lambda vocab: EncoderConfig(**STACK, vocab=vocab, head="masked_lm"), wordpiece, GenerationConfig(pad=0)),
    "reader": (
        lambda vocab: EncoderConfig(**STACK, vocab=vocab, pooler="tanh", **LABELS),
        wordpiece,
        GenerationConfig(pad=0),
    ),
    "writer": (
        lambda vocab: DecoderConfig(**STACK, vocab=vocab, norm_first=True),
        byte_level,
        GenerationConfig(start=0),
    ),
    "judge": (lambda vocab: DecoderConfig(**STACK, vocab=vocab, **LABELS), byte_level, GenerationConfig()),
    "viewer": (
        lambda vocab: VisionConfig(**SMALL, layers=1, image=8, patch=4, channels=1, labels=("cat", "pear")),
        None,
        GenerationConfig(),
    ),
    "blind viewer": (lambda vocab: VisionConfig(**SMALL, layers=1, image=8, patch=4), None, GenerationConfig()),
}
TASKS = {
    "translator": (TranslationModel, ("translate",)),
    "embedder": (EncoderModel, ("embed",)),
    "filler": (EncoderModel, ("embed", "fill")),
    "reader": (EncoderModel, ("embed", "classify")),
    "writer": (LanguageModel, ("generate",)),
    "judge": (LanguageModel, ("classify",)),
    "viewer": (ImageClassifier, ("classify",)),
    "blind viewer": (ImageClassifier, ()),
}
TEXT_MODELS = [name for name, (_, tokenizer, _) in MAKE.items() if tokenizer is not None]


def write(
    directory: Path, config: BlockConfig, tokenizer: Tokenizer | None = None, generation: GenerationConfig | None = None
) -> regard.Model:
    network = build(config)
    initialize(network, seed=1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1)  # so that different texts get different answers
    kind_of(config)(network.eval(), generation or GenerationConfig(), None, directory).save(directory)
    if tokenizer is not None:
        tokenizer.save(str(directory / "tokenizer.json"))
    return regard.load(directory, device="cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The models are too small to share: a second thread would only wait for a busy core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    made: dict[str, regard.Model] = {}

    def get(name: str) -> Any:
        if name not in made:
            config, tokenizer, generation = MAKE[name]
            trained = tokenizer() if tokenizer is not None else None
            vocab = trained.get_vocab_size() if trained is not None else 0
            made[name] = write(tmp_path_factory.mktemp("models") / "model", config(vocab), trained, generation)
        return made[name]

    return get


Get = Callable[[str], Any]


def ask(model: Any, task: str, text: str = "a cat") -> Any:
    return getattr(model, task)(text)


# ---- who does what ----


@pytest.mark.parametrize("name", MAKE)
def test_tasks(model: Get, name: str) -> None:
    kind, tasks = TASKS[name]
    assert type(model(name)) is kind
    assert model(name).tasks == tasks
    for task in ("translate", "embed", "fill", "generate", "classify"):
        if task in tasks:
            continue
        with pytest.raises(TaskError, match=f"cannot {task}") as caught:
            ask(model(name), task)
        assert all(can in str(caught.value) for can in tasks)
        assert str(model(name).source) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_viewer_traces_no_text(model: Get) -> None:
    with pytest.raises(TaskError, match="cannot trace"):
        model("viewer").trace("a cat")


def test_the_answers_have_the_right_types(model: Get) -> None:
    assert isinstance(model("translator").translate("a cat"), str)
    assert isinstance(model("translator").translate(["a cat"]), list)
    assert isinstance(model("writer").generate("a cat", max_tokens=3), str)
    assert model("embedder").embed("a cat").shape == (16,)
    assert model("embedder").embed(["a cat"]).shape == (1, 16)


# ---- without a tokenizer ----


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_ids_without_a_tokenizer(name: str, tmp_path: Path) -> None:
    config, _, generation = MAKE[name]
    bare: Any = write(tmp_path / "bare", config(50), None, generation)
    assert not bare.has_tokenizer
    logits = bare.logits([5, 6, 7])
    shapes = {"translator": (1, 50), "embedder": (3, 16), "filler": (3, 50), "writer": (3, 50)}
    assert logits.shape == shapes.get(name, (3,))
    assert logits.isfinite().all()
    for task in (*bare.tasks, "trace"):
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            ask(bare, task, "a [MASK]")


def test_a_target_of_ids(model: Get) -> None:
    translator = model("translator")
    whole = translator.logits([5, 6, 7], [0, 8, 9])
    assert torch.allclose(whole[0], translator.logits([5, 6, 7])[0], atol=1e-5)  # nobody looks ahead
    assert torch.allclose(whole[:2], translator.logits([5, 6, 7], [0, 8]), atol=1e-5)


def test_a_translator_that_does_not_know_how_to_start(tmp_path: Path) -> None:
    bare: Any = write(tmp_path / "bare", MAKE["translator"][0](50))
    with pytest.raises(ModelError, match="no start token"):
        bare.logits([5, 6])


# ---- texts that cannot be used ----


@pytest.mark.parametrize("text", ["", " ", "\n\t  \u3000"])
@pytest.mark.parametrize("name", [name for name in TEXT_MODELS if name != "writer"])
def test_empty_text(model: Get, name: str, text: str) -> None:
    for task in (*model(name).tasks, "trace"):
        with pytest.raises(InputError, match="empty"):
            ask(model(name), task, text)


@pytest.mark.parametrize("name", ["translator", "embedder"])
def test_empty_text_in_a_list(model: Get, name: str) -> None:
    with pytest.raises(InputError, match="empty") as caught:
        ask(model(name), model(name).tasks[0], ["a cat", "", "pears"])  # type: ignore[arg-type]
    assert caught.value.index == 1


@pytest.mark.parametrize("name", ["translator", "embedder"])
def test_an_empty_list(model: Get, name: str) -> None:
    assert len(ask(model(name), model(name).tasks[0], [])) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a \ud800 cat", "\udfff", "\udc00 [MASK]"])
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_lone_surrogates(model: Get, name: str, text: str) -> None:
    for task in (*model(name).tasks, "trace"):
        with pytest.raises(InputError, match="surrogate"):
            ask(model(name), task, text)


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_too_long(model: Get, name: str) -> None:
    for task in (*model(name).tasks, "trace"):
        with pytest.raises(InputTooLong, match=f"at most {CONTEXT}"):
            ask(model(name), task, "pears and " * 100)
    ids = [5] * CONTEXT
    assert model(name).logits(ids).isfinite().all()
    with pytest.raises(InputTooLong, match=f"{CONTEXT + 1} tokens"):
        model(name).logits([*ids, 5])


@pytest.mark.parametrize("ids", [[], [-1], [5, 10**9], [5, -(2**70)], "the size"])
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_ids_out_of_range(model: Get, name: str, ids: Any) -> None:
    vocab = model(name).config.vocab
    with pytest.raises(InputError) as caught:
        model(name).logits([vocab] if ids == "the size" else ids)
    assert not isinstance(caught.value, InputTooLong)
    assert str(vocab - 1) in str(caught.value) or not ids
    assert model(name).logits([vocab - 1]).isfinite().all()


@pytest.mark.parametrize("target", [[], [-1], [0, 10**9], [0] * (CONTEXT + 1)])
def test_target_ids_out_of_range(model: Get, target: list[int]) -> None:
    with pytest.raises(InputError):
        model("translator").logits([5], target)


@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8), (1, 8, 9), (1, 1, 8, 8), ()])
def test_images_of_another_size(model: Get, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"\[1, 8, 8\]"):
        model("viewer").classify(torch.zeros(shape))


# ---- fill ----


def test_fill_one(model: Get) -> None:
    filler = model("filler")
    (candidates,) = filler.fill("The [MASK] sleeps.", top=7)
    assert len(candidates) == 7
    chances = [candidate.probability for candidate in candidates]
    assert chances == sorted(chances, reverse=True)
    ids = filler.tokenizer.encode("The [MASK] sleeps.")
    expected = filler.logits(ids)[ids.index(filler.tokenizer.mask)].softmax(-1)
    assert chances == pytest.approx(expected.topk(7).values.tolist())
    assert candidates[0].token == filler.tokenizer.pieces([int(expected.argmax())])[0]


def test_fill_two(model: Get) -> None:
    first, second = model("filler").fill("[MASK] cat [MASK]")
    assert len(first) == len(second) == 5
    assert first != second


def test_fill_everything(model: Get) -> None:
    (candidates,) = model("filler").fill("a [MASK]", top=10**6)
    assert len(candidates) == model("filler").tokenizer.vocab
    assert sum(candidate.probability for candidate in candidates) == pytest.approx(1, abs=1e-4)


def test_fill_nothing(model: Get) -> None:
    with pytest.raises(InputError, match=r"no mask \(\[MASK\]\)"):
        model("filler").fill("The cat sleeps.")


@pytest.mark.parametrize("top", [0, -1])
def test_fill_with_nothing(model: Get, top: int) -> None:
    with pytest.raises(UsageError, match="top"):
        model("filler").fill("a [MASK]", top=top)


def test_fill_where_there_is_no_mask_token(tmp_path: Path) -> None:
    tokenizer = byte_level()
    config = MAKE["filler"][0](tokenizer.get_vocab_size())
    with pytest.raises(InputError, match="no mask to fill"):
        write(tmp_path / "model", config, tokenizer).fill("a [MASK]")


# ---- classify ----


@pytest.mark.parametrize("name", ["reader", "judge"])
@pytest.mark.parametrize("text", SENTENCES[-4:])
def test_classify(model: Get, name: str, text: str) -> None:
    chances = model(name).classify(text)
    assert set(chances) == {"sun", "rain", "frost"}
    assert sum(chances.values()) == pytest.approx(1, abs=1e-6)
    assert list(chances.values()) == sorted(chances.values(), reverse=True)
    logits = model(name).logits(model(name).tokenizer.encode(text))
    assert next(iter(chances)) == LABELS["labels"][int(logits.argmax())]


def test_classify_an_image(model: Get) -> None:
    pixels = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0))
    chances = model("viewer").classify(pixels)
    assert set(chances) == {"cat", "pear"}
    assert sum(chances.values()) == pytest.approx(1, abs=1e-6)
    assert model("viewer").classify((pixels * 255).byte()).keys() == chances.keys()  # whole numbers are numbers too
    assert model("blind viewer").logits(torch.zeros(3, 8, 8)).shape == (5, 16)  # four patches and the class token


# ---- embed ----


def test_embed_alone_and_together(model: Get) -> None:
    embedder = model("embedder")
    together = embedder.embed(SENTENCES)
    assert together.shape == (len(SENTENCES), 16)
    for sentence, vector in zip(SENTENCES, together, strict=True):
        assert torch.allclose(embedder.embed(sentence), vector, atol=1e-6)
        assert torch.allclose(embedder.embed([sentence])[0], vector, atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(len(SENTENCES)), atol=1e-5)


def test_embed_more_than_a_batch(model: Get) -> None:
    embedder = model("embedder")
    many = (SENTENCES * 4)[: BATCH + 9]
    once = embedder.embed(SENTENCES)
    assert torch.allclose(embedder.embed(many), once.repeat(4, 1)[: len(many)], atol=1e-6)
    assert torch.allclose(embedder.embed(tuple(reversed(many))), embedder.embed(many).flip(0), atol=1e-6)


# ---- generate ----


def written(writer: Any, prompt: str, max_tokens: int | None = None) -> list[int]:
    (said,) = writer.write([writer.tokenizer.encode(prompt)], max_tokens=max_tokens)
    ids: list[int] = said
    return ids


@pytest.mark.parametrize("max_tokens", [1, 2, 7])
def test_generate_as_much_as_asked(model: Get, max_tokens: int) -> None:
    writer = model("writer")
    said = written(writer, "The cat", max_tokens)
    assert len(said) == max_tokens
    assert writer.generate("The cat", max_tokens=max_tokens) == writer.tokenizer.decode(said)
    assert written(writer, "The cat", 12)[:max_tokens] == said


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_generate_less_than_nothing(model: Get, max_tokens: int) -> None:
    with pytest.raises(UsageError, match="max_tokens"):
        model("writer").generate("The cat", max_tokens=max_tokens)
    with pytest.raises(UsageError, match="max_tokens"):
        model("translator").translate("The cat", max_tokens=max_tokens)


def test_generate_as_much_as_there_is_room_for(model: Get) -> None:
    writer = model("writer")
    length = len(writer.tokenizer.encode("The cat"))
    assert len(written(writer, "The cat")) == CONTEXT - length
    assert len(written(writer, "The cat", 10**6)) == CONTEXT - length
    full = [5] * CONTEXT
    assert writer.write([full]) == [[]]


def test_generate_until_an_end(model: Get) -> None:
    writer = model("writer")
    said = written(writer, "The cat", 20)
    end = said[5]
    stops = LanguageModel(writer.network, replace(writer.generation, end=(299, end)), writer._tokenizer, writer.source)
    assert written(stops, "The cat", 20) == said[: said.index(end)]


def test_generate_never_what_is_forbidden(model: Get) -> None:
    writer = model("writer")
    first = written(writer, "The cat", 1)[0]
    shy = LanguageModel(
        writer.network, replace(writer.generation, suppressed=(first,)), writer._tokenizer, writer.source
    )
    assert first not in written(shy, "The cat", 20)


def test_generate_as_the_model_says(model: Get) -> None:
    writer = model("writer")
    brief = LanguageModel(writer.network, replace(writer.generation, max_tokens=3), writer._tokenizer, writer.source)
    assert len(written(brief, "The cat")) == 3
    assert len(written(brief, "The cat", 5)) == 5  # whoever asks knows better


def test_generate_from_nothing(model: Get, tmp_path: Path) -> None:
    writer = model("writer")
    assert writer.generate("", max_tokens=4) == writer.tokenizer.decode(writer.write([[0]], max_tokens=4)[0])
    no_start = LanguageModel(writer.network, GenerationConfig(), writer._tokenizer, writer.source)
    with pytest.raises(InputError, match="prompt is empty"):
        no_start.generate("")


def test_generate_alone_and_together(model: Get) -> None:
    writer = model("writer")
    prompts = [writer.tokenizer.encode(text) for text in ("The cat", "a", "nine pears and a bench", "It rains.")]
    together = writer.write(prompts, max_tokens=10)
    assert together == [writer.write([prompt], max_tokens=10)[0] for prompt in prompts]
    assert len({tuple(said) for said in together}) > 1


def test_generate_gives_only_what_is_new(model: Get) -> None:
    for prompt in ("The cat", " The cat ", "\n", "naïve 🙂", "nine pears"):
        said = written(model("writer"), prompt, 6)
        whole = model("writer").tokenizer.decode([*model("writer").tokenizer.encode(prompt), *said])
        assert prompt + model("writer").generate(prompt, max_tokens=6) == whole


# ---- a vocabulary that is larger than its tokenizer's ----


def test_a_vocabulary_rounded_up(tmp_path: Path) -> None:
    """Rows without a piece are never written: there would be no text for them."""
    for name in ("writer", "translator", "filler"):
        config, tokenizer, generation = MAKE[name]
        assert tokenizer is not None
        trained = tokenizer()
        pieces = trained.get_vocab_size()
        rounded: Any = write(tmp_path / name, config(pieces + 500), trained, generation)
        if name == "writer":
            assert all(i < pieces for prompt in SENTENCES[-4:] for i in written(rounded, prompt, 8))
            assert isinstance(rounded.generate("a cat", max_tokens=8), str)
        elif name == "translator":
            assert all(isinstance(text, str) for text in rounded.translate(SENTENCES[-4:], max_tokens=8))
        else:
            assert len(rounded.fill("a [MASK]", top=10**4)[0]) == pieces


# ---- translate ----


def test_translate_keeps_the_order(model: Get) -> None:
    translator = model("translator")
    alone = [translator.translate(sentence, max_tokens=12) for sentence in SENTENCES]
    assert len(set(alone)) > 3
    assert translator.translate(SENTENCES, max_tokens=12) == alone
    assert translator.translate(SENTENCES[::-1], max_tokens=12) == alone[::-1]
    many = (SENTENCES * 4)[: BATCH + 5]
    assert translator.translate(many, max_tokens=12) == (alone * 4)[: len(many)]


@pytest.mark.parametrize("max_tokens", [1, 3])
def test_translate_as_much_as_asked(model: Get, max_tokens: int) -> None:
    translator = model("translator")
    rows = [translator.tokenizer.encode(sentence) for sentence in SENTENCES]
    assert max(map(len, translator.write(rows, max_tokens=max_tokens))) == max_tokens
    assert max(map(len, translator.write(rows))) <= CONTEXT - 1
    assert not any(i in (0, 1) for said in translator.write(rows) for i in said)  # no start, no end


# ---- looking inside ----


@pytest.mark.parametrize("name", ["embedder", "filler", "reader", "writer", "judge"])
def test_trace(model: Get, name: str) -> None:
    seen = model(name).trace("a grey cat")
    ids = model(name).tokenizer.encode("a grey cat")
    assert seen["ids"].tolist() == [ids]
    out = seen["states" if name == "embedder" else "logits"]
    assert torch.allclose(out[0], model(name).logits(ids), atol=1e-5)


def test_trace_a_translation(model: Get) -> None:
    translator = model("translator")
    seen = translator.trace("a grey cat", "nine pears")
    source, target = (translator.tokenizer.encode(text) for text in ("a grey cat", "nine pears"))
    assert seen["source_ids"].tolist() == [source]
    assert seen["target_ids"].tolist() == [[0, *target[:-1]]]
    plain = translator.logits(source, [0, *target[:-1]])
    # of the greatest logit, 11 here: sums are rounded as their numbers are large, and AVX-512 adds in another order
    assert torch.allclose(seen["logits"][0], plain, atol=1e-5 * float(plain.abs().max()))
    own = translator.trace("a grey cat")
    assert own["target_ids"][0, 1:].tolist() == translator.write([source])[0]


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_a_copy_is_a_translator_of_its_own(model: Get, int8: bool) -> None:
    first = copy.deepcopy(model("translator"))
    if int8:
        quantize(first.network)
    said = first.translate(["a grey cat"], beam=3)
    second = copy.deepcopy(first)
    assert second.translate(["a grey cat"], beam=3) == said
    with torch.no_grad():
        for norm in (part for part in second.network.modules() if isinstance(part, torch.nn.LayerNorm)):
            norm.weight.zero_()
            norm.bias.zero_()
    assert first.translate(["a grey cat"], beam=3) == said


def test_trace_what_the_engine_found(model: Get) -> None:
    """Any of the hypotheses, afterwards: the pass sees its very tokens, and finds the search's probabilities."""
    translator = model("translator")
    for found in translator.translations(["a grey cat", "nine pears"], beam=3, n_best=3, max_tokens=9):
        for one in found:
            seen = translator.trace(one)
            assert seen["target_ids"][0, 1:].tolist() == list(one.ids)
            assert seen["decoder.blocks.0.cross.weights"].shape[-2:] == (1 + len(one.ids), len(one.source_ids))
            said = [*one.ids, *translator.generation.end][: len(one.log_probs)]
            own = seen["logits"][0].log_softmax(-1)[torch.arange(len(said)), said]
            assert torch.allclose(own, torch.tensor(one.log_probs), atol=1e-4)


# ---- there and back ----


@pytest.mark.parametrize("name", MAKE)
def test_saved_and_loaded_it_answers_the_same(model: Get, name: str, tmp_path: Path) -> None:
    first = model(name)
    first.save(tmp_path / "again")
    second: Any = regard.load(tmp_path / "again", device="cpu")
    assert (second.config, second.generation, second.family) == (first.config, first.generation, first.family)
    if first.has_tokenizer:
        before, after = (path / "tokenizer.json" for path in (first.source, tmp_path / "again"))
        assert before.read_bytes() == after.read_bytes()
        assert torch.equal(first.logits([5, 6, 7]), second.logits([5, 6, 7]))
    else:
        channels = first.config.channels
        assert torch.equal(first.logits(torch.ones(channels, 8, 8)), second.logits(torch.ones(channels, 8, 8)))


# ---- half precision ----


@pytest.mark.parametrize("name", ["writer", "embedder"])
def test_half_precision_says_about_the_same(model: Get, name: str) -> None:
    if not capabilities.prepare().bfloat16:
        pytest.skip("bfloat16 gives no right results on this CPU")
    whole = model(name)
    half = regard.load(whole.source, device="cpu", dtype="bfloat16")
    assert half.logits([3, 4, 5]).dtype is torch.bfloat16
    torch.testing.assert_close(half.logits([3, 4, 5]).float(), whole.logits([3, 4, 5]), atol=0.1, rtol=0.1)
    if name == "embedder":
        torch.testing.assert_close(half.embed(SENTENCES), whole.embed(SENTENCES), atol=0.1, rtol=0.1)


def test_a_text_is_not_read_letter_by_letter() -> None:
    box = regard.load("box")
    assert isinstance(box, TranslationModel)
    with pytest.raises(UsageError, match=r"must be a list of strings, not str; write \[text\]"):
        box.translations("Hi.", to="de")
    with pytest.raises(UsageError, match="ids must be a list of integers"):
        box.write(["Hi."])  # type: ignore[list-item]


def test_a_model_with_several_target_languages_needs_one() -> None:
    box = regard.load("box")
    assert isinstance(box, TranslationModel)
    assert box.target_languages == ("de", "en", "fr")
    for call in (box.translate, box.trace, lambda text: box.translations([text])):
        with pytest.raises(UsageError, match="no target language: this model translates into de, en, fr"):
            call("I am here.")
    with pytest.raises(UsageError, match="does not translate into 'es'; choose de, en, fr"):
        box.translate("I am here.", to="es")


def test_wrong_types_get_a_clear_error() -> None:
    with pytest.raises(UsageError, match="threads must be a whole number"):
        regard.load("box", threads="2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="device must be a name"):
        regard.load("box", device=1)  # type: ignore[arg-type]
