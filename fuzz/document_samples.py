"""A few documents of each format, and the words of which the format is made."""

HTML = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>A page</title><style>p {}</style></head>\n'
    '<body><p>Click <b>here</b> &amp; wait.</p><img alt="A cat" src="a.png"><br/>\n<script>if (a < b) {}</script>'
    "<ul>\n <li>One<li>Two {{ name }}</ul><pre>  code </pre><!-- no --></body></html>\n",
    "<p>Hello <i>my <b>friend</i>, how</b> are <code>you</code>?<p>2 &lt; 3, {% if x %}yes{% endif %} H<sub>2</sub>O",
)
HTML_WORDS = (
    *("<p>", "</p>", "<b>", "</b>", "<i", ">", "</i >", "<br/>", "<img alt='a cat' title=\"x\">", "<a href=x>", "</a>"),
    *("<!--", "-->", "<![CDATA[", "]]>", "<?php", "?>", "<script>", "</script>", "<style>", "<pre>", "</pre>", "<td>"),
    *("<meta charset=latin-1>", "<meta charset=unicode_escape>", "<meta charset=utf-16>", "<meta charset='idna'>"),
    *(
        "{{",
        "}}",
        "{%",
        "%}",
        "<%=",
        "%>",
        "<textarea>",
        "<title>",
        "<svg>",
        "<math>",
        "</",
        "<x:y",
        " = ",
        "<!DOCTYPE",
    ),
    *(r"\x3cscript\x3e", "<code>", "</code>", "<input placeholder=a>", "<template>", "<noscript>", "<iframe>", "<p/>"),
)
MARKDOWN = (
    "---\ntitle: A page\n---\n# Heading\n\nSome *emphasis*, **strong** and `code`.\n\n- one\n- two\n  1. three\n\n"
    "> A quote\n> goes on\n\n```python\nprint(1)\n```\n\n[a link](https://a.org 'title') ![image](a.png)\n\n"
    "| a | b |\n|---|---|\n| 1 | two |\n\n[ref]: https://a.org\n",
    "Setext\n===\n\nText with <b>html</b> and a  \nbreak\\\nhere. [^1]\n\n[^1]: A note.\n\n<div>\nraw\n</div>\n\n***\n",
)
MARKDOWN_WORDS = (
    *(
        "# ",
        "## ",
        "* ",
        "- ",
        "1. ",
        "> ",
        "    ",
        "```",
        "~~~",
        "---\n",
        "===\n",
        "***",
        "**",
        "__",
        "`",
        "``",
        "[a]",
    ),
    *(
        "[",
        "](",
        ")",
        "![",
        "[a]: ",
        "<div>",
        "</div>",
        "<!--",
        "-->",
        "| a ",
        "|---|",
        "\\",
        "  \n",
        "$$",
        "[^1]",
        "[^1]: ",
    ),
    *(
        "<https://a.org>",
        "www.a.org",
        "&amp;",
        "+++\n",
        ":::",
        "- [ ] ",
        "~~",
        "\t",
        "<b>",
        "</b>",
        "{#id}",
        "0) ",
        "|",
    ),
)
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,500\nHello <i>there</i>.\n\n2\n00:00:03,000 --> 00:00:04,000 X1:1 X2:2\n- One line\n"
    "- {\\an8}Two lines\n\n",
    "WEBVTT - A film\nKind: captions\n\nNOTE a\nnote\n\nSTYLE\n::cue {}\n\nid\n00:01.000 --> 00:02.000 align:start\n"
    "<v Mary>Hello <b>you</b>\n<00:01.500>again &amp; again\n\n00:03.000 --> 00:04.000\nBye.\n",
)
SUBTITLE_WORDS = (
    *(
        "1\n",
        "2\n",
        "00:00:01,000 --> 00:00:02,500",
        "00:01.000 --> 00:02.000",
        "0:0->0:0",
        "0:0 --> 0:1",
        " --> ",
        "\n\n",
    ),
    *(
        "WEBVTT",
        "NOTE ",
        "STYLE",
        "REGION",
        "{\\an8}",
        "{\\a\n8}",
        "<i>",
        "</i>",
        "<v Mary>",
        "<00:01.500>",
        "- ",
        "♪ ",
    ),
    *("Hello.", "99:99:99,999", "-1:00:00,000", "&lrm;", "[laughs]", "{y:i}", "<font color=red>", "</font>", "0" * 400),
)
PO = (
    '# comment\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n#: a.c:1\n#, fuzzy, c-format\n#| msgid "old"\nmsgctxt "menu"\n'
    'msgid "Open \\"%s\\" now"\nmsgstr ""\n\nmsgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n',
    'msgid ""\n"First\\n"\n"second \\\\ \\x41 \\101"\nmsgstr ""\n\n#~ msgid "gone"\n#~ msgstr "weg"\n\nmsgid "Done"\n'
    'msgstr "Fertig"\n',
)
PO_WORDS = (
    *(
        'msgid "',
        'msgstr "',
        'msgid_plural "',
        'msgctxt "',
        'msgstr[0] "',
        'msgstr[1] "',
        'msgstr[99999999999] "',
        '"\n',
    ),
    *(
        'msgid ""\n',
        'msgstr ""\n',
        "#, fuzzy\n",
        "#~ ",
        "#| ",
        "#: a.c\n",
        "#. x\n",
        "\\n",
        '\\"',
        "\\x",
        "\\777",
        "\\",
        '"a"\n',
    ),
    *(
        "Content-Type: text/plain; charset=utf-7\\n",
        "charset=unicode_escape",
        "nplurals=9999999999;",
        "plural=n",
        "domain ",
    ),
    *(
        "nplurals=2; plural=(n != 1);\\n",
        "nplurals=-1",
        "plural=" + "(" * 500,
        "msgstr[-1]",
        "msgstr[]",
        "% d",
        "%(a)s",
    ),
)
TMX = (
    '<?xml version="1.0" encoding="utf-8"?>\n<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>\n'
    '<tu tuid="1"><tuv xml:lang="en"><seg>Hello <bpt i="1">&lt;b></bpt>you<ept i="1">&lt;/b></ept></seg></tuv></tu>\n'
    '<tu><tuv xml:lang="en-US"><seg>Bye.</seg></tuv><tuv xml:lang="de"><seg>Ade.</seg></tuv></tu>\n</body></tmx>\n',
    '<tmx version="1.4">\n<!-- a --><header/><body><tu><note>n</note><tuv lang="EN"><seg>A &amp; B<ph x="1"/></seg>'
    "</tuv></tu></body></tmx>",
)
TMX_WORDS = (
    *("<tu>", "</tu>", '<tuv xml:lang="en">', '<tuv xml:lang="de">', "</tuv>", "<seg>", "</seg>", "<body>", "</body>"),
    *("<tmx>", "</tmx>", "<!--", "-->", "<![CDATA[", "]]>", "<?xml version='1.0' encoding='utf-7'?>", '<bpt i="1">'),
    *("</bpt>", "<ph/>", "&amp;", "&#" + "0" * 5000, "&#x41;", "&lol;", "<!DOCTYPE tmx [<!ENTITY lol 'x'>]>", "<seg/>"),
    *("<tu tuid='", "'>", '"', "<hi>", "</hi>", "<sub>", "</sub>", "<?pi?>", "xml:lang=", "<tuv>", "&#1;", "Hello."),
)
TSV = (
    'en\tde\nHello.\tHallo.\nOne "two"\t\n\n\tx\n',
    "a\tb\tc\n1\t2\t3\r\nthe cat\tdie Katze\t0.5\n",
)
TSV_WORDS = ("\t", "\t", "\n", "\r\n", "\r", "a", "the cat", '"', '""', ",", "\t\t\t", "0.5", "\\t", "\\N")
PLAIN = ("Hello.\n\n  How are you?  \r\nMr. Smith has 5 km to go. See https://a.org/b?c=d.\n", "One.\nTwo! Three?\n")
PLAIN_WORDS = (
    "Hello. ",
    "Mr. ",
    "\n",
    "e.g. ",
    "(",
    ")",
    "1.5 km ",
    "%s ",
    "{name} ",
    "„So“ ",
    "我今天 ",
    "... ",
    "U.S.A. ",
)
GLOSSARY = (
    "# terms\nlight bulb\tGlühbirne\tinflect\nACME\ncafé\tCafé\tcase\n",
    "the cat\tdie Katze\nThe Cat\tx\tcase\n",
)
GLOSSARY_WORDS = (
    "\t",
    "\t",
    "\n",
    "light bulb",
    "ACME",
    "inflect",
    "case",
    "inflect, case",
    "#",
    "a b c d e " * 9,
    "'s",
    "\t\t",
)

