"""The probe is tested with real child processes, and with children that really die, hang, or lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.cpu import capabilities, machine
from regard.cpu.capabilities import CAP, ISA, OLD_ISA, Capabilities
from regard.cpu.device import resolve_dtype
from regard.errors import UsageError

CPU = torch.device("cpu")

# What a child of the probe may do. Each writes a line into $COUNT when it starts.
START = """
import os, signal, sys, time
open(os.environ["COUNT"], "a").write(os.environ.get("ONEDNN_MAX_CPU_ISA", "-") + chr(10))
def say(*words): print(*words, flush=True)
def die(): os.kill(os.getpid(), signal.SIGILL)
say("ready")
"""
GOOD = START + "for stage in sys.argv[1:]: say(stage, 'right')"
WRONG = START + "for stage in sys.argv[1:]: say(stage, 'wrong')"
DIES_WITHOUT_CAP = START + "os.environ.get('ONEDNN_MAX_CPU_ISA') or die()\nfor s in sys.argv[1:]: say(s, 'right')"
DIES = START + "die()"
DIES_IN_BFLOAT16 = START + "for stage in sys.argv[1:]: stage == 'bfloat16' and die(); say(stage, 'right')"
DIES_IN_INT8 = START + "for stage in sys.argv[1:]: 'int8' in stage and die(); say(stage, 'right')"
HANGS = START + "say('bfloat16', 'right')\ntime.sleep(600)"
CANNOT_IMPORT = "import no_such_module_as_torch"

ALL = Capabilities(None, bfloat16=True, int8=True, int8_wide=True)
CAPPED = Capabilities(CAP, bfloat16=True, int8=True, int8_wide=True)
NOTHING = Capabilities(None, bfloat16=False, int8=False, int8_wide=False)


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache of the test's own, no cap from outside, and no cap left behind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    for name in (ISA, OLD_ISA):
        monkeypatch.setenv(name, "")  # so that monkeypatch puts the old value back, whatever prepare() sets
        monkeypatch.delenv(name)
    capabilities.prepare.cache_clear()
    yield
    capabilities.prepare.cache_clear()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def children(tmp_path: Path) -> list[str]:
    """The cap that each child was started under, "-" for none."""
    count = tmp_path / "count"
    return count.read_text().split() if count.exists() else []


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache/regard").glob("*.json"))


# --- the probe ---


def test_real_probe_on_this_machine(tmp_path: Path) -> None:
    found = capabilities.prepare()
    assert found.isa_cap in (None, CAP)
    assert os.environ.get(ISA) == found.isa_cap
    assert found.bfloat16, "torch emulates bfloat16 on every CPU without the instructions"
    flags = machine.cpu_model()
    if "avx2" in flags:
        assert found.int8
        assert not found.int8_wide or "vnni" in flags, "without VNNI, 8-bit weights saturate"
        assert found.int8_wide or "avx512_vnni" not in flags
    assert entries(tmp_path)
    start = time.monotonic()
    assert capabilities.capabilities() == found
    assert time.monotonic() - start < 0.5, "the second time must not start a child"


def test_good_machine_needs_one_child_once(tmp_path: Path) -> None:
    assert capabilities.capabilities(GOOD) == ALL
    assert capabilities.capabilities(DIES) == ALL, "remembered"
    assert children(tmp_path) == ["-"]


def test_child_dies_without_cap(tmp_path: Path) -> None:
    assert capabilities.capabilities(DIES_WITHOUT_CAP) == CAPPED
    assert ISA not in os.environ, "only prepare() sets it"
    assert capabilities.prepare() == CAPPED
    assert os.environ[ISA] == CAP
    assert children(tmp_path) == ["-", "-", "-", CAP]


def test_own_cap_is_not_probed_again(tmp_path: Path) -> None:
    """Our workers inherit the variable that we set; for them it looks like the user's choice."""
    capabilities.capabilities(DIES_WITHOUT_CAP)
    before = children(tmp_path)
    capabilities.prepare()
    assert capabilities.capabilities(DIES) == CAPPED
    assert children(tmp_path) == before


@pytest.mark.parametrize("program", [DIES, WRONG], ids=["dies", "wrong"])
def test_nothing_works(program: str) -> None:
    assert capabilities.capabilities(program) == NOTHING
    assert capabilities.prepare() == NOTHING
    assert ISA not in os.environ, "a cap that does not help is not set"


@pytest.mark.parametrize(
    ("program", "bfloat16", "int8"), [(DIES_IN_BFLOAT16, False, True), (DIES_IN_INT8, True, False)]
)
def test_one_death_does_not_hide_the_rest(program: str, bfloat16: bool, int8: bool) -> None:
    found = capabilities.capabilities(program)
    assert (found.bfloat16, found.int8, found.int8_wide) == (bfloat16, int8, int8)


def test_hanging_child_is_killed_and_believed_for_an_hour(tmp_path: Path) -> None:
    start = time.monotonic()
    found = capabilities.capabilities(HANGS, seconds=1.5)
    assert time.monotonic() - start < 20
    assert found == Capabilities(None, bfloat16=True, int8=False, int8_wide=False), "what it said before counts"
    (entry,) = entries(tmp_path)
    until = json.loads(entry.read_text())["until"]
    assert 0 < until - time.time() <= capabilities.UNCERTAIN_SECONDS
    entry.write_text(entry.read_text().replace(str(until), str(time.time() - 1)))
    assert capabilities.capabilities(GOOD) == ALL, "tried again when the hour is over"


def test_child_that_cannot_import_or_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert capabilities.capabilities(CANNOT_IMPORT) == NOTHING
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert capabilities.capabilities(GOOD) == NOTHING


