import torch
from torch import Tensor

from regard.decoding.greedy import greedy

END, PAD = 9, 8


class Reciter:
    """A step function that recites: row i says the next token of `lines[i]`, whatever it is told."""

    def __init__(self, *lines: list[int]) -> None:
        self.lines, self.heard = lines, []  # type: tuple[list[int], ...], list[list[list[int]]]

    def __call__(self, ids_BL: Tensor) -> Tensor:
        t = len(self.heard)
        self.heard.append(ids_BL.tolist())
        logits = torch.zeros(len(self.lines), 10)
        for row, line in enumerate(self.lines):
            logits[row, line[min(t, len(line) - 1)]] = 2.0
            logits[row, PAD] = 1.0  # the second choice
        return logits


def test_the_likeliest_token_is_taken_and_fed_back() -> None:
    step = Reciter([3, 1, 4])
    assert greedy(step, torch.tensor([[7, 5]]), max_tokens=3) == [[3, 1, 4]]
    assert step.heard == [[[7, 5]], [[3]], [[1]]]


def test_the_end_token_ends_and_is_not_said() -> None:
    step = Reciter([3, 1, END, 5, 5])
    assert greedy(step, torch.tensor([[7]]), max_tokens=5, end=[END]) == [[3, 1]]
    assert len(step.heard) == 3


def test_rows_end_each_in_its_own_time() -> None:
    step = Reciter([3, END, 5, 5], [1, 2, 4, END], [END, 6, 6, 6])
    assert greedy(step, torch.full((3, 1), 7), max_tokens=9, end=[END]) == [[3], [1, 2, 4], []]
    assert len(step.heard) == 4


def test_any_of_several_end_tokens_ends() -> None:
    assert greedy(Reciter([3, 6], [3, END]), torch.full((2, 1), 7), max_tokens=9, end=[END, 6]) == [[3], [3]]


def test_at_most_max_new_tokens_are_said_and_no_step_is_wasted() -> None:
    step = Reciter([3], [4])
    assert greedy(step, torch.full((2, 1), 7), max_tokens=2, end=[END]) == [[3, 3], [4, 4]]
    assert len(step.heard) == 2


def test_nothing_new_is_no_step() -> None:
    step = Reciter([3])
    assert greedy(step, torch.tensor([[7]]), max_tokens=0) == [[]]
    assert step.heard == []


def test_what_must_never_be_said_is_passed_over() -> None:
    assert greedy(Reciter([3, 1]), torch.tensor([[7]]), max_tokens=2, suppressed=[3]) == [[PAD, 1]]


def test_an_end_token_that_must_never_be_said_does_not_end() -> None:
    assert greedy(Reciter([END, 1]), torch.tensor([[7]]), max_tokens=2, end=[END], suppressed=[END]) == [[PAD, 1]]


def test_the_logits_of_the_step_are_left_alone() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    assert greedy(lambda _: logits, torch.tensor([[0]]), max_tokens=1, suppressed=[1]) == [[2]]
    assert logits.tolist() == [[0.0, 2.0, 1.0]]


def test_of_equals_the_first_is_taken() -> None:
    assert greedy(lambda _: torch.zeros(1, 5), torch.tensor([[0]]), max_tokens=2) == [[0, 0]]


def test_without_an_end_token_it_goes_on_to_the_limit() -> None:
    assert greedy(Reciter([END]), torch.tensor([[7]]), max_tokens=4) == [[END] * 4]
