import pytest
import torch
from hypothesis import HealthCheck, settings

# the same examples each time: a failure here can be run again anywhere
settings.register_profile(
    "regard", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("regard")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Tensors of a few hundred numbers: a second thread costs more than it brings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)
