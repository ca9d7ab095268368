"""Bytes, JSON, safetensors and lines -> hostile ones. Everything is drawn from one seeded generator."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (0, -1, 1, 2, 3, 7, 127, 255, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64)
LITERALS = (
    *map(str, (*NUMBERS, 10**10, 10**13, -(2**31), -(2**63), 10**30)),
    *("9" * 400, "1" + "0" * 5000, "0.5", "-0.0", "1.5", "1e-400", "1e308", "-1e308", "1e999", "NaN", "-Infinity"),
    *("null", "true", "false", "[]", "{}", '""', '"0"', "[[]]", '[{"a": 1}]', '{"": null}', "[1, 2]", '["a", "b"]'),
    *("[" * 500 + "]" * 500, "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300, '"' + "x" * 50_000 + '"'),
    *(r'"\ud800"', r'"\u001b[31m\u0007"', r'"\u0000"', r'"a\nb"', r'"\u202e\u2028"', '"../../../etc/passwd"'),
    *(
        '"/dev/zero"',
        '"none"',
        '"%s%n"',
        '"' + "(a+)+$" * 9 + '"',
        "[" + "2, " * 9999 + "2]",
        "[" + "[], " * 999 + "0]",
    ),
    "{" + ", ".join(f'"k{i}": {i}' for i in range(3000)) + "}",
    "{" + ", ".join('"k": 1' for _ in range(3000)) + "}",
)
"""JSON values, as text: some cannot be written otherwise."""
KEYS = ("", "__class__", "__proto__", "\x1b[31m", "a\nb", "x" * 5000, "type", "format", "\ud800")
SPECIAL_FILES = (
    *("missing", "directory", "fifo", "link /dev/zero", "link /dev/null", "link /dev/tty"),
    *("link /etc/passwd", "link nowhere", "link .", "link ..", "link /proc/self/mem"),
)


MOST_ADDED = 2_000_000
"""Characters of JSON that one change may add."""
ENTRY_CHANGES = (
    *("replace",) * 8,
    *("near", "near", "near", "remove", "remove", "add", "add", "double", "double", "rename", "rename", "move", "many"),
    "numbered",
)
KNOWN_KEYS = (
    *("num_labels", "id2label", "architectures", "eos_token_id", "bos_token_id", "pad_token_id", "bad_words_ids"),
    *(
        "rope_scaling",
        "rope_theta",
        "rope_parameters",
        "head_dim",
        "num_key_value_heads",
        "max_new_tokens",
        "num_beams",
    ),
    *("max_length", "length_penalty", "vocab_size", "decoder_vocab_size", "n_positions", "max_position_embeddings"),
    *("start", "end", "pad", "suppressed", "beam", "max_tokens", "labels", "rotary_scaling", "head_width", "weights"),
    *("added_tokens", "added_tokens_decoder", "truncation", "padding", "model_max_length", "additional_special_tokens"),
    *("normalizer", "pre_tokenizer", "post_processor", "decoder", "metadata", "weight_map", "__metadata__"),
    *("sentence", "word", "known", "scores", "figures", "limits"),
)


# ---- bytes ----


def mutated_bytes(luck: Random, raw: bytes) -> bytes:
    """One to four changes."""
    for _ in range(luck.choice((1, 1, 1, 2, 4))):
        raw = luck.choice(BYTE_CHANGES)(luck, raw)
    return raw


def _flip(luck: Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(luck.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[luck.randrange(len(changed))] ^= 1 << luck.randrange(8)
    return bytes(changed)


def _overwrite(luck: Random, raw: bytes) -> bytes:
    at = luck.randint(0, len(raw))
    new = luck.choice((luck.randbytes(luck.randint(1, 16)), b"\0" * 8, b"\xff" * 8, b"\xff\xfe", b"\r", b"\n", b'"'))
    return raw[:at] + new + raw[at + len(new) :]


def _insert_number(luck: Random, raw: bytes) -> bytes:
    size = luck.choice((1, 2, 4, 8))
    number = luck.choice(NUMBERS) % (1 << 8 * size)
    at = luck.choice((0, 4, 8, luck.randint(0, len(raw))))
    return raw[:at] + number.to_bytes(size, "little") + raw[at + size :]


def _cut(luck: Random, raw: bytes) -> bytes:
    return raw[: luck.choice((0, 1, 7, 8, len(raw) // 2, max(len(raw) - 1, 0), luck.randint(0, len(raw))))]


def _remove(luck: Random, raw: bytes) -> bytes:
    start, end = _piece(luck, raw)
    return raw[:start] + raw[end:]


def _repeat(luck: Random, raw: bytes) -> bytes:
    start, end = _piece(luck, raw)
    most = 200_000 // max(end - start, 1)
    return raw[:end] + raw[start:end] * luck.choice((1, 2, 10, max(most, 1))) + raw[end:]


def _swap(luck: Random, raw: bytes) -> bytes:
    a, b, c, d = sorted(luck.randint(0, len(raw)) for _ in range(4))
    return raw[:a] + raw[c:d] + raw[b:c] + raw[a:b] + raw[d:]


def _append(luck: Random, raw: bytes) -> bytes:
    return raw + luck.choice((b"\0", b"\0" * 4096, b"\n", b"}", b"\xff", raw[:100], luck.randbytes(9)))


def _piece(luck: Random, raw: bytes) -> tuple[int, int]:
    start = luck.randint(0, len(raw))
    return start, min(len(raw), start + luck.choice((1, 4, 16, 100, 1000)))


BYTE_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_flip, _flip, _overwrite, _overwrite, _insert_number),
    *(_cut, _remove, _repeat, _swap, _append),
)


# ---- JSON ----


class Object(list[tuple[str, Any]]):
    """A JSON object as (key, value) pairs: one key can be there twice."""


class Literal(str):
    """JSON, as text."""


def mutated_json(luck: Random, raw: bytes) -> bytes:
    """One to four values changed, or keys removed, renamed, doubled; now and then only bytes."""
    if luck.random() < 0.15:
        return mutated_bytes(luck, raw)
    try:
        tree = json.loads(raw, object_pairs_hook=Object)
    except (ValueError, RecursionError):
        return mutated_bytes(luck, raw)
    if luck.random() < 0.02:
        return luck.choice(LITERALS).encode()
    for _ in range(luck.choice((1, 1, 1, 2, 4))):
        _change_somewhere(luck, tree)
    return dumped(tree).encode("utf-8", "surrogatepass")


def dumped(tree: Any) -> str:
    if isinstance(tree, Literal):
        return str(tree)
    if isinstance(tree, Object):
        return "{" + ", ".join(f"{json.dumps(key)}: {dumped(value)}" for key, value in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(dumped, tree)) + "]"
    return json.dumps(tree)


def _change_somewhere(luck: Random, tree: Any) -> None:
    """Walk down from the root, more often to what lies near it, and change one entry."""
    while isinstance(tree, list) and tree:
        at = luck.randrange(len(tree))
        inside = tree[at][1] if isinstance(tree, Object) else tree[at]
        if not (isinstance(inside, list) and inside) or luck.random() < 0.25:
            _change_entry(luck, tree, at)
            return
        tree = inside


def _change_entry(luck: Random, tree: list[Any], at: int) -> None:
    key, value = tree[at] if isinstance(tree, Object) else ("", tree[at])
    change = luck.choice(ENTRY_CHANGES)
    most = MOST_ADDED // (20 + len(dumped(value))) if change in ("many", "numbered") else 0
    if change == "add":
        new = Literal(luck.choice(LITERALS))
        tree.append((luck.choice(KNOWN_KEYS), new) if isinstance(tree, Object) else new)
    elif change == "numbered":
        count = min(luck.choice((10, 300, 3000, 40_000)), most)
        tree.extend(_numbered(tree[at], i) for i in range(count))
    elif change == "remove":
        del tree[at]
    elif change == "double":
        tree.insert(luck.randint(0, len(tree)), copy.deepcopy(tree[at]))
    elif change == "many":
        # copies: a later change inside the one would be a change in all
        tree.extend(copy.deepcopy(tree[at]) for _ in range(min(luck.choice((3, 100, 5000)), most)))
    elif change == "move":
        other = luck.randrange(len(tree))
        tree[at], tree[other] = (
            ((key, tree[other][1]), (tree[other][0], value)) if isinstance(tree, Object) else (tree[other], tree[at])
        )
    else:
        new = _near(luck, value) if change == "near" else Literal(luck.choice(LITERALS))
        if change == "rename" and isinstance(tree, Object):
            tree[at] = (
                luck.choice((*KEYS, key.upper(), key[:-1], key + "s", tree[luck.randrange(len(tree))][0])),
                value,
            )
        else:
            tree[at] = (key, new) if isinstance(tree, Object) else new


def _numbered(value: Any, i: int) -> Any:
    """Another of the kind: with the number in every string, and added to every whole number."""
    if isinstance(value, tuple):
        return f"{value[0]}{i}", _numbered(value[1], i)
    if isinstance(value, Object):
        return Object((key, _numbered(inside, i)) for key, inside in value)
    if isinstance(value, list):
        return copy.deepcopy(value)
    if isinstance(value, str):
        return f"{value}{i}"
    return value + i if type(value) is int else value


def _near(luck: Random, value: Any) -> Any:
    """A value of the same type: such pass the first checks."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return luck.choice((value + 1, value - 1, -value, value * 2, value * 1000, luck.choice(NUMBERS)))
    if isinstance(value, float):
        return luck.choice((-value, value * 1e30, value * 1e-30, 0.0, value + 1))
    if isinstance(value, str):
        return luck.choice(
            (value + "s", value[:-1], value.upper(), value * 3, "", "\x1b[2J", "a b", "é\u0301", "\ud800")
        )
    if isinstance(value, Object):
        return Object()
    if isinstance(value, list):
        return [*value, *value[:1]] if luck.random() < 0.5 else value[1:]
    return luck.choice((0, "", []))


