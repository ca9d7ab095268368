"""Searches that nobody should ask for: an error that says so, never memory that is not ours."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.cpu.child_environment import child_environment
from regard.decoding.settings import SearchSettings
from regard.errors import InputError
from regard.inference.backend import SpecialTokens
from regard.inference.native import kernels
from regard.inference.native.search import NativeSearch
from regard.inference.native_backend import NativeBackend, NativeModel
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.weights.shortlist import Shortlist

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")
VOCAB, CONTEXT, MAX_TOKENS = 60, 64, 20
TOKENS = SpecialTokens(start=1, end=(2,), pad=0, suppressed=(0,))
OUTSIDE = [-1, VOCAB, 2**31 - 1, 2**62, -(2**62), 2**70]


@pytest.fixture(scope="module")
def model() -> NativeModel:
    return made()


def made(**others: object) -> NativeModel:
    sizes = {"vocab": VOCAB, "width": 32, "heads": 4, "inner": 64, "encoder_layers": 1, "decoder_layers": 1}
    network = Seq2Seq(Seq2SeqConfig(**sizes | {"context": CONTEXT} | others)).eval()  # type: ignore[arg-type]
    initialize(network, seed=1)
    found = NativeModel.of_network(network)
    assert found is not None
    return found


def new_search(
    model: NativeModel,
    tokens: SpecialTokens = TOKENS,
    shortlist: Shortlist | None = None,
    *,
    beam: int = 4,
    max_tokens: int = MAX_TOKENS,
) -> NativeSearch:
    decoder_io = model.decoder_io(max_tokens, shortlist)
    settings = SearchSettings(beam=beam, n_best=beam)
    return NativeSearch(model.native_encoder(16), decoder_io, settings, tokens, source=16, max_tokens=max_tokens)


def finish(search: NativeSearch) -> dict[int, list[int]]:
    results: dict[int, list[int]] = {}
    while search.rows:
        results |= {number: found[0].generated for number, found in search.step(1000, 1000)}
    return results


@pytest.mark.parametrize("token", OUTSIDE)
@pytest.mark.parametrize("field", ["start", "end", "suppressed"])
def test_a_special_token_outside_the_vocabulary_is_an_input_error(model: NativeModel, field: str, token: int) -> None:
    tokens = replace(TOKENS, **{field: token if field == "start" else (token,)})
    with pytest.raises(InputError, match=rf"token {str(token)[:30]} is not in the vocabulary of 60"):
        new_search(model, tokens)


@pytest.mark.parametrize("token", OUTSIDE[:-1])
def test_a_source_token_outside_the_vocabulary_is_an_input_error(model: NativeModel, token: int) -> None:
    search = new_search(model)
    with pytest.raises(InputError, match="outside"):
        search.add([0, 1], [[3, 4], [5, token]], [9, 9])
    assert search.rows == 0
    search.add([0], [[3, 4]], [9])  # the search is still good
    assert sorted(finish(search)) == [0]
    search.close()


@pytest.mark.parametrize("limit", [0, -1, -(2**62)])
def test_a_search_for_no_tokens_is_an_input_error(model: NativeModel, limit: int) -> None:
    search = new_search(model)
    with pytest.raises(InputError, match="outside"):
        search.add([0], [[3, 4]], [limit])
    search.close()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_more_than_the_table_of_positions_is_an_input_error(positions: str) -> None:
    model = made(positions=positions)
    for source, limit in (([3] * 2000, 9), ([3], 2000)):
        search = new_search(model)
        with pytest.raises(InputError, match="outside"):
            search.add([0], [source], [limit])
        search.close()


@pytest.mark.parametrize("token", [VOCAB, 2**31 - 1, -2, -(2**31)])
def test_a_shortlist_that_changes_after_it_was_checked_writes_nowhere(model: NativeModel, token: int) -> None:
    shortlist = Shortlist(np.full((VOCAB, 2), 7, np.int32), np.arange(4, dtype=np.int32))
    search = new_search(model, shortlist=shortlist)
    shortlist.related_VC[:] = token  # as another process changes a mapped file
    shortlist.frequent_F[:2] = token
    search.add([0, 1], [[3, 4], [5]], [9, 9])
    assert set().union(*finish(search).values()) <= {2, 3}
    search.close()


def test_steps_refuse_tokens_outside_the_vocabulary_too(model: NativeModel) -> None:
    backend = NativeBackend(model)
    with pytest.raises(InputError, match="outside"):
        backend.encode([[3, VOCAB]], TOKENS)
    state, ids, _ = backend.encode([[3, 4]], replace(TOKENS, start=-1))
    with pytest.raises(InputError, match="outside"):
        backend.step([state], [ids])


def test_one_bad_request_of_a_batch_ends_the_batch_with_its_error(model: NativeModel) -> None:
    """Those that were taken with it, but had not begun, were waited for for ever."""
    requests = [Request(ids=[3, 4], settings=SearchSettings(), max_tokens=9) for _ in range(600)]
    requests.insert(0, Request(ids=[VOCAB], settings=SearchSettings(), max_tokens=9))
    scheduler = Scheduler(NativeBackend(model), TOKENS)
    with pytest.raises(InputError, match="outside"):
        scheduler.run(requests, workers=1)
    assert len(scheduler.run(requests[1:], workers=1)) == 600


# ---- what a file may ask for ----


def test_many_end_tokens_cost_little(model: NativeModel) -> None:
    """The result with one end token, where the others are suppressed; and no time or memory that grows with both."""
    plain, many = replace(TOKENS, suppressed=(0, *range(20, 50))), replace(TOKENS, end=(2, *range(20, 50)) * 5)
    results = []
    for tokens in (plain, replace(many, suppressed=plain.suppressed)):
        search = new_search(model, tokens, beam=8)
        search.add(range(4), [[3, 4, 5]] * 4, [9] * 4)
        results.append(finish(search))
        search.close()
    assert results[0] == results[1]


# ---- when memory runs out ----

OUT_OF_MEMORY = """
import ctypes, sys
from regard.inference.native import build
library = ctypes.CDLL(sys.argv[1])
build.library = lambda: library
import numpy as np
from tests.inference.test_hostile_searches import TOKENS, VOCAB, finish, made, new_search
from regard.weights.shortlist import Shortlist
model = made()
shortlist = Shortlist(np.full((VOCAB, 2), 7, np.int32), np.arange(9, dtype=np.int32)) if sys.argv[2] == "1" else None
expected = None
for allowed in range(10_000):
    library.allow_allocations(allowed)
    search = None
    try:
        search = new_search(model, shortlist=shortlist, beam=3)
        search.add([0, 1], [[3, 4, 5], [6] * 16], [19, 19])
        search.add([2], [[7]], [19])
        found = finish(search)
        break
    except MemoryError as error:
        assert "not enough memory" in str(error)
    finally:
        library.allow_allocations(-1)
        if search is not None:
            search.close()
