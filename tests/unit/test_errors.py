from lowtide.errors import LowtideError, MissingTensorFlowError


def test_an_error_is_one_line_in_the_order_problem_given_cure():
    error = LowtideError("it broke:\n  twice", given="x=1", cure="mend it")
    assert str(error) == "it broke: twice (given: x=1); mend it"
    assert (error.given, error.cure) == ("x=1", "mend it")


def test_a_full_stop_before_what_to_do_is_left_out():
    assert str(LowtideError("Unknown format.", cure="repair it")) == "Unknown format; repair it"
    assert str(LowtideError("Unknown format.")) == "Unknown format."


def test_parts_that_are_absent_leave_no_trace():
    assert str(LowtideError("it broke")) == "it broke"
    assert str(LowtideError("it broke", given=0)) == "it broke (given: 0)"


def test_missing_tensorflow_names_the_extra():
    assert 'pip install "lowtide[cpu]"' in str(MissingTensorFlowError())


def test_the_command_line_has_its_own_cure_where_python_differs():
    error = LowtideError("no batch", given="(None, 4)", cure="pass batch_size=", command_line_cure="add --batch-size")
    assert str(error) == "no batch (given: (None, 4)); pass batch_size="
    assert error.command_line() == "no batch (given: (None, 4)); add --batch-size"
    assert LowtideError("no", cure="try").command_line() == "no; try"
