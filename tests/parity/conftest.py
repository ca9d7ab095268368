"""Parity with `transformers`: it makes and saves tiny models, regard loads them, and the outputs are compared."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported, so it cannot wait for a fixture

from collections.abc import Iterator

import pytest
import torch
import transformers
from their_models import VARIANTS, Both, Pair, make

import regard

pytest.register_assert_rewrite("parity_checks")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """One thread: the models are too small to gain from a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A variant by name, made by transformers and loaded by regard."""
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
