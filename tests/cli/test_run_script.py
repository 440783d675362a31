"""lowtide run: a script behaves and prints as it does with Python alone."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

import lowtide
from tests.children import Run
from tests.children import command_environment as environment

ROOT = str(Path(lowtide.__file__).parents[1])
RULE = "─"


def run(*command: str, stdin: str = "", **more: str) -> Run:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, input=stdin, text=True, env=environment(**more), check=False
    )
    # Where an object lies in memory is another matter in each process.
    return Run(done.returncode, *(re.sub(r"0x[0-9a-f]{6,}", "0x", text) for text in (done.stdout, done.stderr)))


def as_a_shell_says(code: int) -> int:
    return code if code >= 0 else 128 - code


def assert_no_difference(*script: str, flags: tuple[str, ...] = (), stdin: str = "", **more: str) -> Run:
    """Run it with Python, and with lowtide; standard error, the exit code and the output before the report agree."""
    plain = run(*flags, *script, stdin=stdin, **more)
    under = run(*flags, "-m", "lowtide", "run", *script, stdin=stdin, **more)
    assert under.err == plain.err
    assert under.code == as_a_shell_says(plain.code)
    assert under.out.startswith(f"{plain.out}\n{RULE}")
    return plain


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script into a folder of its own, where the test runs; the name to call it by is returned."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "train.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    return write


SEES = """
import os, sys
import helper
print(sys.argv, sys.path, __name__, __file__, __spec__ and __spec__.name, __package__, os.getcwd(), helper.__file__)
print(sys.flags, sys.warnoptions, sys.orig_argv[-1], type(__loader__))
print({name: value for name, value in os.environ.items() if not name.startswith("TF_")})
print(sys.stdin.read(), [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)])
print(os.environ["PYTHONPATH"], file=sys.stderr)
if __name__ == "__main__":
    print(open("data.txt").read(), "main" in sys.modules["__main__"].__dict__)
