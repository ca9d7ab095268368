"""The loop: it learns, it is a function of its seed, and nothing that interrupts it changes what comes out."""

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_jobs import Epoch, batch, job, weights

from regard.blocks import dropout
from regard.cpu import capabilities
from regard.errors import OutputError, TrainingError
from regard.training import checkpoint
from regard.training.distributed import Workers
from regard.training.loop import train
from regard.training.metrics_log import MetricsLog, read_log


class Killed(BaseException):
    """What a kill -9 would be, if Python could see it."""


def kill_at(update: int) -> Any:
    def report(record: dict[str, Any]) -> None:
        if record["update"] == update and record["kind"] == "train":
            raise Killed

    return report


def test_it_learns(tmp_path: Path) -> None:
    train(job(tmp_path / "run", updates=80, log_every=10))
    losses = [record["loss"] for record in read_log(tmp_path / "run") if record["kind"] == "train"]
    assert losses[-1] < losses[0] - 0.3


def test_every_batch_is_learnt_from_once(tmp_path: Path) -> None:
    made = job(tmp_path / "run", updates=10)
    seen, forward = [], made.loss.forward

    def watch(batch: Any) -> Any:
        seen.append(int(batch.rows[0]))
        return forward(batch)

    made.loss.forward = watch  # type: ignore[method-assign]
    train(made)
    assert seen == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    one, two = job(tmp_path / "1"), job(tmp_path / "2")
    train(one)
    train(two)
    assert torch.equal(weights(one), weights(two))


@pytest.mark.parametrize("moment", [5, 6, 11])
@pytest.mark.parametrize(
    "changes",
    [{}, {"moving_average": 0.9, "accumulate": 2}, {"replicas": 2}, {"optimizer": "muon", "rdrop_alpha": 5.0}],
)
def test_killed_and_resumed_is_straight_through(tmp_path: Path, moment: int, changes: dict[str, Any]) -> None:
    straight = job(tmp_path / "straight", **changes)
    train(straight)
    with pytest.raises(Killed):
        train(job(tmp_path / "run", report=kill_at(moment), **changes))
    resumed = job(tmp_path / "run", **changes)
    progress = train(resumed, resume=True)
    assert progress.update == 12
    assert torch.equal(weights(resumed), weights(straight))
    records = [
        [(r["update"], r["kind"], r.get("loss")) for r in read_log(tmp_path / name)] for name in ("run", "straight")
    ]
    assert records[0] == records[1], "and the log has every line once"


