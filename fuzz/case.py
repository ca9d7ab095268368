"""A case: the name of a sample directory, and the files that differ from it.

    Case("directories", "bert-0 regard", {"config.json": b"{", "model.safetensors": "fifo"})

A file is bytes, or one of the words for something other than a regular file: missing, directory, fifo, "link TARGET".
"""

import base64
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Content = bytes | str
MAX_KEPT_BYTES = 20_000
"""A larger case is reported, but not kept as a test."""


@dataclass(frozen=True)
class Case:
    kind: str
    base: str = ""
    """The sample that the files are put into; none for a document or a recipe."""
    files: Mapping[str, Content] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """What is done with the files, where a kind has several ways."""

    def lay(self, folder: Path, base: Path | None) -> None:
        """Make the directory of this case."""
        if base is None:
            folder.mkdir(parents=True)
        else:
            shutil.copytree(base, folder)
        for name, content in self.files.items():
            _place(folder / name, content)

    def to_json(self) -> str:
        files = {name: _encode(content) for name, content in self.files.items()}
        table = {"kind": self.kind, "base": self.base, "options": self.options, "files": files}
        return json.dumps(table, indent=1, ensure_ascii=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Case":
        raw = json.loads(text)
        files = {name: _decode(content) for name, content in raw["files"].items()}
        return cls(raw["kind"], raw["base"], files, tuple(raw["options"]))


def _place(path: Path, content: Content) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "directory":
        path.mkdir()
    elif content == "fifo":
        os.mkfifo(path)
    elif content.startswith("link "):
        path.symlink_to(content.removeprefix("link "))
    else:
        assert content == "missing", content


def _encode(content: Content) -> dict[str, str]:
    if isinstance(content, str):
        return {"special": content}
    packed = base64.b64encode(zlib.compress(content, 9)).decode()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return {"zlib": packed}
    return {"text": text} if len(text) < 2 * len(packed) else {"zlib": packed}


def _decode(content: Mapping[str, str]) -> Content:
    if "special" in content:
        return content["special"]
    if "text" in content:
        return content["text"].encode("utf-8")
    return zlib.decompress(base64.b64decode(content["zlib"]))
