"""Small models of every family, with tokenizers, in model directories."""

import io
import tempfile
from pathlib import Path

import pytest
import sentencepiece
from journeys_types import Done, Run
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from regard.cli.main import main
from regard.models import build
from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import write_model

SENTENCES = """I ate an apple after lunch and gave the rest to the dog.
The animal did not cross the street because it was too tired.
She opened an account at the bank on the other side of the river.
We translate this sentence, and then we look at what looks at what.
Ich habe nach dem Essen einen Apfel gegessen.
Das Tier ging nicht über die Straße, weil es zu müde war.
Sie eröffnete ein Konto bei der Bank am anderen Ufer des Flusses.
Wir übersetzen diesen Satz, und dann sehen wir, was worauf sieht.
""".splitlines()


@pytest.fixture(scope="session")
def byte_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<pad>", "<s>", "</s>", "[MASK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def make_model(directory: Path, config: BlockConfig, generation: GenerationConfig, tokenizer: Tokenizer | None) -> Path:
    model = build(config)
    initialize(model, seed=7)
    directory.mkdir()
    write_model(directory, Checkpoint(model.eval(), generation))
    if tokenizer is not None:
        tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, byte_tokenizer: Tokenizer) -> dict[str, Path]:
    """One model directory per kind of model."""
    root = tmp_path_factory.mktemp("models")
    vocab = byte_tokenizer.get_vocab_size()
    sizes = {"vocab": vocab, "width": 32, "layers": 2, "heads": 4, "inner": 64, "context": 48}
    writing = GenerationConfig(start=1, end=(2,), pad=0, suppressed=(0, 1, 3))
    made = {
        "writer": (DecoderConfig(**sizes, positions="rotary", norm_first=True), writing),
        "reader": (EncoderConfig(**sizes, segments=2, embedding_norm=True), GenerationConfig(pad=0)),
        "filler": (EncoderConfig(**sizes, head="masked_lm"), GenerationConfig(pad=0)),
        "judge": (EncoderConfig(**sizes, head="classifier", labels=("bad", "good")), GenerationConfig(pad=0)),
    }
    folders = {name: make_model(root / name, *parts, byte_tokenizer) for name, parts in made.items()}
    folders["mute"] = make_model(root / "mute", *made["writer"], None)
    folders["translator"] = write_translator(root / "translator", root)
    return folders


def write_translator(directory: Path, root: Path) -> Path:
    """A model with the tokenizer files of OPUS-MT, and weights in regard's format."""
    corpus = root / "corpus.txt"
    corpus.write_text("\n".join(SENTENCES), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(root / "spm"), vocab_size=120, minloglevel=2, hard_vocab_limit=False
    )
    spm = sentencepiece.SentencePieceProcessor(model_file=str(root / "spm.model"))
    pieces = ["</s>", "<unk>", *(p for i in range(len(spm)) if (p := spm.id_to_piece(i)) not in ("</s>", "<unk>"))]
    pieces.append("<pad>")
    pad = len(pieces) - 1
    config = Seq2SeqConfig(
        vocab=len(pieces),
        width=32,
        heads=4,
        inner=64,
        encoder_layers=2,
        decoder_layers=2,
        context=40,
        positions="sinusoidal_halves",
        output_bias=True,
    )
    make_model(
        directory, config, GenerationConfig(start=pad, end=(0,), pad=pad, suppressed=(pad,), max_tokens=12), None
    )
    vocabulary = "{" + ", ".join(f'"{p}": {i}' for i, p in enumerate(pieces) if '"' not in p) + "}"
    (directory / "vocab.json").write_text(vocabulary, encoding="utf-8")
    for side in ("source.spm", "target.spm"):
        (directory / side).write_bytes((root / "spm.model").read_bytes())
    return directory


@pytest.fixture
def regard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the program in a folder of its own, but in this process: importing torch takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str | Path, stdin: str | bytes = "", code: int = 0) -> Done:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file, encoding="utf-8"))
            returned = main([str(argument) for argument in arguments])
        out, err = (stream.decode() for stream in capfdbinary.readouterr())
        assert returned == code, f"{arguments}: {returned}\n{out}\n{err}"
        return Done(out, err)

    return run
