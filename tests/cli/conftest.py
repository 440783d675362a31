from typing import NamedTuple

import pytest

from lowtide.cli import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep answers of commands for one test only."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lowtide(capfd):
    """Run the command line as a user types it, in this process: TensorFlow is imported once for all tests."""

    def run(*arguments: str) -> Answer:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Answer(end.value.code, *capfd.readouterr())

    return run


@pytest.fixture
def refused(lowtide):
    """Run it, expect one line on standard error and the code 2, and return that line."""

    def run(*arguments: str) -> str:
        answer = lowtide(*arguments)
        lines = [line for line in answer.err.splitlines() if line]
        assert answer.code == 2, answer
        assert answer.out == ""
        assert len(lines) == 1, answer.err
        assert lines[0].startswith("error: ")
        assert "Traceback" not in answer.err
        return lines[0]

    return run
