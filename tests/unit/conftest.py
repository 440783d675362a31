"""What several unit tests need."""

import pytest

from lowtide.program.machine import Machine, current_machine, use_machine


@pytest.fixture
def one_thread():
    """A machine with one inter-op thread, so that the order is known."""
    machine = current_machine()
    use_machine(Machine(1, 1, 32 << 10, 256 << 10, 2 << 20))
    yield
    use_machine(machine)


@pytest.fixture
def atlas_of(tmp_path):
    """Index a GraphDef given as bytes."""
    from lowtide.atlas.atlas import Source
    from lowtide.atlas.index_cache import open_atlas

    def build(*content: bytes, cut: int | None = None, name: str = "graph.pb"):
        path = tmp_path / name
        data = b"".join(content)
        path.write_bytes(data if cut is None else data[:cut])
        return open_atlas(Source(path, 0, len(data)), cache=tmp_path / "cache")

    return build
