from lowtide.errors import LowtideError, MissingTensorFlowError


def test_an_error_is_one_line_in_the_order_problem_given_cure():
    error = LowtideError("it broke:\n  twice", given="x=1", cure="mend it")
    assert str(error) == "it broke: twice (given: x=1); mend it"
    assert (error.given, error.cure) == ("x=1", "mend it")


def test_parts_that_are_absent_leave_no_trace():
    assert str(LowtideError("it broke")) == "it broke"
    assert str(LowtideError("it broke", given=0)) == "it broke (given: 0)"


def test_missing_tensorflow_names_the_extra():
    assert 'pip install "lowtide[cpu]"' in str(MissingTensorFlowError())
