"""A document, translated: all of its passages, and figures for a summary."""

from collections.abc import Callable
from dataclasses import dataclass

from regard.documents.document_translator import DocumentTranslator
from regard.documents.options import TranslationOptions
from regard.documents.passage import Document

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
    results = []
    for result in translator.stream(passages, options, language=language):
        results.append(result)
        on_progress(len(results))
    sentences = [sentence for result in results for sentence in result.sentences]
    return TranslatedDocument(
        document.render([result.passage for result in results]),
        len(passages),
        len(sentences),
        sum(sentence.confidence for sentence in sentences) / max(len(sentences), 1),
        sum(sentence.keeps_source for sentence in sentences),
    )
