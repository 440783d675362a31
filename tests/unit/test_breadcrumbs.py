"""Trails: what has to be opened, one after the other, until a node or a scope is on a screen."""

import pytest

from lowtide.atlas.screens.breadcrumbs import MOST_KEYS, breadcrumbs_to_node, breadcrumbs_to_scope
from lowtide.atlas.screens.screen import make_screen
from tests.unit.graph_bytes import TRAINING
from tests.unit.protos import node


def keys_along(atlas, trail):
    """The keys on each screen of a trail, which has to lead from each to the next."""
    keys = [item.key for item in make_screen(atlas).items]
    for key in trail:
        assert key in keys
        path, _, fold = key.partition("|")
        keys = [item.key for item in make_screen(atlas, path=path, fold=fold).items]
    return keys


def test_the_path_to_a_node_at_the_top_is_empty(atlas_of):
    atlas = atlas_of(*TRAINING)
    assert breadcrumbs_to_node(atlas, atlas.find("x")) == []


def test_the_path_to_a_node_opens_each_of_its_scopes(atlas_of):
    atlas = atlas_of(node("a/b/c/d", "Relu"), node("a/x", "Relu"))
    assert breadcrumbs_to_node(atlas, atlas.find("a/b/c/d")) == ["a", "a/b", "a/b/c"]
    assert breadcrumbs_to_scope(atlas, atlas.find_scope("a/b/c")) == ["a", "a/b"]


def test_a_node_with_the_name_of_a_scope_is_inside_it(atlas_of):
    atlas = atlas_of(node("dense", "Relu"), node("dense/kernel", "Const"))
    assert breadcrumbs_to_node(atlas, atlas.find("dense")) == ["dense"]
    assert breadcrumbs_to_scope(atlas, atlas.find_scope("dense")) == []


@pytest.mark.parametrize("name", ["block_3_layer_7_conv", "Const_4031", "block_19_layer_0_conv", "inner/deep_0/n_9"])
def test_every_fold_on_the_way_is_on_the_screen_before(atlas_of, name):
    names = [f"block_{block}_layer_{layer}_conv" for block in range(20) for layer in range(30)]
    names += [f"Const_{number}" for number in range(4032)] + [f"inner/deep_0/n_{number}" for number in range(200)]
    atlas = atlas_of(*(node(each, "Relu") for each in names))
    trail = breadcrumbs_to_node(atlas, atlas.find(name))
    assert any("|" in key for key in trail)
    assert name in keys_along(atlas, trail)


def test_a_trail_has_an_end_however_deep_the_node_lies(atlas_of):
    atlas = atlas_of(node("/".join("abc" * 200), "Relu"))
    assert len(breadcrumbs_to_node(atlas, 0)) == MOST_KEYS