sys.stdout.write(f"{allowed} {len(found)} {library.allocations()}")
"""
FAILING = """
static long left = -1, held = 0;
void allow_allocations(long count) { left = count; }
long allocations(void) { return held; }
static int fails(void) { return left == 0 || (left > 0 && !left--); }
void *test_malloc(size_t size) { return fails() ? NULL : (held++, malloc(size)); }
void *test_calloc(size_t count, size_t size) { return fails() ? NULL : (held++, calloc(count, size)); }
void *test_realloc(void *old, size_t size) { return fails() ? NULL : (held += !old, realloc(old, size)); }
void test_free(void *memory) { held -= memory != NULL; free(memory); }
void *test_mmap(void *at, size_t size, int a, int b, int c, off_t d) {
    return fails() ? MAP_FAILED : (held++, mmap(at, size, a, b, c, d));
}
int test_munmap(void *at, size_t size) { return held--, munmap(at, size); }
"""
INCLUDES = "#include <stdlib.h>\n#include <sys/mman.h>\n"
REPLACED = ("malloc", "calloc", "realloc", "free", "mmap", "munmap")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with allocations that can be made to fail."""
    from regard.inference.native import build

    tmp_path = tmp_path_factory.mktemp("failing")
    (tmp_path / "failing.c").write_text(INCLUDES + FAILING)
    declared = [line.split(" {")[0] + ";\n" for line in FAILING.splitlines() if " test_" in line or "*test_" in line]
    replaced = [f"#define {name} test_{name}\n" for name in REPLACED]
    (tmp_path / "replaced.h").write_text("".join([INCLUDES, *declared, *replaced]))
    for source in build.FOLDER.glob("*.[ch]"):
        text = source.read_text()
        (tmp_path / source.name).write_text(f'#include "replaced.h"\n{text}' if source.suffix == ".c" else text)
    library = tmp_path / "library.so"
    sources = map(str, tmp_path.glob("*.c"))
    subprocess.run(["cc", "-O1", "-std=gnu11", "-shared", "-fPIC", "-o", library, *sources, "-lm"], check=True)
    return library


