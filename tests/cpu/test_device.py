"""Devices by name. (Number formats, which depend on the probe: test_capabilities.py.)"""

import pytest
import torch

from regard.cpu.device import resolve_device
from regard.errors import UsageError

CPU = torch.device("cpu")


def test_device_auto_and_cpu() -> None:
    assert resolve_device("cpu") == CPU
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert resolve_device().type == expected


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "cuda:", "cuda:-1", "cuda:01", "cpu:1", "meta", "cuda\n"])
def test_unknown_device(name: str) -> None:
    with pytest.raises(UsageError, match=r"device .* is not known: use auto, cpu, mps, cuda or cuda:N") as caught:
        resolve_device(name)
    assert "\n" not in str(caught.value)


def test_unavailable_device() -> None:
    with pytest.raises(UsageError, match="'cuda:99' is not available"):
        resolve_device("cuda:99")
    if not torch.backends.mps.is_available():
        with pytest.raises(UsageError, match="'mps' is not available"):
            resolve_device("mps")
