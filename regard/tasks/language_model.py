"""Language models (GPT-2, Llama): a decoder continues a text.

prompt -> tokens -> [ the block ] x N -> logits -> search -> tokens -> text
"""

from collections.abc import Iterator, Sequence
from typing import Unpack

from regard.decoding.settings import SearchOptions, search_settings
from regard.errors import InputError
from regard.models.decoder import Decoder
from regard.tasks.base import Generating, check_text
from regard.tasks.text_model import TextModel


class LanguageModel(Generating, TextModel):
    """A decoder over one text."""

    network: Decoder
    default_max_tokens = 4096
    """A context can be nearly endless, and a model without an end token fills it."""

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("generate",) if self.network.config.head == "lm" else ("classify",)

    def generate(self, prompt: str = "", **search: Unpack[SearchOptions]) -> str:
        """Continue `prompt`: greedily, with a beam, or by sampling.

        Args:
            prompt: The text to continue; empty to begin where texts begin.
            **search: How to search: beam, n_best, length_penalty, length_form, patience, temperature, top_k, top_p,
                min_p, repetition_penalty, frequency_penalty, presence_penalty, no_repeat_ngram, min_tokens,
                max_tokens, boost, seed. Unset ones are the model's own; `help(regard.SearchSettings)` explains each.
        """
        return self.generations(prompt, **search)[0]

    def generations(self, prompt: str = "", **search: Unpack[SearchOptions]) -> list[str]:
        """The `n_best` continuations of `prompt`: best first, or samples as drawn."""
        ids = self._prompt(prompt)  # text -> tokens
        (found,) = self._search([ids], search_settings(self.generation, search))  # tokens -> tokens
        return [self._continuation(ids, hypothesis.tokens) for hypothesis in found]  # tokens -> text

    def stream(self, prompt: str = "", **search: Unpack[SearchOptions]) -> Iterator[str]:
        """The continuation of `prompt` piece by piece, as it is generated."""
        ids = self._prompt(prompt)
        handle = self.scheduler().submit(self.request(ids, search_settings(self.generation, search), stream=True))
        tokens: list[int] = []
        shown = ""
        for token in handle.tokens():
            tokens.append(token)
            text = self._continuation(ids, tokens)
            if not text.endswith("\ufffd"):  # half of a character: its other bytes come with the next token
                yield text[len(shown) :]
                shown = text
        if (text := self._continuation(ids, tokens)) != shown:
            yield text[len(shown) :]

    def write(self, rows: Sequence[Sequence[int]], **search: Unpack[SearchOptions]) -> list[list[int]]:
        settings = search_settings(self.generation, search)
        return [found[0].tokens for found in self._search([self._ids(row) for row in rows], settings)]

    def _prompt(self, prompt: str) -> Sequence[int]:
        check_text(prompt, "prompt")
        if self.network.config.head != "lm":
            self._cannot("generate")
        ids = self.tokenizer.encode(prompt)
        if not ids:
            if self.generation.start is None:
                raise InputError("the prompt is empty, and this model has no start token")
            ids = [self.generation.start]
        return self._ids(ids)

    def _continuation(self, ids: Sequence[int], tokens: Sequence[int]) -> str:
        # decoded together: what a token looks like may depend on those before it
        return self.tokenizer.decode([*ids, *tokens]).removeprefix(self.tokenizer.decode(ids))

    def _max_tokens(self, ids: Sequence[int]) -> int:
        return self.network.config.context - len(ids)
