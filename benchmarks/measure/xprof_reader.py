"""Reads one profile with XProf's memory_profile, in an interpreter that has the package `xprof` and needs no other.

python xprof_reader.py PROFILE.xplane.pb
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any


def summarise(profile: dict[str, Any]) -> dict[str, Any]:
    """The peak by XProf, and the bytes at the peak by what it calls their holders."""
    # The process has allocators of its own for other ends; the device's is the one that peaks highest.
    allocators = profile["memoryProfilePerAllocator"].values()
    memory = max(allocators, key=lambda each: int(each["profileSummary"]["peakStats"]["peakBytesInUse"]))
    ops: dict[str, int] = {}
    special: dict[str, int] = {}
    for entry in memory["activeAllocations"]:
        count = int(entry["numOccurrences"])
        if int(entry["specialIndex"]) >= 0:
            activity, names = memory["specialAllocations"][int(entry["specialIndex"])], special
        else:
            activity, names = memory["memoryProfileSnapshots"][int(entry["snapshotIndex"])]["activityMetadata"], ops
        name = activity["tfOpName"] or "(no name)"
        names[name] = names.get(name, 0) + count * int(activity["allocationBytes"])
    return {
        "peak_bytes": int(memory["profileSummary"]["peakStats"]["peakBytesInUse"]),
        "by_op": dict(sorted(ops.items(), key=lambda share: -share[1])),
        "special": special,
    }


def main() -> None:
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "memory_profile", {})
    print(json.dumps({"version": version("xprof"), **summarise(json.loads(data))}))


if __name__ == "__main__":
    main()
