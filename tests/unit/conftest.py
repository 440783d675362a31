"""What several unit tests need."""

import pytest

from lowtide.graph.machine import Machine, current_machine, use_machine


@pytest.fixture
def one_thread():
    """A machine with one inter-op thread, so that the order is known."""
    machine = current_machine()
    use_machine(Machine(1, 1, 32 << 10, 256 << 10, 2 << 20))
    yield
    use_machine(machine)