@pytest.mark.parametrize("shortlist", [0, 1])
def test_every_allocation_that_fails_is_a_memory_error_and_nothing_leaks(failing: Path, shortlist: int) -> None:
    child = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY, str(failing), str(shortlist)],
        env=child_environment(OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    attempts, results, leaked = map(int, child.stdout.split())
    assert attempts > 50
    assert results == 3
    assert leaked == 0


# ---- stopping, forking ----


def test_a_long_search_returns_now_and_then(model: NativeModel) -> None:
    """Only between two calls can Python see Ctrl-C, a deadline or a cancelled request."""
    tokens = replace(TOKENS, end=())
    search = new_search(model, tokens, beam=8, max_tokens=4000)
    search.add(range(12), [[3, 4, 5]] * 12, [4000] * 12)
    start = time.process_time()
    assert list(search.step(1000, 1000)) == []
    assert time.process_time() - start < 10.0
    assert search.rows == 12 * 8
    for number in range(12):
        search.cancel(number)
    assert search.rows == 0
    search.close()


INTERRUPTED = """
import sys, regard
model = regard.load("box", threads=2)
settings = {"beam": 8, "min_tokens": 150, "max_tokens": 150, "to": "de"}
expected = model.translate("I am a student.", to="de")
sys.stdout.write("ready\\n")
sys.stdout.flush()
try:
    model.translate([f"This is sentence number {i}, and it takes its time." for i in range(4000)], **settings)
except KeyboardInterrupt:
    raise SystemExit(130 if model.translate("I am a student.", to="de") == expected else 1)
"""


def test_ctrl_c_ends_a_batch_on_two_threads_within_a_step_and_the_model_still_works() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    try:
        output, errors = child.communicate(timeout=20)  # the whole batch takes minutes
    finally:
        child.kill()
    assert child.returncode == 130, output + errors


FORKED = """
import os, sys, regard
model = regard.load("box", threads=2)
texts = ["This is a sentence.", "I am a student and I read a long book about the history of the town."] * 20
expected = model.translate(texts, to="de", beam=8)
model.translate(texts[1], to="de", beam=8)
child = os.fork()
if not child:
    found = [model.translate(text, to="de", beam=8) for text in texts]
    os._exit(0 if found == expected and model.translate(texts, to="de", beam=8) == expected else 1)
sys.stdout.write(str(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_translates_though_its_parent_used_two_threads() -> None:
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
        process_group=0,
    )
    try:
        output, errors = child.communicate(timeout=120)  # a deadlock lasts for ever
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    assert output == "0", errors
