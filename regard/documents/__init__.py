"""Documents and people: text of any length and form around a translation model.

    document -> passages -> segments -> protected spans -> [ translation model ] -> guard, retries -> document

document_translator   the whole path, for texts and documents
passage, segments     what is translated as one; sentences  where they end; protect  what must survive unchanged
glossary              terms with a fixed translation; language_detector  which language a text is in
retry, confidence     search again where a check fails; how far a translation can be trusted
markup, alignment_map inline markup, moved to where its words went
result                what comes back; formats/  HTML, Markdown, subtitles, .po, TMX, TSV, plain text
"""
