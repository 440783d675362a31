"""lowtide train: how attempts end, what is changed, and when a run ends, with real processes.

The scripts do in plain Python what the part of lowtide in the script's process does: they append events, write
checkpoints, and die in all the ways that training does.
"""

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lowtide.run.train.history import AttemptEnded, AttemptStarted, Decided, History, RunEnded
from lowtide.run.train.run_directory import RunDirectory
from tests.children import Run, heed_interrupts
from tests.children import command_environment as environment
from tests.unit.test_heap import dump_bytes

# What the part of lowtide in the script's process does, without TensorFlow.
HEAD = """
import ctypes, os, signal, sys, time
from pathlib import Path
from lowtide.run.train import checkpoint_files as files
from lowtide.run.train.history import *
from lowtide.run.train.settings import read_settings

settings = read_settings()
run, attempt = Path(settings.run), settings.attempt
history, checkpoints = History(run), run / "checkpoints"

def say(kind, **fields):
    history.append(kind(attempt=attempt, **fields))

def checkpoint(done):
    files.write_checkpoint(checkpoints, files.checkpoint_name(done), lambda folder: (folder / "x").write_text("x"))
    files.prune(checkpoints)
    say(CheckpointWritten, name=files.checkpoint_name(done), reason="every step", epoch=0, step=done, steps_done=done,
        bytes=1, seconds=0.0)

def train(total):
    path, _ = files.newest_checkpoint(checkpoints)
    done = 0 if path is None else files.steps_of(path)
    say(TrainingStarted, training=0, epoch=0, step=done, epochs=1, steps=total, steps_done=done,
        checkpoint=path and path.name)
    for step in range(done, total):
        print("step", step, flush=True)
        yield step
    say(EpochEnded, training=0, epoch=0, epochs=1, steps_done=total, logs={"loss": 0.25}, step_seconds=0.0381,
        device_bytes=5 << 30)
    say(TrainingEnded, training=0, steps_done=total)

def fail(error, message, done, is_memory=False):
    say(Failed, error=error, message=message, is_memory=is_memory, steps_done=done)
    sys.exit(f"{error}: {message}")

def dump(size=None):
    Path(os.environ["TF_BFC_MEMORY_DUMP"] + "_bfc.1").write_bytes(Path("dump").read_bytes()[:size])

ALLOCATOR = (
    "2026-11-18 10:00:00.000000: W tensorflow/core/framework/op_kernel.cc:1842] OP_REQUIRES failed at x.cc:1 : "
    "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,112,112,64] and type float on "
    "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu_bfc"
)
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lowtide", "train", *arguments]


def train(*arguments: str, **more: str) -> Run:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(**more), check=False, timeout=120
    )
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script that starts with HEAD into the folder where the test runs."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, head: str = HEAD) -> str:
        (tmp_path / "train.py").write_text(head + textwrap.dedent(text))
        return "train.py"

    return write


def events(kind, folder: str = "a"):
    return [event for event in History(Path(folder)).read() if isinstance(event, kind)]


def causes(folder: str = "a") -> list[str]:
    return [event.cause for event in events(AttemptEnded, folder)]


def test_a_script_that_ends_well_is_run_once(script):
    script("""
        import json
        print(sys.argv[1:], os.environ["PYTHONHASHSEED"], settings.budget_bytes, settings.checkpoint_seconds)
        print(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"], settings.allow, settings.checkpoint_steps, file=sys.stderr)
        for step in train(2):
            checkpoint(step + 1)
        """)
    options = ("--budget", "8GiB", "--allow", "bfloat16", "--checkpoint-minutes", "0.5", "--checkpoint-steps", "7")
    done = train("--out", "a", *options, "train.py", "--epochs", "3", "--budget", "1")
    assert done.code == 0
    assert done.out.splitlines() == [f"['--epochs', '3', '--budget', '1'] 0 {8 << 30} 30.0", "step 0", "step 1"]
    assert done.err.splitlines() == [
        "lowtide  attempt 1: train.py --epochs 3 --budget 1, within 8 GiB",
        "8192 ('bfloat16',) 7",
        "lowtide  the training begins: 1 epoch of 2 steps",
        "lowtide  epoch 1/1  loss 0.25  38.1 ms/step  5 GiB of 8 GiB  checkpoint 0.0 s ago",
        "lowtide  finished after 2 steps in 1 attempt",
    ]
    log = (Path("a") / "log.txt").read_text().splitlines()
    assert [line[21:] for line in log] == [line[9:] for line in done.err.splitlines() if line.startswith("lowtide")]
    assert (Path("a") / "attempts" / "1" / "log").read_text() == "8192 ('bfloat16',) 7\n"


def test_a_finished_run_is_not_run_again(script):
    script("for step in train(1): pass")
    assert train("--out", "a", "train.py").code == 0
    for again in (("--out", "a", "train.py"), ("--resume", "a")):
        done = train(*again)
        assert (done.code, done.out) == (0, "")
        assert done.err.splitlines()[-1] == "lowtide  the run in a is finished"
    assert len(events(AttemptStarted)) == 1
    script("for step in train(2): pass")
    assert "lowtide  finished after 2 steps in 2 attempts" in train("--resume", "a").err


ENDS = {
    "host memory": ("sys.stderr.write('MemoryError\\n'); sys.exit(1)", "host memory"),
    "bad_alloc": ("sys.stderr.write('std::bad_alloc\\n'); os.kill(os.getpid(), signal.SIGABRT)", "host memory"),
    "MemoryError": ("fail('_ArrayMemoryError', 'Unable to allocate 1 GiB', 1, True)", "host memory"),
    "allocator": ("print(ALLOCATOR, file=sys.stderr); fail('ResourceExhaustedError', 'OOM', 1, True)", "device memory"),
    "crash": ("print(ALLOCATOR, file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGSEGV)", "device memory"),
    "damaged dump": ("dump(20); os.kill(os.getpid(), signal.SIGSEGV)", "device memory"),
    "dump": ("dump(); os.kill(os.getpid(), signal.SIGSEGV)", "device memory"),
    "no plan": ("fail('NoPlanError', 'no plan reaches the budget', 0, True)", "device memory"),
    "restart": ("checkpoint(1); sys.exit(75)", "restart"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "killed"),
    "crash of another kind": ("os.kill(os.getpid(), signal.SIGSEGV)", "failure"),
    "survived": ("print(ALLOCATOR, file=sys.stderr); fail('ValueError', 'bad', 1)", "failure"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_is_started_again_whatever_ended_it(script, name):
    action, cause = ENDS[name]
    script(f"for step in train(2):\n    if attempt == 1 and step == 1: {action}\n    checkpoint(step + 1)")
    Path("dump").write_bytes(dump_bytes())
    done = train("--out", "a", "--json", "train.py")
    assert done.code == 0, done.err
    assert causes() == [cause, "finished"]
    data = json.loads(done.out)
    assert (data["status"], data["exit_code"], data["steps_done"]) == ("finished", 0, 2)
    first, second = data["attempts"]
    assert (first["cause"], second["attempt"], second["cause"]) == (cause, 2, "finished")
    assert [bool(each["reason"]) for each in second["decisions"]] == [True]
    assert bool(first["explanation"]) == (
        cause in ("host memory", "device memory") and name not in ("no plan", "damaged dump")
    )


def test_steps_are_planned_when_the_devices_memory_runs_out(script):
    script("""
        print(settings.budget_bytes, settings.splits, flush=True)
        for step in train(2):
            if not settings.splits:
                fail("NoPlanError" if attempt == 3 else "ResourceExhaustedError", "OOM", step, True)
            checkpoint(step + 1)
        """)
    done = train("--out", "a", "train.py", TF_CPU_BFC_MEM_LIMIT_IN_MB="1000")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if "step" not in line] == [
        "None False",
        f"{1000 << 20} False",
        f"{int((1000 << 20) * 0.93)} False",
        f"{1000 << 20} True",
    ]
    assert "lowtide  steps are planned for 1000 MiB: the device's memory ran out, and steps were not" in done.err
    assert "lowtide  attempt 2: train.py; changed: steps planned for 1000 MiB\n" in done.err
    assert len(events(Decided)) == 3


def test_a_run_that_never_fits_ends(script):
    script("""
        for step in train(2):
            print(ALLOCATOR, file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        """)
    done = train("--out", "a", "--budget", "100MiB", "train.py")
    assert done.code == 1
    assert causes() == ["device memory"] * 7
    assert "smaller plans ran out too, and nothing is left to change" in done.err
    # The whole explanation, once.
    assert done.err.count("what to do") == 1
    assert events(RunEnded)[-1].status == "failed"
    # What was changed stays changed.
    again = train("--resume", "a")
    assert again.code == 1
    assert causes() == ["device memory"] * 8
    assert "batches split where that changes statistics" in events(AttemptStarted)[-1].changes


def test_the_data_gets_less_when_the_hosts_memory_runs_out(script):
    script("""
        print(settings.data_share, flush=True)
        raise MemoryError
        """)
    done = train("--out", "a", "train.py")
    assert (done.code, done.out.split()) == (1, ["1.0", "0.5", "0.25", "0.125"])
    assert done.err.count("Traceback") == 4


@pytest.fixture
def group():
    """A control group with a limit of 200 MiB, which a process joins by writing into its list."""
    membership = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in membership if line.split(":")[1] == "memory"), None)
    if own is None:
        pytest.skip("no control group of version 1 for memory")
    path = Path("/sys/fs/cgroup/memory") / own.lstrip("/") / f"lowtide-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(200 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    yield path
    path.rmdir()


def test_what_the_kernel_kills_for_its_memory_gets_less_data(script, group):
    script("""
        assert os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "200"
        for step in train(1):
            if attempt < 3:
                held = [b"x" * (1 << 20) for _ in range(400)]
        """)
    join = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs; exec "$@"', str(group)]
    done = subprocess.run(
        [*join, *command("--out", "a", "train.py")], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert causes() == ["host memory", "host memory", "finished"]
    assert "the limit of the container or job, 200 MiB, was reached, and the process was killed" in done.stderr


def test_another_failure_is_tried_once_more_and_passed_on(script):
    script("for step in train(3):\n    if step == 2: raise ValueError('bad data')\n    checkpoint(step + 1)")
    done = train("--out", "a", "train.py")
    assert done.code == 1
    assert causes() == ["failure"] * 2
    assert done.out.split() == "step 0 step 1 step 2 step 2".split()
    assert done.err.count("ValueError: bad data") == 2
    assert "the same failure occurred twice at the same step" in done.err
    script("sys.exit(9)")
    assert train("--out", "b", "train.py").code == 9
    assert causes("b") == ["failure"]
    script("os.kill(os.getpid(), signal.SIGSEGV)")
    assert train("--out", "c", "train.py").code == 139


def test_a_failure_that_moves_on_is_tried_again(script):
    script("""
        for step in train(4):
            checkpoint(step + 1)
            fail("ValueError", "flaky", step + 1)
        """)
    assert train("--out", "a", "train.py").code == 0
    assert causes() == ["failure"] * 4 + ["finished"]


def test_a_process_that_is_killed_each_time_ends_the_run(script):
    script("for step in train(4):\n    os.kill(os.getpid(), signal.SIGKILL)")
    done = train("--out", "a", "train.py")
    assert done.code == 137
    assert causes() == ["killed"] * 4


def test_a_restart_without_progress_is_not_repeated(script):
    script("for step in train(4):\n    sys.exit(75)")
    done = train("--out", "a", "train.py")
    assert done.code == 1
    assert causes() == ["restart"] * 4


def wait_for(path: Path, text: str) -> None:
    end = time.monotonic() + 60
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end, f"{path} has no {text}"
        time.sleep(0.02)


WAITS = """
def stop(number, frame):
    checkpoint(1)
    sys.exit(128 + number)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
for step in train(2):
    if step == 0:
        Path("began").write_text(f"{os.getpid()} .")
        time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_says_how_to_continue(script, number):
    script(WAITS)
    process = subprocess.Popen(
        command("--out", "a", "train.py"), stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True,
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    wait_for(Path("began"), ".")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert causes() == ["interrupted"]
    assert err.splitlines()[-1] == "lowtide  stopped after 1 step; to continue: lowtide train --resume a"
    done = train("--resume", "a")
    assert (done.code, done.out) == (0, "step 1\n")
    assert "lowtide  restored the checkpoint of step 1: continues in epoch 1, after step 1 of it" in done.err
    assert causes() == ["interrupted", "finished"]


def test_control_c_in_a_terminal_reaches_the_script_once(script):
    script(WAITS.replace("def stop(number, frame):", "def stop(number, frame):\n    print('stopping', flush=True)"))
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, command("--out", "a", "train.py"), environment(TERM="xterm"))
    wait_for(Path("began"), ".")
    os.write(terminal, b"\x03")
    shown = b""
    # Reading fails once the last writer is gone.
    with suppress(OSError):
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert shown.count(b"stopping") == 1
    assert causes() == ["interrupted"]


def test_a_signal_between_two_attempts_stops_the_run(script):
    script("for step in train(2): raise ValueError")
    code = """
        import os, signal
        from pathlib import Path
        from lowtide.run.launch import Script
        from lowtide.run.train.history import AttemptEnded
        from lowtide.run.train.run_directory import RunDirectory, new_record
        from lowtide.run.train.supervisor import train
        directory = RunDirectory(Path("a"))
        directory.create(new_record(Script("train.py")))
        def stop(event):
            if isinstance(event, AttemptEnded):
                os.kill(os.getpid(), signal.SIGTERM)
        raise SystemExit(train(directory, directory.load(), stop))
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], stderr=subprocess.DEVNULL, env=environment(), check=False
    )
    assert done.returncode == 143
    assert [(event.status, event.exit_code) for event in events(RunEnded)] == [("stopped", 143)]
    assert causes() == ["failure"]


def test_on_a_terminal_a_progress_bar_is_cleared(script):
    script("""
        for step in train(1):
            sys.stdout.write("1/1 loss: 0.25")
            sys.stdout.flush()
            say(Note, text="a note")
            time.sleep(1)
        """)
    terminal, end = pty.openpty()
    process = subprocess.Popen(command("--out", "a", "train.py"), stdout=end, stderr=end, env=environment(TERM="xterm"))
    os.close(end)
    shown = b""
    # Reading fails once the last writer is gone.
    with suppress(OSError):
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    assert process.wait() == 0
    assert b"\r\x1b[K\x1b[1mlowtide\x1b[0m  a note\r\n" in shown


def test_a_run_is_continued_from_another_folder(script, tmp_path, monkeypatch):
    script("print(os.getcwd(), sys.argv[1:])\nfor step in train(2):\n    if attempt == 1: os.kill(os.getpid(), 15)")
    assert train("--out", "a", "train.py", "x").code == 143
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    done = train("--resume", "../a", "--checkpoint-steps", "3")
    assert (done.code, done.out.splitlines()[0]) == (0, f"{tmp_path} ['x']")
    assert RunDirectory(tmp_path / "a").load().checkpoint_steps == 3


def test_another_budget_takes_the_place_of_a_lowered_one(script):
    script("""
        print(settings.budget_bytes >> 20, settings.splits, flush=True)
        for step in train(2):
            if attempt < 6: fail("ResourceExhaustedError", "OOM", step, True)
            os.kill(os.getpid(), signal.SIGTERM)
        """)
    done = train("--out", "a", "--budget", "1000MiB", "train.py")
    assert (done.code, done.out.splitlines()[-2]) == (143, "930 True")
    assert train("--resume", "a").out.splitlines()[0] == "930 True"
    assert train("--resume", "a", "--budget", "1500MiB").out.splitlines()[0] == "1500 True"


def test_a_run_in_use_is_refused_until_its_script_has_ended(script):
    script("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for step in train(1):
            if attempt == 1:
                Path("began").write_text(f"{os.getpid()} .")
                time.sleep(60)
        """)
    process = subprocess.Popen(
        command("--out", "a", "train.py"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    wait_for(Path("began"), ".")
    child = int(Path("began").read_text().split()[0])
    try:
        for again in (("--out", "a", "train.py"), ("--resume", "a")):
            done = train(*again)
            assert done.code == 2
            assert f"another process is using this run (given: a, process {process.pid})" in done.err
        process.kill()
        process.wait()
        # The script lives on, and may still write a checkpoint.
        assert train("--resume", "a").code == 2
    finally:
        process.kill()
        process.wait()
        os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 60
    while (done := train("--resume", "a")).code == 2 and time.monotonic() < end:
        pass
    assert done.code == 0
    assert [event.attempt for event in events(AttemptStarted)] == [1, 2]


def test_another_script_is_refused_and_a_changed_one_is_named(script, tmp_path):
    script("for step in train(1): os.kill(os.getpid(), 15)")
    assert train("--out", "a", "train.py").code == 143
    done = train("--out", "a", "train.py", "--more")
    assert done.code == 2
    assert "a holds the run of another program" in done.err
    script("for step in train(1): pass")
    done = train("--out", "a", "train.py")
    assert done.code == 0
    assert "lowtide  continuing the run in a: train.py" in done.err
    assert "lowtide  warning: train.py has changed since the run began: 1 lines removed, 1 added" in done.err


def test_a_run_that_has_trained_nothing_gives_way(script):
    script("sys.exit(2)")
    assert train("--out", "a", "train.py", "--epohcs", "3").code == 2
    script("print(sys.argv[1:])\nfor step in train(1): pass")
    done = train("--out", "a", "train.py", "--epochs", "3")
    assert (done.code, done.out.splitlines()[0]) == (0, "['--epochs', '3']")
    assert RunDirectory(Path("a")).load().script.arguments == ("--epochs", "3")
    assert "warning" not in train("--resume", "a").err


def test_a_script_without_training_is_named(script):
    script("print('done')", head="")
    done = train("--out", "a", "train.py")
    assert (done.code, done.out) == (0, "done\n")
    assert "lowtide  the script did not train: no call of fit and no lt.Training" in done.err


def test_lines_in_one_file_are_whole(script):
    script("""
        for step in train(1):
            checkpoint(1)
            sys.stdout.write("1/1 loss: 0.25")
            sys.stdout.flush()
            say(Note, text="a note")
            time.sleep(1)
        """)
    done = subprocess.run(
        command("--out", "a", "train.py"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    assert "lowtide  a note" in lines
    # On a busy machine a line may come between two parts of what the script has written.
    assert "1/1 loss: 0.25" in "".join(line for line in lines if not line.startswith("lowtide"))


def test_a_run_goes_on_when_nobody_reads_its_output(script):
    script("for step in train(2):\n    checkpoint(step + 1)\n    if attempt == 1: sys.exit(3)")
    process = subprocess.Popen(command("--out", "a", "train.py"), stderr=subprocess.PIPE, env=environment())
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait() == 0
    assert causes() == ["failure", "finished"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a run needs a directory and a script"),
        (["--out", "a"], "a run needs a directory and a script"),
        (["train.py"], "a run needs a directory and a script"),
        (["--resume", "a", "train.py"], "a run knows its own script"),
        (["--resume", "a", "--out", "b"], "a run knows its own script"),
        (["--resume", "nowhere"], "there is no run in this directory"),
        (["--out", "a", "trian.py"], "did you mean train.py?"),
        (["--out", "a", "-"], "cannot be started again"),
        (["--out", ".", "train.py"], "the directory holds other files"),
        (["--out", "train.py", "train.py"], "a run needs a directory"),
        (["--out", "train.py/a", "train.py"], "cannot create the directory"),
        (["--out", "a", "--budget", "0", "train.py"], "at least one byte"),
        (["--out", "a", "--budget", "1KiB", "train.py"], "1MiB or more"),
        (["--out", "a", "--allow", "magic", "train.py"], "magic"),
        (["--out", "a", "--checkpoint-minutes", "0", "train.py"], "checkpoint-minutes"),
    ],
)
def test_usage_errors_take_one_line(script, refused, arguments, words):
    script("")
    assert words in refused("train", *arguments)
    assert not Path("lock").exists()
