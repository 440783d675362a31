"""Layers are found by names alone, as Keras and TensorFlow give them."""

import pytest

from lowtide.tide.layers import find_layer, find_slot_layers, find_variable_layer, traced_node

LAYERS = {"functional", "dense", "dense_1", "gru", "gru_cell", "conv1_1"}


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("StatefulPartitionedCall/functional_1/dense_1/MatMul", "dense"),
        ("functional_1/dense_1_2/BiasAdd", "dense_1"),
        ("gradient_tape/functional_1/dense_1/MatMul/MatMul_1", "dense"),
        ("functional_1/conv1_1_1/BiasAdd", "conv1_1"),
        ("functional_1/conv1_1/BiasAdd", "conv1_1"),
        ("functional_1/gru_1/while/body/_27/functional_1/gru_1/while/gru_cell_1/MatMul", "gru_cell"),
        ("functional_1/Tanh", "functional"),
        ("adam_1/mul", None),
        ("dense", None),
    ],
)
def test_a_node_belongs_to_the_innermost_layer_of_its_path(name, layer):
    assert find_layer(name, LAYERS) == layer


def test_without_layers_the_path_is_used():
    assert find_layer("generator/dense_1/MatMul", ()) == "generator/dense_1"
    assert find_layer("MatMul", ()) is None
    assert find_variable_layer("generator/dense_1/kernel", ()) == "generator/dense_1"


def test_a_weight_belongs_to_the_layer_in_its_path():
    assert find_variable_layer("functional/dense_1/kernel", LAYERS) == "dense_1"
    assert find_variable_layer("loss/total", LAYERS) is None


def test_a_slot_variable_belongs_to_the_layer_of_its_weight():
    weights = ["dense/kernel", "functional/dense_1/kernel", "dense_1/kernel_norm"]
    slots = [
        "adam/dense_kernel_momentum",
        "adam/functional_dense_1_kernel_velocity",
        "sgd_1/dense_1_kernel_norm_momentum",
        "adam/iteration",
    ]
    assert find_slot_layers(slots, weights, LAYERS) == {slots[0]: "dense", slots[1]: "dense_1", slots[2]: "dense_1"}


@pytest.mark.parametrize(
    ("name", "op", "traced"),
    [
        ("gradient_tape/dense/AddN_5/tmp_var_zeros", "ZerosLike", ("gradient_tape/dense/AddN_5", "AddN")),
        ("AddN/tmp_var", "TemporaryVariable", ("AddN", "AddN")),
        ("AddN/tmp_var_accum_0", "AssignAdd", ("AddN", "AddN")),
        ("tmp_variables/MatMul", "MatMul", ("tmp_variables/MatMul", "MatMul")),
    ],
)
def test_parts_of_a_rewritten_sum_have_the_name_of_the_sum(name, op, traced):
    assert traced_node(name, op) == traced
