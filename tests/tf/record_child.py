"""Run a program under the recorder, in a folder that stays: python record_child.py FOLDER PROGRAM ARGUMENTS."""

import json
import sys
from pathlib import Path

from lowtide.run.launch import Script, launch

folder, program, *arguments = sys.argv[1:]
ending = launch(Script(program, tuple(arguments)), Path(folder), limit_bytes=None, steps=3)
(Path(folder) / "ending.json").write_text(json.dumps({"exit_code": ending.exit_code, "signal": ending.signal}))