# ---- safetensors ----


def mutated_safetensors(luck: Random, raw: bytes) -> bytes:
    """A header that lies, numbers that are not finite, or only bytes."""
    size = int.from_bytes(raw[:8], "little")
    header, body = raw[8 : 8 + size], raw[8 + size :]
    way = luck.random()
    if way < 0.02:
        count = luck.choice((1, 1000, 30_000))
        entries = ", ".join(f'"t{i}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}' for i in range(count))
        header = b"{" + entries.encode() + b", " + header.lstrip(b"{")
        return len(header).to_bytes(8, "little") + header + body
    if way < 0.25:
        return mutated_bytes(luck, raw)
    if way < 0.65:
        header = mutated_json(luck, header)
        if luck.random() < 0.7:
            header += b" " * (-len(header) % 8)
        length = len(header) if luck.random() < 0.9 else luck.choice(NUMBERS)
        return (length % 2**64).to_bytes(8, "little") + header + body
    if way < 0.85:
        word = luck.choice(
            (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x01\x00\x00\x00", b"\xff" * 4)
        )
        words = bytearray(body)
        for _ in range(luck.choice((1, 10, len(body) // 4))):
            at = luck.randrange(max(len(words) // 4, 1)) * 4
            words[at : at + 4] = word
        return raw[: 8 + size] + bytes(words[: len(body)])
    return raw[: 8 + size] + luck.choice(
        (luck.randbytes(len(body)), body[:-4], body + b"\0" * 4, b"\0" * len(body), b"")
    )


# ---- texts ----

LONGEST_TEXT = 200_000
"""Characters: what takes quadratic time takes too much at this length."""


def mutated_text(luck: Random, text: str, words: tuple[str, ...]) -> str:
    """Lines removed, doubled and swapped, words of the format and hostile ones put in."""
    for _ in range(luck.choice((1, 1, 2, 3, 8))):
        text = _changed_text(luck, text, words)[:LONGEST_TEXT]
    return text


def _changed_text(luck: Random, text: str, words: tuple[str, ...]) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, place = luck.randrange(len(lines)), luck.randint(0, len(text))
    match luck.randrange(9):
        case 0:
            del lines[at]
        case 1:
            lines.insert(luck.randint(0, len(lines)), lines[at])
        case 2:
            luck.shuffle(lines)
        case 3:
            lines[at] *= luck.choice((2, 100, max(1, 30_000 // len(lines[at] or "x"))))
        case 4:
            return text[:place] + text[place + luck.randint(1, 40) :]
        case 5:
            word = luck.choice(words)
            return text[:place] + word * luck.choice((2, 50, max(1, 30_000 // max(len(word), 1)))) + text[place:]
        case 6:
            return text.replace("\n", luck.choice(("\r\n", "\r", "\n\n", " ", "", "\u2028", "\x0b")))
        case _:
            return text[:place] + luck.choice((*words, *HOSTILE_WORDS)) + text[place:]
    return "".join(lines)


def soup(luck: Random, words: tuple[str, ...]) -> str:
    """Words of the format in any order."""
    return "".join(luck.choices((*words, *words, *HOSTILE_WORDS), k=luck.choice((1, 3, 8, 20, 60))))


HOSTILE_WORDS = (
    *("\n", "\n", "\n\n", "\r\n", "\r", "\t", " ", "  ", "\x0b", "\x0c", "\x1b[31m", "\x07", "\x7f", "\x85", "\u2028"),
    *("\ufeff", "\u202e", "\u200b", "\xa0", "\u0301", "\U0001f600", "\ufffe", "\U0010ffff", "\ue000", "①", "②", "é"),
    *("&#", "&#0;", "&#x110000;", "&#" + "0" * 5000, "&#xd800;", "&amp;", "&lt;", "&nbsp", "&", "<", ">", '"', "'"),
    *(
        "\\",
        "\\\\",
        "`",
        "*",
        "_",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "{\\",
        "|",
        "#",
        "-",
        "-->",
        "->",
        "%s",
        "{0}",
        "{{x}}",
    ),
    *("https://a.org/b?c=d", "me@example.org", "1.5", "9" * 30, "A", "the cat", "Hello.", "Mr. Smith", "x" * 300, "…"),
)