JSONL = ('{"source": "Hello.", "target": "Hallo."}\n{"source": "One", "target": "Eins", "x": [1, {"y": null}]}\n',)
JSONL_WORDS = (
    *('{"source": "', '", "target": "', '"}\n', "{", "}", "[", "]", ",", ":", '"', "null", "1e999", "NaN", "9" * 5000),
    *('"source": ', '"target": ', "\\ud800", "\\u0000", "[" * 3000, '{"a":' * 3000, "true", "\n"),
)

FRAMES: dict[str, tuple[str, ...]] = {
    "html": ("<p>…</p>", "<body><div title='…'>… <b>…</b></div>"),
    "markdown": ("# …\n\n- …\n  - …\n", "| … | … |\n|---|---|\n| … | … |\n"),
    "subtitles": (
        "1\n00:00:01,000 --> 00:00:02,000\n…\n\n2\n00:00:03,000 --> 00:00:04,000\n…\n\n",
        "WEBVTT\n\n00:01.000 --> 00:02.000\n…\n\n",
        "0:0->0:0\n…",
    ),
    "po": ('msgid "…"\nmsgstr ""\n\nmsgid "…"\nmsgid_plural "…"\nmsgstr[0] "…"\nmsgstr[1] ""\n', f"{PO[0][:120]}…\n"),
    "tmx": (
        '<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>…</seg></tuv></tu></body></tmx>',
        '<tmx version="1.4"><header/><body>…<tu><tuv xml:lang="en"><seg>a</seg></tuv>…</tu></body></tmx>',
    ),
    "glossary": ("…\t…\n…\t…\tcase\n",),
}
"""Well-formed files with places for anything."""

DOCUMENTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "plain": (".txt", PLAIN, PLAIN_WORDS),
    "html": (".html", HTML, HTML_WORDS),
    "markdown": (".md", MARKDOWN, MARKDOWN_WORDS + HTML_WORDS[:20]),
    "subtitles": (".srt", SUBTITLES, SUBTITLE_WORDS),
    "po": (".po", PO, PO_WORDS),
    "tmx": (".tmx", TMX, TMX_WORDS),
    "tsv": (".tsv", TSV, TSV_WORDS),
    "glossary": (".terms", GLOSSARY, GLOSSARY_WORDS),
    "lines": (".en", PLAIN, PLAIN_WORDS),
    "columns": (".tsv", TSV, TSV_WORDS),
    "jsonl": (".jsonl", JSONL, JSONL_WORDS),
}
"""Format -> the ending of its files, documents, words. The last four are not documents, but arrive like them."""