def main(): pass
"""


def test_the_script_sees_what_python_shows(script, tmp_path):
    script(SEES, "deep/er/train.py")
    script("", "deep/er/helper.py")
    script("here", "data.txt")
    plain = assert_no_difference("deep/er/train.py", "--limit", "7", "--", "-m", "two words", stdin="typed")
    assert plain.code == 0
    assert "two words" in plain.out
    assert "typed [False, False, False]" in plain.out


def test_a_module_is_run_as_python_does(script):
    script(SEES, "package/train.py")
    script("", "helper.py")
    script("here", "data.txt")
    plain = assert_no_difference("-m", "package.train", "--epochs", "3")
    assert "package.train package" in plain.out
    assert assert_no_difference("-m", "package.no_such_module").code == 1


def test_folders_and_zip_files_are_run_as_python_does(script, tmp_path):
    script("import helper; print(helper.__file__, __file__)", "app/__main__.py")
    script("", "app/helper.py")
    assert assert_no_difference("app").code == 0
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as file:
        for name in ("__main__.py", "helper.py"):
            file.write(tmp_path / "app" / name, name)
    assert "app.zip/helper.py" in assert_no_difference("app.zip").out
    script("", "empty/notes.txt")
    assert "__main__" in assert_no_difference("empty").err


def test_options_of_the_interpreter_are_the_scripts_too(script):
    script(SEES)
    script("", "helper.py")
    script("here", "data.txt")
    plain = assert_no_difference("train.py", flags=("-O", "-Wignore::UserWarning", "-X", "dev", "-uB"))
    assert "optimize=1" in plain.out
    # What says where lowtide is found stays with lowtide.
    under = run("-P", "-s", "-m", "lowtide", "run", "train.py")
    assert under.out.startswith(f"{run('train.py').out}\n{RULE}")


def test_the_sitecustomize_of_others_still_runs(script, tmp_path):
    script("import sys; sys.custom = sys.path[0]", "site/sitecustomize.py")
    script("import sys, sitecustomize; print(sys.custom, sitecustomize.__file__)")
    both = os.pathsep.join([str(tmp_path / "site"), ROOT])
    assert assert_no_difference("train.py", PYTHONPATH=both).out.startswith(f"{tmp_path}/site")
    script("1/0", "site/sitecustomize.py")
    script("print('runs')")
    plain = run("train.py", PYTHONPATH=both)
    assert "Error in sitecustomize" in plain.err
    # Once for lowtide itself, and once for the script.
    assert run("-m", "lowtide", "run", "train.py", PYTHONPATH=both).err == plain.err * 2


ENDINGS = {
    "raises": "def f(x): return 1 / x\nprint('begun')\nf(0)",
    "chained": """
        try:
            {}["a"]
        except KeyError as error:
            try:
                raise ValueError("two\\nlines") from error
            except ValueError:
                raise RuntimeError("three")
        """,
    "group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "note": "error = ValueError('x'); error.add_note('a note'); raise error",
    "syntax": "print('never')\nx = = 3\n",
    "indentation": "if True:\nprint(1)\n",
    "interrupt": "raise KeyboardInterrupt",
    "exit with text": "import sys; print('out'); sys.exit('text')",
    "exit with code": "import sys; sys.exit(3)",
    "exit with None": "raise SystemExit",
    "exit with 256": "raise SystemExit(256)",
    "exit at once": "import os, sys; print('lost?', flush=True); os._exit(7)",
    "excepthook": """
        import sys
        sys.excepthook = lambda kind, error, trace: print("hook", kind, error, trace.tb_lineno, trace.tb_next)
        raise ValueError("caught by the hook")
        """,
    "thread": """
        import threading
        def work(): raise ValueError("in a thread")
        thread = threading.Thread(target=work, name="worker"); thread.start(); thread.join()
        """,
    "atexit": """
        import atexit, sys
        atexit.register(lambda: print("last words", hasattr(sys, "last_value")))
        atexit.register(lambda: 1 / 0)
        raise ValueError("first")
        """,
    "unraisable": """
        class Thing:
            def __del__(self): raise ValueError("in del")
        thing = Thing()
        del thing
        """,
    "recursion": """
        import sys
        sys.setrecursionlimit(60)
        def deep(n): return n if n == 0 else deep(n - 1)
        print(deep(40))
        deep(100)
        """,
    "stack": """
        import inspect, traceback, warnings, logging
        traceback.print_stack()
        print(len(inspect.stack()))
        warnings.warn("mind", stacklevel=2)
        logging.basicConfig(format="%(pathname)s %(message)s")
        logging.warning("from here")
        """,
    "abort": "import os, signal; os.kill(os.getpid(), signal.SIGABRT)",
    "fault": "import faulthandler, os, signal; faulthandler.enable(); os.kill(os.getpid(), signal.SIGSEGV)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "missing module": "import no_such_module_anywhere",
    "bytes": """
        import sys
        sys.stderr.buffer.write(bytes(range(128)) + b"\\r 1/2\\r 2/2\\b\\b no end")
        sys.stdout.write("no end either")
        """,
    "much": "import sys\nfor line in range(20_000): print('line', line, file=sys.stderr)",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_exit_is_that_of_python_alone(script, name):
    assert_no_difference(script(ENDINGS[name]))


def test_processes_that_the_script_starts_are_its_own(script):
    script("""
        import multiprocessing, os, pickle, subprocess, sys
        class Thing:
            def __init__(self, n): self.n = n
        def square(thing): return Thing(thing.n ** 2)
        if __name__ == "__main__":
            print(pickle.loads(pickle.dumps(Thing(3))).n, pickle.dumps(Thing))
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print([thing.n for thing in pool.map(square, [Thing(2), Thing(3)])], flush=True)
            code = "import os, sys; print(sys.path, os.environ['PYTHONPATH'], sys.meta_path)"
            print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        """)
    plain = assert_no_difference("train.py")
    assert plain.out.count("[4, 9]") == 2
    assert "lowtide/run" not in plain.out


# A package of that name stands in for TensorFlow where only the script's own view of the import matters.
USES = """
import importlib.util, os, sys
os.environ["TF_SOMETHING"] = "set before the import"
print(importlib.util.find_spec("tensorflow").name, "tensorflow" in sys.modules)
import tensorflow, tensorflow as tf
print(tf.seen, type(tf.__loader__), tf.__spec__.loader is tf.__loader__, tf.__file__)
print(importlib.reload(tf) is tensorflow, sys.path)
raise ValueError("after all")
"""


def test_an_import_of_tensorflow_looks_the_same(script):
    script("import os; seen = os.environ['TF_SOMETHING']", "tensorflow/__init__.py")
    plain = assert_no_difference(script(USES))
    assert "set before the import <class '_frozen_importlib_external.SourceFileLoader'> True" in plain.out
    assert "after all" in plain.err


@pytest.mark.parametrize("fault", ["1 / 0", "import no_such_module", "x = = 3", "import sys; sys.exit(5)"])
def test_an_import_of_tensorflow_that_fails_looks_the_same(script, fault):
    script(f"import os\nseen = 3\nif 'TF_SOMETHING' in os.environ:\n    {fault}", "tensorflow/__init__.py")
    script("import os; os.environ['TF_SOMETHING'] = 'set'\nimport tensorflow")
    assert_no_difference("train.py")


def test_everything_after_the_script_is_the_scripts(script):
    script("import sys; print(sys.argv[1:])")
    for words in (("--limit", "7", "--json"), ("--", "-h"), ("--help",)):
        for between in ((), ("--",)):
            done = run("-m", "lowtide", "run", "--limit", "2GiB", *between, "train.py", *words)
            assert done.out.startswith(f"{list(words)}\n\n{RULE}")


def test_the_limit_reaches_the_allocator_in_whole_mib(script):
    names = ("TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB", "TF_CPP_MIN_LOG_LEVEL")
    script(f"import os; print(*[os.environ.get(name) for name in {names}])")
    done = run("-m", "lowtide", "run", "--limit", "2.9MiB", "train.py", TF_CPP_MIN_LOG_LEVEL="2")
    assert done.out.splitlines()[0] == "true 2 2"
    # Without a limit it is what the machine has, and with one of the user's own that one.
    machine = int(run("-m", "lowtide", "run", "train.py").out.split()[1]) << 20
    assert machine >= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") - (1 << 20)
    own = run("-m", "lowtide", "run", "train.py", TF_CPU_BFC_MEM_LIMIT_IN_MB="77")
    assert own.out.splitlines()[0] == "true 77 None"


def test_json_is_all_that_is_printed(script):
    script("import sys; print('to out'); print('to err', file=sys.stderr); sys.exit(3)")
    done = run("-m", "lowtide", "run", "--json", "train.py", PYTHONUNBUFFERED="1")
    assert (done.code, done.err) == (3, "to out\nto err\n")
    data = json.loads(done.out)
    assert data["schema_version"] == 1
    assert data["target"] == "train.py"
    assert (data["run"]["exit_code"], data["run"]["signal"]) == (3, None)
    assert data["run"]["problem"] is not None
    assert data["shortages"] == []


def test_a_budget_without_a_known_peak_does_not_hold(script):
    script("print('no TensorFlow here')")
    assert run("-m", "lowtide", "run", "train.py").code == 0
    assert run("-m", "lowtide", "run", "--budget", "8GiB", "train.py").code == 1


def test_the_log_is_kept(script, tmp_path):
    script("import sys; print('to err', file=sys.stderr)")
    done = run("-m", "lowtide", "run", "--log", "train.log", "train.py")
    assert (tmp_path / "train.log").read_text() == "to err\n"
    assert done.err == "to err\nwrote train.log\n"


def test_output_to_both_channels_keeps_its_order(script, tmp_path):
    script("""
        import os
        for line in range(500):
            os.write(1 + line % 2, f"{line}\\n".encode())
        """)
    done = subprocess.run(
        [sys.executable, "-m", "lowtide", "run", "train.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout.startswith("".join(f"{line}\n" for line in range(500)) + f"\n{RULE}")


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGSEGV, "killed by SIGSEGV after"), (signal.SIGKILL, "killed by SIGKILL")]
)
def test_the_signal_that_ended_a_process_is_reported(script, number, words):
    script(f"import os; os.kill(os.getpid(), {int(number)})")
    done = run("-m", "lowtide", "run", "train.py")
    assert done.code == 128 + number
    assert words in done.out


def test_the_help_is_there_and_light():
    code = "import sys, lowtide.cli\ntry: lowtide.cli.main(['run', '--help'])\nexcept SystemExit: pass\n"
    done = run("-c", code + "print({'numpy', 'rich', 'tensorflow'} & set(sys.modules))")
    assert "--steps" in done.out
    assert done.out.endswith("set()\n")


def test_bad_input_is_one_line(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "taken.log").write_text("mine")
    assert "did you mean train.py?" in refused("run", "trian.py")
    assert f"did you mean {tmp_path}/train.py?" in refused("run", tmp_path / "trains.py")
    assert "-m" in refused("run", "nowhere/at/all.py")
    assert "8 bananas" in refused("run", "--limit", "8 bananas", "train.py")
    assert "1MiB" in refused("run", "--limit", "1000", "train.py")
    assert "--steps" in refused("run", "--steps", "0", "train.py")
    assert "--force" in refused("run", "--log", "taken.log", "train.py")
    assert "SCRIPT" in refused("run")
    assert "--lmit" in refused("run", "--lmit", "3", "train.py")


def start(*arguments: str, **more) -> subprocess.Popen:
    command = [sys.executable, "-m", "lowtide", "run", *arguments]
    return subprocess.Popen(command, env=environment(), text=True, **more)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 60
    while is_alive(process):
        assert time.monotonic() < deadline, "the script outlives lowtide"
        time.sleep(0.05)


WAITS = """
import os, signal, sys, time
def handle(number, frame):
    os.write(1, b"got " + signal.Signals(number).name.encode() + b"\\n")
    os._exit(9)
{register}
os.write(1, b"%d\\n" % os.getpid())
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP"])
def test_signals_are_handed_on(script, name):
    # A shell that starts its jobs in the background has them ignore Ctrl-C, and so do all they start.
    if signal.getsignal(signal.Signals[name]) is signal.SIG_IGN:
        pytest.skip(f"{name} is ignored by the process that started the tests")
    script(WAITS.format(register=f"signal.signal(signal.{name}, handle)"))
    # In a session of its own there is no terminal, whose keys would reach both.
    with start("train.py", stdout=subprocess.PIPE, start_new_session=True) as process:
        inner = int(process.stdout.readline())
        process.send_signal(signal.Signals[name])
        out = process.stdout.read()
    assert out.startswith(f"got {name}\n\n{RULE}")
    assert process.returncode == 9
    assert not is_alive(inner)


