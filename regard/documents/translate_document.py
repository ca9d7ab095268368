"""A document, translated: all of its passages, and figures for a summary."""

from collections.abc import Callable
from dataclasses import dataclass

from regard.documents.document_translator import DocumentTranslator
from regard.documents.options import TranslationOptions
from regard.documents.passage import Document, Passage

SAMPLE_CHARACTERS = 20_000
"""The beginning of a document from which its language is detected."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A translated document, and figures for a summary."""

    text: str
    passages: int
    sentences: int
    confidence: float
    """The mean over the sentences; 0 if there are none."""
    kept: int
    """Sentences whose source text stays, because no translation was good enough."""


def translate_document(
    translator: DocumentTranslator,
    document: Document,
    options: TranslationOptions,
    on_progress: Callable[[int], None] = lambda done: None,
) -> TranslatedDocument:
    """Translate all passages. `on_progress` is called with the number of passages done."""
    passages = document.passages
    language = None
    if options.source is None:  # once for all of it: "Menu" or "Version" alone could be in any language
        sample = "\n".join(passage.text for passage in passages)[:SAMPLE_CHARACTERS]
        language = translator.source_language(sample, options)
    translated: list[Passage] = []
    sentences, confidence, kept = 0, 0.0, 0
    for result in translator.stream(passages, options, language=language):
        translated.append(result.passage)  # not the result, which is many times as large
        sentences += len(result.sentences)
        confidence += sum(sentence.confidence for sentence in result.sentences)
        kept += sum(sentence.keeps_source for sentence in result.sentences)
        on_progress(len(translated))
    text = document.render(translated)
    return TranslatedDocument(text, len(passages), sentences, confidence / max(sentences, 1), kept)
