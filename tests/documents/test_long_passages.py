"""A passage of any length: translated in parts, with memory that is a small multiple of its text."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.documents import segments
from regard.documents.document_translator import DocumentTranslator, load_translator
from regard.documents.formats import files
from regard.documents.formats.skeleton import raw_text
from regard.documents.options import TranslationOptions
from regard.documents.passage import Mark, Passage
from regard.documents.translate_document import translate_document

SENTENCE = "The dog went across the river, and then it went back to the house on the other side. "
MAX_BYTES_PER_BYTE = 60


@pytest.fixture(scope="module")
def box() -> DocumentTranslator:
    return load_translator()


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_PART", 200)
    monkeypatch.setattr(segments, "PART_BORDER", 100)


@pytest.mark.usefixtures("short_parts")
def test_parts_end_with_a_sentence() -> None:
    parts = [part.text for part in segments.parts(Passage(SENTENCE * 10), "en")]
    assert parts == [SENTENCE * 2] * 5
    words = [part.text for part in segments.parts(Passage("word " * 100), "en")]
    assert words == ["word " * 40, "word " * 40, "word " * 20]
    assert [len(part.text) for part in segments.parts(Passage("x" * 500), "en")] == [200, 200, 100]
    assert [part.text for part in segments.parts(Passage("a. B"), "en")] == ["a. B"]


@pytest.mark.usefixtures("short_parts")
def test_no_part_ends_inside_an_address() -> None:
    text = ("Go to https://a.org/" + "long/" * 12 + "now ") * 20
    for part in segments.parts(Passage(text), "en"):
        assert part.text.endswith(" ")


@pytest.mark.usefixtures("short_parts")
@given(
    text=st.text(alphabet="ab. \n<{}é①", max_size=900),
    marks=st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["open", "close", "single"]))),
    fixed=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300)), max_size=5),
)
def test_parts_are_the_passage(text: str, marks: list[tuple[int, str]], fixed: list[tuple[int, int]]) -> None:
    placed = [Mark(min(at, len(text)), f"<{kind}>", kind) for at, kind in sorted(marks)]  # type: ignore[arg-type]
    spans, done = [], 0
    for start, length in sorted(fixed):
        if done <= start < start + length <= len(text):
            spans.append((start, start + length))
            done = start + length
    passage = Passage(text, tuple(placed), tuple(spans))
    parts = list(segments.parts(passage, None))
    assert "".join(part.text for part in parts) == text
    assert "".join(map(raw_text, parts)) == raw_text(passage)
    assert all(0 < len(part.text) <= 200 for part in parts[:-1])
    found = ["".join(part.text[slice(*span)] for span in part.fixed) for part in parts]
    assert "".join(found) == "".join(text[slice(*span)] for span in spans)
    for part in parts[: len(parts) * (len(parts) > 1)]:
        depth = [{"open": 1, "close": -1, "single": 0}[mark.kind] for mark in part.marks]
        assert sum(depth) == 0
        assert all(sum(depth[:end]) >= 0 for end in range(len(depth)))


@pytest.mark.usefixtures("short_parts")
def test_a_translation_in_parts_is_the_same(box: DocumentTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "I am tired. Where are you, {name}? It is 5 km to the station. " * 8
    marks = (Mark(0, "<b>", "open"), Mark(10, "</b>", "close"), Mark(70, "<br>"), Mark(len(text), "<hr>"))
    passage = Passage(text, marks)
    options = TranslationOptions(to="de", source="en", align=True)
    (divided,) = box.translate_passages([passage], options)
    monkeypatch.setattr(segments, "MAX_PART", 10_000)
    (whole,) = box.translate_passages([passage], options)
    assert divided == whole
    assert divided.links == whole.links
    for (a, b), (c, d) in divided.links:
        assert 0 <= a < b <= len(text)
        assert 0 <= c < d <= len(divided.text)
    (one, two) = box.translate_passages([Passage("I am tired."), passage], options)
    assert (one.text, two) == ("Ich bin müde.", whole)


def peak(box: DocumentTranslator, text: str, form: files.Format) -> int:
    options = TranslationOptions(to="de", source="en", words=False, search={"beam": 1})
    tracemalloc.start()
    document = files.parse(text, form, source=None, target=None)
    translated = translate_document(box, document, options).text
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(translated) > len(text) // 2
    return most


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("plain", SENTENCE),
        ("plain", "1 2 3. "),
        ("plain", "I am. You are. "),
        ("html", SENTENCE.replace("dog", "<b>dog</b>") + "<br>"),
        ("markdown", SENTENCE.replace("dog", "**dog**")),
    ],
)
def test_memory_grows_slowly(
    box: DocumentTranslator, form: files.Format, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line: it took 490 bytes for each of its bytes before it was translated in parts."""
    monkeypatch.setattr(segments, "MAX_PART", 4000)  # enough parts in a small text
    small, large = (line * (size // len(line)) for size in (20_000, 50_000))
    grown = peak(box, large, form) - peak(box, small, form)
    assert grown / (len(large) - len(small)) < MAX_BYTES_PER_BYTE