@pytest.mark.parametrize("name", [ISA, OLD_ISA])
def test_users_own_cap_is_respected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert capabilities.capabilities(DIES) == NOTHING
    before = len(children(tmp_path))
    monkeypatch.setenv(name, "AVX2")
    assert capabilities.capabilities(GOOD) == Capabilities("AVX2", bfloat16=True, int8=True, int8_wide=True)
    assert children(tmp_path)[before:] == ["AVX2"], "probed under it, apart from what is remembered without it"
    capabilities.prepare()
    assert {os.environ.get(ISA), os.environ.get(OLD_ISA)} == {"AVX2", None}, "and nothing set beside it"


def test_users_own_cap_is_not_replaced_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA, "AVX512_CORE_AMX")
    assert capabilities.capabilities(DIES).bfloat16 is False
    assert set(children(tmp_path)) == {"AVX512_CORE_AMX"}
    capabilities.prepare()
    assert os.environ[ISA] == "AVX512_CORE_AMX"


# --- the cached answer ---


def test_processes_that_start_at_once_probe_once(tmp_path: Path) -> None:
    program = DIES_WITHOUT_CAP + "\ntime.sleep(1)"  # long enough for all the others to arrive
    worker = f"from regard.cpu import capabilities; print(capabilities.capabilities({program!r}))"
    command = [sys.executable, "-c", worker]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(8)]
    answers = {worker.communicate(timeout=120)[0] for worker in workers}
    assert answers == {f"{CAPPED}\n"}
    assert children(tmp_path) == ["-", "-", "-", CAP]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"capabilities": {"isa_cap": null, "bfl',
        "[]",
        "null",
        '{"capabilities": {"isa_cap": 7, "bfloat16": true, "int8": true, "int8_wide": true}, "until": 9e99}',
        '{"capabilities": {"isa_cap": null, "bfloat16": 1, "int8": true, "int8_wide": true}, "until": 9e99}',
        '{"capabilities": {"isa_cap": null, "bfloat16": true, "int8": true, "int8_wide": true}, "until": "x"}',
        '{"capabilities": {"isa_cap": null, "extra": true}, "until": 9e99}',
        "\udcff",
        "[" * 100_000,
    ],
)
def test_corrupt_memory_is_probed_again(text: str, tmp_path: Path) -> None:
    capabilities.capabilities(GOOD)
    (entry,) = entries(tmp_path)
    entry.write_bytes(text.encode(errors="surrogateescape"))
    assert capabilities.capabilities(GOOD) == ALL
    assert len(children(tmp_path)) == 2
    assert json.loads(entry.read_text())["capabilities"]["int8"] is True, "and mended"


def test_memory_that_is_a_folder(tmp_path: Path) -> None:
    capabilities.capabilities(GOOD)
    (entry,) = entries(tmp_path)
    entry.unlink()
    entry.mkdir()
    assert capabilities.capabilities(GOOD) == ALL
    assert {p.suffix for p in entry.parent.iterdir()} <= {".json", ".lock"}, "no draft is left behind"


def test_cache_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder's place: for root, too, who may write into a folder without permissions."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert capabilities.capabilities(GOOD) == ALL
    assert capabilities.capabilities(GOOD) == ALL
    assert len(children(tmp_path)) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_cache_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    assert capabilities.capabilities(GOOD) == ALL


def test_another_machine_has_its_own_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities.capabilities(GOOD)
    monkeypatch.setattr(capabilities, "cpu_model", lambda: "flags: another CPU, the same home")
    assert capabilities.capabilities(DIES) == NOTHING
    assert len(entries(tmp_path)) == 2


def test_cpu_description_lasts() -> None:
    assert machine.cpu_model() == machine.cpu_model() != ""
    assert "MHz" not in machine.cpu_model()


@pytest.mark.skipif(sys.platform != "linux", reason="the folder has another name elsewhere")
def test_cache_folder_follows_the_standard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert machine.cache_folder() == tmp_path / "cache/regard"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert machine.cache_folder() == tmp_path / ".cache/regard"


# --- the import ---


def test_import_is_light_and_has_no_effects(tmp_path: Path) -> None:
    program = (
        "import os, sys; before = dict(os.environ); import regard.cpu.capabilities; "
        "assert 'torch' not in sys.modules; assert dict(os.environ) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(), timeout=60)
    assert not (tmp_path / "cache").exists()


def test_remembered_prepare_does_not_import_torch() -> None:
    capabilities.capabilities(DIES_WITHOUT_CAP)
    program = (
        "import os, sys; from regard.cpu import capabilities; found = capabilities.prepare(); "
        "assert capabilities.prepare() is found; "
        f"assert os.environ[{ISA!r}] == found.isa_cap == {CAP!r}; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(), timeout=60)


# --- number formats ---


def test_dtype_on_cpu() -> None:
    capabilities.capabilities(GOOD)
    assert resolve_dtype("auto", CPU) is torch.float32
    assert resolve_dtype("float32", CPU) is torch.float32
    assert resolve_dtype("bfloat16", CPU) is torch.bfloat16
    with pytest.raises(UsageError, match="is for GPUs"):
        resolve_dtype("float16", CPU)
    with pytest.raises(UsageError, match="'int4' is not known"):
        resolve_dtype("int4", CPU)


def test_bfloat16_is_refused_where_it_dies() -> None:
    capabilities.capabilities(DIES_IN_BFLOAT16)
    assert resolve_dtype("auto", CPU) is torch.float32
    with pytest.raises(UsageError, match="'bfloat16' crashes or gives wrong results on this CPU"):
        resolve_dtype("bfloat16", CPU)
