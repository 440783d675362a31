"""Tensor lists hold references to their elements."""

from lowtide.simulator.executor import execute
from tests.unit.graphs import alive, event_names, lasting, make_work

BEGIN = """
x = _Arg() [100]
s = Const() int32[1]
n = Const() int32[]
l = EmptyTensorList(s, n) variant
"""


def events(text):
    work = make_work(BEGIN + text)
    stream = execute(work, threads=1)
    assert alive(stream) == lasting(stream)
    return event_names(work, stream)


def test_a_pushed_tensor_lives_as_long_as_the_list():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        p = TensorListPushBack(l, a) variant
        y = FancyOp(x, ^p) [5]
        k = TensorListLength(p, ^y) int32[]
        """
    )
    assert names == ["+l", "+a", "+y", "-y", "+k", "-l", "-a", "-k"]


def test_a_popped_tensor_moves_to_its_reader():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        p = TensorListPushBack(l, a) variant
        q = TensorListPopBack(p, s) variant [100]
        z = Relu(q:1) [100]
        w = FancyOp(z) [5]
        """
    )
    # Relu has the only reference to the popped tensor and reuses its buffer.
    assert names == ["+l", "+a", "-l", "+w", "-a", "-w"]


def test_popping_an_empty_list_allocates_a_tensor():
    assert events("q = TensorListPopBack(l, s) variant [100]") == ["+l", "+q:1", "-l", "-q:1"]


def test_a_shared_list_is_copied_but_its_elements_are_not():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        p = TensorListPushBack(l, a) variant
        b = FancyOp(x, ^p) [100]
        q = TensorListPushBack(p, b) variant
        k = TensorListLength(p, ^q) int32[]
        m = TensorListLength(q, ^k) int32[]
        """
    )
    assert names == ["+l", "+a", "+b", "+q", "+k", "-l", "-k", "+m", "-q", "-a", "-b", "-m"]


def test_set_and_get():
    names = events(
        """
        r = TensorListReserve(s, n, ^l) variant
        a = FancyOp(x, ^r) [100]
        t = TensorListSetItem(r, n, a) variant
        g = TensorListGetItem(t, n, s) [100]
        w = FancyOp(g) [5]
        """
    )
    # What is read is the element itself; it outlives the list.
    assert names == ["+l", "-l", "+r", "+a", "-r", "+w", "-a", "-w"]


def test_reading_from_a_list_without_elements_allocates_a_tensor():
    assert events("g = TensorListGetItem(l, n, s) [100]") == ["+l", "+g", "-l", "-g"]


def test_a_list_from_a_tensor_has_a_copy_of_each_row():
    names = events(
        """
        a = FancyOp(x, ^l) [3,10]
        f = TensorListFromTensor(a, s) variant
        g = TensorListGetItem(f, n, s) [10]
        w = FancyOp(g) [5]
        """
    )
    # Three rows and the list itself; what is read outlives the list and the tensor.
    assert names == ["+l", "-l", "+a", *["+f"] * 4, "-a", *["-f"] * 3, "+w", "-f", "-w"]


def test_a_stack_is_a_new_tensor():
    names = events("a = FancyOp(x, ^l) [100]\np = TensorListPushBack(l, a) variant\nk = TensorListStack(p, s) [1,100]")
    assert names == ["+l", "+a", "+k", "-l", "-a", "-k"]


def test_a_list_of_lists_releases_all_elements():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        p = TensorListPushBack(l, a) variant
        o = OptionalFromValue(p) variant
        y = FancyOp(x, ^o) [5]
        h = FancyOp(o, ^y) [1]
        """
    )
    assert names == ["+l", "+a", "+o", "+y", "-y", "+h", "-o", "-l", "-a", "-h"]


def test_an_optional_returns_its_components():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        b = FancyOp(a) [50]
        o = OptionalFromValue(a, b) variant
        g = OptionalGetValue(o) [100] [50]
        w = FancyOp(g:1) [5]
        """
    )
    assert names == ["+l", "-l", "+a", "+b", "+o", "-o", "-a", "+w", "-b", "-w"]


def test_resizing_keeps_the_elements():
    names = events(
        """
        a = FancyOp(x, ^l) [100]
        p = TensorListPushBack(l, a) variant
        z = TensorListResize(p, n) variant
        g = TensorListGetItem(z, n, s) [100]
        """
    )
    assert names == ["+l", "+a", "-l", "-a"]


def test_a_sum_of_lists_has_new_elements_only_where_two_lists_have_one():
    names = events(
        """
        a = FancyOp(x, ^l) [3,10]
        f = TensorListFromTensor(a, s) variant
        r = TensorListReserve(s, n, ^f) variant
        b = FancyOp(x, ^r) [10]
        t = TensorListSetItem(r, n, b) variant
        u = AddN(f, t) variant
        k = TensorListLength(u) int32[]
        """
    )
    # Of the first list, one element is added to and gone with it; the other two live on in the sum.
    added = names.index("+u")
    assert names[added : added + 2] == ["+u", "+u"]
    assert names.count("+u") == 2
    assert names[added:].index("+k") > names[added:].index("-f")
    assert names[added : names.index("+k")].count("-f") == 2
    assert names.count("-f") == names.count("+f") == 4


def test_a_loop_reads_each_element_once_and_kept_elements_outlive_the_list():
    names = events(
        """
        a = FancyOp(x, ^l) [2,10]
        f = TensorListFromTensor(a, s) variant
        g = TensorListGetItem(f, n, s) [10]
        p = TensorListPushBack(l, g) variant
        h = TensorListGetItem(f, n, s, ^p) [10]
        q = TensorListPushBack(p, h) variant
        y = FancyOp(x, ^q) [5]
        k = TensorListLength(q, ^y) int32[]
        """
    )
    # Only the list itself goes when it was read; both rows are kept by the other list.
    assert names[: names.index("+y")].count("-f") == 1
    assert names[names.index("+k") :].count("-f") == 2
