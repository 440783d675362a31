"""The cache of indexes: whatever happened to its files, the index is built again, or one line says why it cannot be."""

import json
import resource
import shutil

import pytest

from lowtide.atlas.atlas import Source
from lowtide.atlas.index_cache import find_atlas, open_atlas
from lowtide.atlas.node_details import node_details
from lowtide.atlas.screens.screen_cache import screen_data
from lowtide.errors import LowtideError
from tests.unit.protos import GRAPH


def swap(content: bytes) -> bytes:
    return bytes(byte ^ 255 for byte in content)


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + bytes(8)),
    "one byte": lambda file: file.write_bytes(file.read_bytes()[:-1] + swap(file.read_bytes()[-1:])),
    "other bytes": lambda file: file.write_bytes(swap(file.read_bytes())),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "missing": lambda file: file.unlink(),
    "a dangling link": lambda file: (file.unlink(), file.symlink_to(file.with_name("nowhere"))),
}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(GRAPH)
    return Source(path, 0, len(GRAPH))


def contents(atlas):
    """What the page shows of a graph; it reads nearly all columns."""
    details = [node_details(atlas, node, 0, 0) for node in range(len(atlas))]
    return json.dumps([screen_data(atlas), details], default=str)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_built_again(source, tmp_path, damage):
    intact = open_atlas(source, cache=tmp_path / "cache")
    expected, folder = contents(intact), intact.folder
    names = sorted(file.name for file in folder.iterdir())
    assert len(names) > 30
    shutil.copytree(folder, tmp_path / "intact")
    for name in names:
        before = (folder / name).read_bytes()
        DAMAGES[damage](folder / name)
        if (folder / name).is_file() and (folder / name).read_bytes() == before:
            continue
        assert find_atlas(source, tmp_path / "cache") is None, name
        if name in ("header.json", "op", "texts"):
            assert contents(open_atlas(source, cache=tmp_path / "cache")) == expected
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "intact", folder)


@pytest.mark.parametrize("content", ["[]", "null", "{}", '"text"', "[" * 100_000, '{"schema_version": 3}'])
def test_a_header_of_something_else_is_replaced(source, tmp_path, content):
    folder = open_atlas(source, cache=tmp_path).folder
    (folder / "header.json").write_text(content)
    assert len(open_atlas(source, cache=tmp_path)) > 0


def test_an_index_of_another_version_is_replaced(source, tmp_path):
    folder = open_atlas(source, cache=tmp_path).folder
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | {"schema_version": header["schema_version"] + 1}))
    assert find_atlas(source, tmp_path) is None
    assert len(open_atlas(source, cache=tmp_path)) > 0


def test_a_file_at_the_path_of_the_index_is_replaced(source, tmp_path):
    folder = open_atlas(source, cache=tmp_path).folder
    shutil.rmtree(folder)
    folder.write_text("no folder")
    assert open_atlas(source, cache=tmp_path).folder.is_dir()


def test_a_cache_that_cannot_be_written_is_named(source, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LowtideError, match="LOWTIDE_CACHE"):
        open_atlas(source, cache=tmp_path / "file")


def test_a_full_disk_is_named_and_leaves_nothing_behind(source, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The columns are written before the limit allows the last of them.
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        with pytest.raises(LowtideError, match=r"cannot write an index: .*LOWTIDE_CACHE"):
            open_atlas(source, cache=tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "cache" / "graphs").iterdir()) == []
    assert len(open_atlas(source, cache=tmp_path / "cache")) > 0


def test_a_graph_that_is_gone_is_not_a_problem_of_the_cache(source, tmp_path):
    source.path.unlink()
    with pytest.raises(FileNotFoundError, match=r"graph\.pb"):
        open_atlas(source, cache=tmp_path)
