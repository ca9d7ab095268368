"""`transformers` is the second opinion: it makes tiny models, regard reads what it saved, and both are asked."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported, so it cannot wait for a fixture

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from their_models import VARIANTS, make

import regard
from regard import hardware

hardware.prepare()  # before torch's first use, as `regard.load` does it
torch.set_num_threads(1)  # the models are too small to share, and waiting for a busy core is all it would do
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


@dataclass(frozen=True)
class Pair:
    """One model, twice."""

    family: str
    theirs: Any
    ours: Any
    directory: Path


Both = Callable[..., Pair]


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A variant by its name, made by transformers and read by regard."""
    made: dict[tuple[str, int], Pair] = {}

    def get(name: str, seed: int = 0) -> Pair:
        if (name, seed) not in made:
            variant = VARIANTS[name]
            theirs = make(variant, seed)
            directory = tmp_path_factory.mktemp("theirs")
            theirs.save_pretrained(directory)
            variant.retouch(directory)
            ours = regard.load(directory, device="cpu")
            made[name, seed] = Pair(variant.family, theirs, ours, directory)
        return made[name, seed]

    return get
