"""Matching of layers, nodes and tensors, by names as Keras and TensorFlow give them."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.tide.matching import match_layers, match_nodes, match_tensors, same_node
from lowtide.tide.owner import Owner


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ("dense dense_1 relu", "dense dense_1 relu", "dense=dense dense_1=dense_1 relu=relu"),
        # Keras counts on in a process that has built other layers before.
        ("dense dense_1", "dense_2 dense_3", "dense=dense_2 dense_1=dense_3"),
        ("dense dense_1", "dense_1 dense_2", "dense=dense_1 dense_1=dense_2"),
        ("dense_9 dense_10", "dense dense_1", "dense_9=dense dense_10=dense_1"),
        ("re_lu re_lu_4", "re_lu_3 re_lu_7", "re_lu=re_lu_3 re_lu_4=re_lu_7"),
        # A layer at the end is new, or gone.
        ("dense dense_1", "dense dense_1 dense_2", "dense=dense dense_1=dense_1 =dense_2"),
        ("dense dense_1", "dense_4 dense_5 dense_6", "dense=dense_4 dense_1=dense_5 =dense_6"),
        ("dense dense_1 dense_2", "dense dense_1", "dense=dense dense_1=dense_1 dense_2="),
        # Names of one's own stay what they are.
        ("block_1 block_2 block_4", "block_2 block_4", "block_1= block_2=block_2 block_4=block_4"),
        ("stem head", "stem tail", "stem=stem head= =tail"),
        ("conv2d dense", "conv2d_1 dense", "conv2d=conv2d_1 dense=dense"),
        # A single remaining layer of a family on each side matches; several do not.
        ("a a_1 a_2", "a a_1 a_7", "a=a a_1=a_1 a_2=a_7"),
        ("a a_1 a_2", "a a_7", "a=a a_1= a_2= =a_7"),
        # Without a list of layers they are paths.
        (
            "tower/dense tower_1/dense",
            "tower_2/dense tower_3/dense",
            "tower/dense=tower_2/dense tower_1/dense=tower_3/dense",
        ),
        ("", "dense", "=dense"),
        ("dense", "", "dense="),
    ],
)
def test_layers_are_matched_by_name_and_by_their_order_where_only_numbers_differ(before, after, pairs):
    expected = {tuple(name or None for name in pair.split("=")) for pair in pairs.split()}
    found = match_layers(before.split(), after.split())
    assert set(found) == expected
    assert len(found) == len(expected)


# The machine may be busy with other things.
steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
names = st.lists(st.from_regex(r"(dense|conv|a/b)(_[0-9]{1,2})?", fullmatch=True), unique=True, max_size=12)


@steady
@given(names, names)
def test_every_layer_is_in_exactly_one_pair(before, after):
    pairs = match_layers(before, after)
    assert sorted(name for name, _ in pairs if name is not None) == sorted(before)
    assert sorted(name for _, name in pairs if name is not None) == sorted(after)
    assert (None, None) not in pairs


@steady
@given(names)
def test_a_program_matches_itself_whatever_the_order(layers):
    assert all(old == new for old, new in match_layers(layers, layers[::-1]))


def tensor(name: str, op: str, shape: tuple[int, ...], kind: str = "activations") -> Owner:
    size = 4
    for dimension in shape:
        size *= dimension
    return Owner(name, op, "dense", kind, "float32", shape, size + 256, size, None)


def test_variables_and_slots_are_found_by_their_names_without_numbers():
    before = [
        tensor("dense/kernel", "Variable", (8, 4), "weights"),
        tensor("adam/dense_kernel_momentum", "Variable", (8, 4), "optimizer"),
        tensor("adam/dense_kernel_velocity", "Variable", (8, 4), "optimizer"),
    ]
    after = [
        tensor("adam_1/dense_2_kernel_velocity", "Variable", (8, 6), "optimizer"),
        tensor("adam_1/dense_2_kernel_momentum", "Variable", (8, 6), "optimizer"),
        tensor("dense_2/kernel", "Variable", (8, 6), "weights"),
    ]
    assert match_tensors(before, after) == [(before[0], after[2]), (before[1], after[1]), (before[2], after[0])]


def test_unchanged_tensors_are_paired_before_changed_ones():
    before = [tensor("f/Mul_3:0", "Mul", (64, 10)), tensor("f/Mul_9:0", "Mul", (4,))]
    after = [tensor("f/Mul_5:0", "Mul", (64, 20)), tensor("f/Mul_3:0", "Mul", (4,))]
    assert set(match_tensors(before, after)) == {(before[0], after[0]), (before[1], after[1])}


def test_another_kernel_for_the_same_op_is_the_same_tensor():
    before, after = tensor("f/conv/Relu:0", "Relu", (8, 8)), tensor("f/conv/Relu:0", "_FusedConv2D", (8, 9))
    assert match_tensors([before], [after]) == [(before, after)]


def test_the_same_bytes_under_another_name_are_no_change():
    before, after = tensor("f/conv/Relu:0", "_FusedConv2D", (8, 8)), tensor("f/conv/out:0", "Conv2D", (8, 8))
    assert match_tensors([before], [after]) == [(before, after)]


def test_a_weight_is_never_paired_with_an_activation():
    before, after = tensor("dense/kernel", "Variable", (8,), "weights"), tensor("dense/kernel", "Variable", (8,))
    assert match_tensors([before], [after]) == [(before, None), (None, after)]


tensors = st.lists(
    st.builds(
        tensor,
        st.sampled_from(["f/dense_1/Relu:0", "f/dense/Relu:0", "f/Mul_3:0", "f/Mul:0"]),
        st.sampled_from(["Relu", "Mul"]),
        st.lists(st.integers(0, 5), max_size=2).map(tuple),
        st.sampled_from(["weights", "activations"]),
    ),
    max_size=8,
)


@steady
@given(tensors, tensors)
def test_every_tensor_is_in_exactly_one_pair(before, after):
    pairs = match_tensors(before, after)
    assert sorted((old for old, _ in pairs if old), key=repr) == sorted(before, key=repr)
    assert sorted((new for _, new in pairs if new), key=repr) == sorted(after, key=repr)


def test_nodes_are_matched_in_the_order_of_their_numbers():
    before = ["net/dense_2/MatMul", "net/dense_10/MatMul", "net/dense/MatMul", "loss/Mean"]
    after = ["net_1/dense_9/MatMul", "net_1/dense_11/MatMul", "net_1/dense_10/MatMul", "loss/Sum"]
    assert match_nodes(before, after) == {
        "net_1/dense_9/MatMul": "net/dense/MatMul",
        "net_1/dense_10/MatMul": "net/dense_2/MatMul",
        "net_1/dense_11/MatMul": "net/dense_10/MatMul",
    }


def test_if_nodes_are_missing_only_equal_names_are_matched():
    assert match_nodes(["a/Mul", "a/Mul_2", "b/Sum"], ["a/Mul", "a/Mul_1", "a/Mul_2", "b_1/Sum"]) == {
        "a/Mul": "a/Mul",
        "a/Mul_2": "a/Mul_2",
        "b_1/Sum": "b/Sum",
    }


def test_nodes_are_equal_except_for_their_numbers():
    assert same_node("call/adam/Square_156", "call/adam_1/Square_3")
    assert not same_node("call/adam/Square", "call/adam/Sqrt")
