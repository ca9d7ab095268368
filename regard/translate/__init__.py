"""Text as people have it: documents, sentences, glossaries, confidence. Everything around the translation model."""
