"""The files below a folder that can be looked at."""

from lowtide.sources.graphs.find_graphs import find_files


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def names(root):
    return [str(path.relative_to(root)) for path in find_files(root)]


def test_readable_files_are_found_in_natural_order(tmp_path):
    expected = [
        "export/saved_model.pb",
        "graph.pbtxt",
        "model.ckpt-7.meta",
        "model.keras",
        "run_2/events.out.tfevents.1.host",
        "run_10/events.out.tfevents.1.host",
        "step.plan",
        "step.tide",
        "z.pb",
    ]
    write(tmp_path, *expected)
    others = ["export/fingerprint.pb", "export/variables/variables.index", "notes.txt", "run_2/host.xplane.pb"]
    write(tmp_path, *others, ".git/a.pb", ".hidden.pb", "__pycache__/a.pb", "cache/CACHEDIR.TAG", "cache/a.pb")
    assert names(tmp_path) == expected


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(tmp_path, "inside/a.pb", "outside/b.pb")
    (inside / "link.pb").symlink_to(outside / "b.pb")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    (inside / "same.pb").symlink_to(inside / "a.pb")
    (inside / "broken.pb").symlink_to(inside / "nothing.pb")
    assert names(inside) == ["a.pb", "same.pb"]


def test_the_named_cache_folder_is_inspected(tmp_path):
    write(tmp_path, "CACHEDIR.TAG", "a.pb")
    assert names(tmp_path) == ["a.pb"]


def test_names_with_strange_numbers_have_an_order(tmp_path):
    write(tmp_path, "a².pb", "a2.pb", "a" + "9" * 60 + ".pb", "2.pb", "b.pb", "٣.pb")
    assert len(names(tmp_path)) == 6
