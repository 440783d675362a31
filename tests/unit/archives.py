"""Tides and plans as files whose header is changed by hand."""

import json
import zipfile


def edit_header(path, member: str, *, without: str = "", **changes) -> None:
    """Replace fields of the JSON header of a .tide or .plan file, and remove the member `without`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != without}
    members[member] = json.dumps(json.loads(members[member]) | changes).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
