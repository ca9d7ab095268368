"""Generated tokens equal those of transformers' `generate`, greedy and with the beam of the directory."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from their_models import PAD, Both, Pair, ragged

import regard

MAX_NEW = 14
SEEDS = range(1, 5)  # not 0: the generation settings of these models are changed, those of seed 0 are shared
ENDS = [2, 7, 11, 19, 23, 31]  # enough for some rows to stop early and others never


def written(row: list[int], skip: int) -> list[int]:
    """The tokens of a row after the prompt and before its end."""
    generated = row[skip:]
    stop = next((place for place, token in enumerate(generated) if token in ENDS), len(generated))
    return generated[:stop]


def ask(pair: Pair, **inputs: Any) -> list[list[int]]:
    settings = {"do_sample": False, "num_beams": 1, "max_new_tokens": MAX_NEW, "pad_token_id": PAD}
    rows: list[list[int]] = pair.theirs.generate(**inputs, **settings, eos_token_id=ENDS).tolist()
    return rows


def reload(pair: Pair, directory: Path, **settings: Any) -> Any:
    """The same model, saved with these generation settings."""
    for key, value in settings.items():
        setattr(pair.theirs.generation_config, key, value)
    pair.theirs.save_pretrained(directory)
    return regard.load(directory, device="cpu")


LENGTHS = [9, 3, 1, 14, 6, 6]


def both_stop_and_run_on(generated: list[list[int]]) -> bool:
    return {len(row) == MAX_NEW for row in generated} == {True, False}


@torch.inference_mode()
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama, llama3", "llama, tied"])
def test_continuing(both: Both, name: str, tmp_path: Path) -> None:
    generated: list[list[int]] = []
    for seed in SEEDS:
        pair = both(name, seed)
        ours = reload(pair, tmp_path / str(seed), eos_token_id=ENDS, max_new_tokens=MAX_NEW)
        assert (ours.generation.end, ours.generation.max_tokens) == (tuple(ENDS), MAX_NEW)
        ids_BL, present_BL = ragged(LENGTHS, left=True, seed=seed)
        rows = ask(pair, input_ids=ids_BL, attention_mask=present_BL.long())
        expected = [written(row, ids_BL.shape[1]) for row in rows]
        prompts = [ids_BL[row, -length:].tolist() for row, length in enumerate(LENGTHS)]
        assert ours.write(prompts) == expected
        assert [ours.write([prompt])[0] for prompt in prompts] == expected  # alone as in a batch
        generated += expected
    assert both_stop_and_run_on(generated)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["marian", "marian, relu", "marian, two vocabularies"])
def test_translating(both: Both, name: str, tmp_path: Path) -> None:
    """With OPUS-MT's rule that padding, which its decoder starts with, is suppressed."""
    never = [PAD, *range(3, 40, 3)]  # and some that it would have written
    rules = {
        "eos_token_id": ENDS,
        "bad_words_ids": [[i] for i in never],
        "max_length": MAX_NEW + 1,
        "max_new_tokens": None,
    }
    generated: list[list[int]] = []
    for seed in SEEDS:
        pair = both(name, seed)
        ours = reload(pair, tmp_path / str(seed), **rules)
        assert (ours.generation.start, ours.generation.suppressed) == (PAD, tuple(never))
        assert ours.generation.max_tokens == MAX_NEW  # their max_length counts the start
        ids_BS, present_BS = ragged(LENGTHS, seed=seed)
        expected = [written(row, 1) for row in ask(pair, input_ids=ids_BS, attention_mask=present_BS.long())]
        sources = [ids_BS[row, :length].tolist() for row, length in enumerate(LENGTHS)]
        assert ours.write(sources) == expected
        assert [ours.write([source])[0] for source in sources] == expected
        generated += expected
    assert both_stop_and_run_on(generated)


END = 2
BEAM = {"num_beams": 3, "length_penalty": 0.6, "early_stopping": True}


@torch.inference_mode()
def test_beam_settings_of_a_directory_are_used(both: Both, tmp_path: Path) -> None:
    """OPUS-MT directories ask for beam search; regard translates with their beam and length penalty by default."""
    differs = False
    for seed in range(11, 15):  # models that no other test has settings for
        pair = both("marian", seed)
        rules = {"eos_token_id": END, "max_new_tokens": MAX_NEW, "bad_words_ids": [[PAD]], **BEAM}
        ours = reload(pair, tmp_path / str(seed), **rules)
        assert (ours.generation.beam, ours.generation.length_penalty) == (3, 0.6)
        ids_BS, present_BS = ragged(LENGTHS, seed=seed)
        rows = pair.theirs.generate(input_ids=ids_BS, attention_mask=present_BS.long()).tolist()
        ends = [row.index(END) if END in row else None for row in rows]
        expected = [[token for token in row[1:end] if token != PAD] for row, end in zip(rows, ends, strict=True)]
        sources = [ids_BS[row, :length].tolist() for row, length in enumerate(LENGTHS)]
        assert ours.write(sources) == expected
        differs = differs or ours.write(sources, beam=1) != expected
    assert differs, "beam search should find other texts than greedy search"


def test_beam_settings_of_an_old_config(both: Both, tmp_path: Path) -> None:
    """Before generation_config.json existed, `num_beams` was in config.json."""
    pair = both("marian", 9)
    pair.theirs.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_beams": 6}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert regard.load(tmp_path).generation.beam == 6