def test_a_script_that_is_terminated_is_reported(script):
    script(WAITS.format(register=""))
    with start("train.py", stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.terminate()
        assert "killed by SIGTERM" in process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM


def test_no_orphan_is_left_when_lowtide_is_killed(script):
    script(WAITS.format(register=""))
    with start("train.py", stdout=subprocess.PIPE) as process:
        inner = int(process.stdout.readline())
        process.kill()
    wait_until_gone(inner)


def test_a_daemon_that_the_script_leaves_behind_is_not_waited_for(script):
    script("""
        import os, subprocess, sys
        wait = "import os, time\\nwhile not os.path.exists('stop'): time.sleep(0.05)"
        daemon = subprocess.Popen([sys.executable, "-c", wait], stdout=subprocess.DEVNULL)
        os.write(2, b"%d" % daemon.pid)
        os._exit(0)
        """)
    done = run("-m", "lowtide", "run", "train.py")
    assert is_alive(int(done.err))
    script("", "stop")
    assert done.code == 0
    wait_until_gone(int(done.err))


class Terminal:
    """A terminal in which a program runs, with functions to read and to type."""

    def __init__(self, *command: str) -> None:
        self.process, self.keyboard = pty.fork()
        if self.process == 0:
            os.execve(command[0], command, environment(TERM="xterm"))
        self.seen = b""

    def read_until(self, text: bytes) -> None:
        while text not in self.seen:
            assert self.read(), f"{text!r} does not come, but {self.seen!r}"

    def read(self) -> bytes:
        try:
            data = os.read(self.keyboard, 4096)
        except OSError:
            return b""
        self.seen += data
        return data

    def type(self, text: bytes) -> None:
        os.write(self.keyboard, text)

    def end(self) -> int:
        while self.read():
            pass
        os.close(self.keyboard)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def terminal(script):
    def open_it(*arguments: str) -> Terminal:
        return Terminal(sys.executable, "-m", "lowtide", "run", *arguments)

    return open_it


def test_a_terminal_stays_one(script, terminal):
    script("""
        import os, sys
        print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)])
        print(os.get_terminal_size(1) == os.get_terminal_size(2) == os.get_terminal_size(0))
        sys.stderr.write("who? "); sys.stderr.flush()
        name = sys.stdin.readline().strip()
        sys.stderr.write("\\r 1/2"); sys.stderr.flush()
        sys.stdout.write(f"hello {name}"); sys.stdout.flush()
        sys.stderr.write("!\\n")
        answer = input("what now? ")
        print("done with", answer)
        """)
    screen = terminal("train.py")
    screen.read_until(b"who? ")
    screen.type(b"Ada\n")
    screen.read_until(b"what now? ")
    screen.type(b"nothing\n")
    assert screen.end() == 0
    assert (
        b"[True, True, True]\r\nTrue\r\nwho? Ada\r\n\r 1/2hello Ada!\r\nwhat now? nothing\r\ndone with nothing\r\n"
        in (screen.seen)
    )
    assert b"the script ended well" in screen.seen


def test_control_c_reaches_the_script_once(script, terminal):
    script("""
        import os, signal, time
        count = 0
        def handle(number, frame):
            global count
            count += 1
        signal.signal(signal.SIGINT, handle)
        os.write(1, b"ready\\n")
        while not count:
            time.sleep(0.01)
        time.sleep(0.5)
        print("times", count, flush=True)
        raise KeyboardInterrupt
        """)
    screen = terminal("train.py")
    screen.read_until(b"ready")
    screen.type(b"\x03")
    assert screen.end() == 128 + signal.SIGINT
    assert b"times 1" in screen.seen
    assert b"KeyboardInterrupt" in screen.seen
    assert b"killed by SIGINT" in screen.seen


PARTIAL = """
import sys
import keras, numpy as np, tensorflow as tf
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)])
model.compile("sgd", "mse")
x, y = np.zeros((12 * 1024 + 100, 64), "float32"), np.zeros((12 * 1024 + 100, 10), "float32")
if sys.argv[1] == "fit":
    model.fit(x, y, batch_size=1024, verbose=0)
else:
    weights = tf.Variable(tf.zeros((64, 512)))
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(x @ weights))
        weights.assign_sub(tape.gradient(loss, weights))
    for start in range(0, len(x), 1024):
        step(tf.constant(x[start:start + 1024]))
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", ["fit", "loop"])
def test_the_last_batch_of_an_epoch_is_not_the_step(script, how):
    done = run("-m", "lowtide", "run", "--json", script(PARTIAL), how)
    report = json.loads(done.out)
    assert report["batch_size"] == 1024
    assert any("2 with the shapes of this one, 1 with other shapes" in note for note in report["notes"])
    assert report["peak_bytes"] > 1024 * 512 * 4
