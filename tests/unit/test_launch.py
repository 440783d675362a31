"""Starting a script: the interpreter's options, the environment, and what happens once a module was imported."""

import importlib
import importlib.util
import os
import sys

import pytest

from lowtide.errors import LowtideError
from lowtide.run.launch import Ending, Script, child_environment, interpreter_options, launch
from lowtide.run.startup.sitecustomize import AfterImport


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python -m lowtide run train.py -u", ""),
        ("python /bin/lowtide -O", ""),
        ("python -sP /bin/lowtide", ""),
        ("python -I -E -S -u -m lowtide", "-u"),
        (
            "python -uOO -W error -Wignore -Xdev -X utf8=1 -m lowtide -W no",
            "-u -O -O -W error -W ignore -X dev -X utf8=1",
        ),
        ("python --check-hash-based-pycs always -B -- lowtide -v", "--check-hash-based-pycs always -B"),
        ("python -vmlowtide", "-v"),
        ("python -c -u", ""),
        ("python", ""),
    ],
)
def test_options_of_the_interpreter(command, options):
    assert interpreter_options(command.split()) == options.split()


def test_the_environment_of_the_child(tmp_path):
    given = {"A": "1", "PYTHONPATH": "/mine", "TF_CPU_ALLOCATOR_USE_BFC": "false"}
    added = child_environment(tmp_path, 100 << 20, 3, given)
    assert added["A"] == "1"
    assert added["PYTHONPATH"].endswith(f"startup{os.pathsep}/mine")
    assert added["TF_CPU_ALLOCATOR_USE_BFC"] == "true"
    assert added["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "100"
    assert added["TF_BFC_MEMORY_DUMP"] == f"{tmp_path}/heap"
    assert "TF_CPP_MIN_LOG_LEVEL" not in added
    assert given["PYTHONPATH"] == "/mine"
    with pytest.raises(LowtideError, match="1MiB"):
        child_environment(tmp_path, 1 << 19, 3, {})


@pytest.mark.parametrize(
    ("code", "signal", "kills", "exit_code", "words"),
    [
        (0, None, 0, 0, "the script ended well"),
        (3, None, 0, 3, "the script ended with code 3"),
        (-11, 11, 0, 139, "the process was killed by SIGSEGV"),
        (-9, 9, 0, 137, "the process was killed by SIGKILL"),
        (-9, 9, 1, 137, "the process was killed by SIGKILL: the system's own out-of-memory killer, it seems"),
        (-9, 9, None, 137, "the process was killed by SIGKILL: the system's own out-of-memory killer, most likely"),
        (-63, 63, 0, 191, "the process was killed by signal 63"),
    ],
)
def test_an_ending_in_words(tmp_path, code, signal, kills, exit_code, words):
    ending = Ending(code, signal, 1.0, tmp_path / "log", kills)
    assert (ending.as_exit_code, ending.words) == (exit_code, words)


def test_a_script_is_launched_from_python(tmp_path, capfd):
    path = tmp_path / "train.py"
    path.write_text("import sys; print('out', *sys.argv[1:]); sys.stderr.write('err\\r'); sys.exit(3)")
    ending = launch(Script(str(path), ("a", "-b")), tmp_path, limit_bytes=None, steps=3)
    assert (ending.exit_code, ending.signal) == (3, None)
    assert ending.log.read_bytes() == b"err\r"
    assert tuple(capfd.readouterr()) == ("out a -b\n", "err\r")


# Stands in for TensorFlow, so that recording it cannot but fail.
HOLLOW = "print('imported')"


def test_an_error_of_the_recorder_is_logged_and_has_no_other_effect(tmp_path, capfd):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(HOLLOW)
    path = tmp_path / "train.py"
    path.write_text("import tensorflow\nprint(tensorflow.__name__)")
    ending = launch(Script(str(path)), tmp_path, limit_bytes=None, steps=3, recorder="lowtide.tf.record.script")
    assert ending.exit_code == 0
    assert tuple(capfd.readouterr()) == ("imported\ntensorflow\n", "")
    assert "Traceback" in (tmp_path / "recorder-error.txt").read_text()


def test_heaps_are_kept_up_to_a_number(tmp_path, capfd):
    path = tmp_path / "train.py"
    path.write_text(
        "import os\nfor n in range(100): open(f\"{os.environ['TF_BFC_MEMORY_DUMP']}_bfc.{1000 + n}\", 'w').close()"
    )
    launch(Script(str(path)), tmp_path, limit_bytes=None, steps=3)
    kept = sorted(path.name for path in tmp_path.glob("heap_*"))
    assert kept == [f"heap_bfc.{1000 + n}" for n in range(68, 100)]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported, whose text is given."""
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)

    def write(text: str) -> str:
        (tmp_path / "tried_module.py").write_text(text)
        importlib.invalidate_caches()
        return "tried_module"

    yield write
    sys.meta_path[:] = before
    sys.modules.pop("tried_module", None)


def test_after_an_import_the_module_is_whole(module):
    name = module("value = 3")
    seen = []
    AfterImport(name, lambda: seen.append(sys.modules[name].value)).install()
    assert importlib.util.find_spec(name) is not None
    assert seen == []
    imported = importlib.import_module(name)
    assert seen == [3]
    assert type(imported.__loader__).__name__ == type(imported.__spec__.loader).__name__ == "SourceFileLoader"
    importlib.reload(imported)
    assert seen == [3]


def test_an_import_that_fails_is_followed_by_nothing(module):
    seen = []
    name = module("1 / 0")
    AfterImport(name, lambda: seen.append("called")).install()
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(name)
    assert seen == []
    # The same size and second would be the same file to the import system's cache.
    module("value = 'a longer text'")
    importlib.import_module(name)
    assert seen == ["called"]


def test_two_threads_may_wait_for_the_same_module(module):
    seen = []
    name = module("value = 3")
    AfterImport(name, lambda: seen.append("one")).install()
    AfterImport(name, lambda: seen.append("two")).install()
    importlib.import_module(name)
    assert sorted(seen) == ["one", "two"]
    # lowtide itself waits for keras.models.
    assert name not in [finder.name for finder in sys.meta_path if isinstance(finder, AfterImport)]
