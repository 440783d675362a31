"""Why memory ran out: from the log, the recording or the dead process to the cause and the advice.

A reader (`log_reader` here, `run.outcome` for recorded runs) fills one `Evidence` per failure; `explain_evidence` turns
it into a `Shortage`, and `code_mistakes` adds what the doctor finds in the script. Does not need TensorFlow.
"""