def test_a_large_batch_before_the_kill_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks are cut from rows of several lengths; which, has to do with the mask alone."""
    monkeypatch.setattr(dropout, "MIN_ROW_LENGTH", 1 << 9)
    generator = torch.Generator().manual_seed(1)
    batches = [batch(generator, rows=60 if number == 1 else 6, row=0) for number in range(12)]
    straight, killed, resumed = (
        replace(job(tmp_path / name, validate_every=4, report=report), batches=lambda epoch: batches)
        for name, report in (("1", lambda record: None), ("2", kill_at(5)), ("2", lambda record: None))
    )
    train(straight)
    with pytest.raises(Killed):
        train(killed)
    train(resumed, resume=True)
    assert torch.equal(weights(resumed), weights(straight))


def test_skipped_updates_are_skipped_again(tmp_path: Path) -> None:
    def make(report: Any = lambda record: None, name: str = "run") -> Any:
        made = job(tmp_path / name, on_nonfinite="skip", save_every=1, report=report)
        forward = made.loss.forward

        def spoilt(batch: Any) -> Any:
            loss, likelihood = forward(batch)
            return (loss * math.nan if int(batch.rows[0]) == 2 else loss), likelihood

        made.loss.forward = spoilt
        return made

    straight = make(name="straight")
    train(straight)
    with pytest.raises(Killed):
        train(make(kill_at(6)))
    resumed = make()
    assert train(resumed, resume=True).skipped == 1
    assert torch.equal(weights(resumed), weights(straight))
    assert "NaN" not in (tmp_path / "run" / "log.jsonl").read_text()


def test_a_damaged_checkpoint_is_written_anew_and_is_in_no_mean(tmp_path: Path) -> None:
    made = job(tmp_path / "run", average=3)
    train(made)
    folder = tmp_path / "run" / "state"
    last = folder / "00000012" / checkpoint.WEIGHTS
    sound = last.read_bytes()
    last.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert [path.name for path in checkpoint.chosen(folder, 3, best=False)] == ["00000004", "00000008"]
    train(job(tmp_path / "run", average=3), resume=True)
    assert last.read_bytes() == sound
    assert len(checkpoint.chosen(folder, 3, best=False)) == 3


def test_a_score_belongs_to_its_checkpoint(tmp_path: Path) -> None:
    """A run resumed from a validated checkpoint does not hand its score on to the next."""
    with pytest.raises(Killed):
        train(job(tmp_path / "run", validate_every=7, save_every=2, average=2, report=kill_at(8)))
    train(job(tmp_path / "run", validate_every=7, save_every=2, average=2), resume=True)
    assert [path.name for path in checkpoint.chosen(tmp_path / "run" / "state", 2, best=False)] == [
        "00000007",
        "00000012",
    ]


def test_a_run_that_gave_up_has_given_up(tmp_path: Path) -> None:
    def made() -> Any:
        return replace(job(tmp_path / "run", stop_on="loss", patience=2), validate=lambda: {"score": 1.0})

    assert train(made()).update == 12
    assert train(replace(made(), settings=replace(made().settings, updates=20)), resume=True).update == 12


def test_the_best_one_stays(tmp_path: Path) -> None:
    scores = iter([1.0, 9.0, 3.0, 2.0, 1.0, 0.5])
    made = replace(job(tmp_path / "run", validate_every=2), validate=lambda: {"score": next(scores)})
    train(made)
    assert [path.name for path in checkpoint.chosen(tmp_path / "run" / "state", 1, best=True)] == ["00000004"]


def test_resumed_before_its_first_checkpoint(tmp_path: Path) -> None:
    straight, killed = job(tmp_path / "straight"), job(tmp_path / "run", report=kill_at(2))
    train(straight)
    with pytest.raises(Killed):
        train(killed)
    (tmp_path / "run" / "state" / ".00000004.0a1b2c3d").mkdir(parents=True)
    resumed = job(tmp_path / "run")
    train(resumed, resume=True)
    assert torch.equal(weights(resumed), weights(straight))
    assert not list((tmp_path / "run" / "state").glob(".*"))


def test_a_score_that_is_no_number_is_nobodys_best(tmp_path: Path) -> None:
    scores = iter([math.nan, 2.0, 1.0])
    made = replace(job(tmp_path / "run"), validate=lambda: {"score": next(scores)})
    progress = train(made)
    assert (progress.best, progress.best_update) == (2.0, 8)


def test_a_log_with_unusual_line_breaks(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    log.write({"kind": "valid", "update": 1, "sample": "a\u2028b\x85c"})
    log.close()
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write('{"kind": "ü'.encode()[:-1])
    assert [record["sample"] for record in read_log(tmp_path)] == ["a\u2028b\x85c"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    def send(record: dict[str, Any]) -> None:
        if record["update"] == 6:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    straight = job(tmp_path / "straight")
    train(straight)
    progress = train(job(tmp_path / "run", report=send))
    assert progress.stopped_by == number
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run" / "state")][-1] == "00000006"
    resumed = job(tmp_path / "run")
    train(resumed, resume=True)
    assert torch.equal(weights(resumed), weights(straight))
    assert signal.getsignal(number) == before


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["flipped bit", "cut short", "file gone", "no manifest"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    straight = job(tmp_path / "run")
    train(straight)
    newest = tmp_path / "run" / "state" / "00000012"
    match how:
        case "flipped bit":
            damage(newest / "weights.safetensors")
        case "cut short":
            (newest / "moments.safetensors").write_bytes((newest / "moments.safetensors").read_bytes()[:100])
        case "file gone":
            (newest / "progress.json").unlink()
        case "no manifest":
            (newest / "manifest.json").unlink()
    again = job(tmp_path / "run")
    train(again, resume=True)
    assert torch.equal(weights(again), weights(straight))
    assert "00000012: skipped" in caplog.text


def test_every_checkpoint_is_damaged(tmp_path: Path) -> None:
    train(job(tmp_path / "run"))
    for path in checkpoint.checkpoints(tmp_path / "run" / "state"):
        damage(path / "weights.safetensors")
    with pytest.raises(TrainingError, match="every checkpoint is damaged"):
        train(job(tmp_path / "run"), resume=True)


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = checkpoint.write_tensors

    def write(path: Path, tensors: Any) -> None:
        if (tmp_path / "run" / "state" / "00000004").exists():
            path.write_bytes(b"half of i")
            raise OutputError(f"{path}: cannot be written (No space left on device)")
        real(path, tensors)

    monkeypatch.setattr(checkpoint, "write_tensors", write)
    with pytest.raises(OutputError, match="No space left"):
        train(job(tmp_path / "run"))
    assert [path.name for path in (tmp_path / "run" / "state").iterdir()] == ["00000004"]
    assert checkpoint.newest(tmp_path / "run" / "state") is not None


class Poisoned(Epoch):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self[2].labels_BL[:] = 3


def poison(made: Any) -> Any:
    """A loss that is no number whenever it meets the label 3 in all places."""
    forward = made.loss.forward

    def bad(batch: Any) -> Any:
        loss, likelihood = forward(batch)
        return (loss * math.nan, likelihood) if bool((batch.labels_BL == 3).all()) else (loss, likelihood)

    made.loss.forward = bad
    object.__setattr__(made, "batches", Poisoned)
    return made


def test_a_loss_that_is_no_number_names_its_batch(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"nan in update 3, epoch 0, .* pairs 2, 3, 4"):
        train(poison(job(tmp_path / "run")))


def test_or_is_skipped(tmp_path: Path) -> None:
    made = poison(job(tmp_path / "run", on_nonfinite="skip"))
    train(made)
    skipped = [record["update"] for record in read_log(tmp_path / "run") if record["kind"] == "skipped"]
    assert skipped == [3, 8]
    assert bool(weights(made).isfinite().all())


def test_a_batch_too_big_for_memory_is_split(tmp_path: Path) -> None:
    """The losses are the same, but for rounding: dropout is off, so that the masks do not differ."""
    whole, tight = job(tmp_path / "whole"), job(tmp_path / "tight")
    forward = tight.loss.forward

    def little_memory(batch: Any) -> Any:
        if len(batch.rows) > 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return forward(batch)

    tight.loss.forward = little_memory  # type: ignore[method-assign]
    for made in (whole, tight):
        for part in made.model.modules():
            if hasattr(part, "p"):
                part.p = 0.0
        train(made)
    losses = [
        [record["loss"] for record in read_log(tmp_path / name) if record["kind"] == "train"]
        for name in ("whole", "tight")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert any(record["kind"] == "split" for record in read_log(tmp_path / "tight"))


def test_a_single_pair_that_does_not_fit(tmp_path: Path) -> None:
    made = job(tmp_path / "run")

    def no_memory(batch: Any) -> Any:
        raise RuntimeError("can't allocate memory")

    made.loss.forward = no_memory  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="single pair"):
        train(made)


def test_out_of_memory_with_others_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    class OneOfTwo(Workers):
        """As torchrun makes them, without the other."""

        def __init__(self) -> None:
            super().__init__()
            self.single = False

        wrap = sum = staticmethod(lambda given: given)  # type: ignore[assignment]
        barrier = staticmethod(lambda: None)  # type: ignore[assignment]

    made = replace(job(tmp_path / "run"), workers=OneOfTwo())

    def no_memory(batch: Any) -> Any:
        raise MemoryError

    made.loss.forward = no_memory  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="lower batch_tokens"):
        train(made)


def test_any_other_mistake_is_not_hidden(tmp_path: Path) -> None:
    made = job(tmp_path / "run")

    def wrong(batch: Any) -> Any:
        raise RuntimeError("size mismatch")

    made.loss.forward = wrong  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="size mismatch"):
        train(made)


def test_it_stops_when_nothing_improves(tmp_path: Path) -> None:
    made = job(tmp_path / "run", updates=100, validate_every=2, stop_on="bleu", patience=3)
    scores = iter([1.0, 3.0, 2.0, 2.5, 2.9, 9.0])
    object.__setattr__(made, "validate", lambda: {"score": next(scores)})
    progress = train(made)
    assert (progress.update, progress.best, progress.best_update) == (10, 3.0, 4)


def test_checkpoints_are_kept_for_averaging(tmp_path: Path) -> None:
    made = job(tmp_path / "run", updates=12, validate_every=2, average=3)
    scores = iter([5.0, 1.0, 6.0, 2.0, 3.0, 4.0])
    object.__setattr__(made, "validate", lambda: {"score": next(scores)})
    train(made)
    folder = tmp_path / "run" / "state"
    names = [path.name for path in checkpoint.checkpoints(folder)]
    assert names == ["00000006", "00000008", "00000010", "00000012"], "the last three, and the best"
    paths = checkpoint.chosen(folder, 3, best=False)
    mean = checkpoint.mean_weights(paths)
    single = [checkpoint.read_file(path / "weights.safetensors") for path in paths]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(one[name] for one in single) / 3)
    assert [path.name for path in checkpoint.chosen(folder, 2, best=True)] == ["00000012", "00000006"]


def test_the_moving_average_is_what_is_validated_and_kept(tmp_path: Path) -> None:
    made = job(tmp_path / "run", moving_average=0.5, updates=4)
    seen = []
    object.__setattr__(made, "validate", lambda: {"score": seen.append(weights(made).clone()) or 0.0})
    train(made)
    kept = checkpoint.mean_weights(checkpoint.checkpoints(tmp_path / "run" / "state")[-1:])
    flat = torch.cat([kept[name].flatten() for name, _ in made.model.named_parameters()])
    assert torch.equal(seen[0], flat)
    assert not torch.equal(seen[0], weights(made)), "and training goes on with its own weights"


def test_no_data_at_all(tmp_path: Path) -> None:
    made = job(tmp_path / "run")
    object.__setattr__(made, "batches", lambda epoch: [])
    with pytest.raises(TrainingError, match="no training data"):
        train(made)


def test_the_manifest_has_every_file(tmp_path: Path) -> None:
    train(job(tmp_path / "run", moving_average=0.9))
    path = tmp_path / "run" / "state" / "00000012"
    files = {file.name for file in path.iterdir()} - {"manifest.json"}
    assert set(json.loads((path / "manifest.json").read_text())) == files


def test_bfloat16_follows_float32(tmp_path: Path) -> None:
    if not capabilities.prepare().bfloat16:
        pytest.skip("bfloat16 gives no right results on this CPU")
    curves = []
    for dtype in ("float32", "bfloat16"):
        train(job(tmp_path / dtype, dtype=dtype))
        curves.append([record["loss"] for record in read_log(tmp_path / dtype) if record["kind"] == "train"])
    assert curves[1] == pytest.approx(curves[0], rel=0.02)
    assert curves[1] != curves[0]
