"""Run a program under the recorder, in a folder that stays: python record_child.py FOLDER PROGRAM ARGUMENTS."""

import json
import sys
from pathlib import Path

from lowtide.run.launch import Script, launch

folder, program, *arguments = sys.argv[1:]
script, recorder = Script(program, tuple(arguments)), "lowtide.tf.record.script"
ending = launch(script, Path(folder), limit_bytes=None, steps=3, recorder=recorder)
(Path(folder) / "ending.json").write_text(json.dumps({"exit_code": ending.exit_code, "signal": ending.signal}))
