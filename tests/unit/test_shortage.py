"""A shortage and its views: every number that is shown is one that was given."""

import json

import pytest
from rich.console import Console

from lowtide.oom.cause import OomCause
from lowtide.oom.evidence import Request, group_alike
from lowtide.oom.shortage import Shortage
from lowtide.tide.owner import Owner
from lowtide.view.html_page import render_html
from lowtide.view.page_data.shortage import shortage_data
from lowtide.view.reports.shortage import request_line, room_line
from lowtide.view.terminal.shortage import TerminalShortage
from tests.pages import check_self_contained, read_data

MIB = 1 << 20


def make_shortage(**changes) -> Shortage:
    fields = {
        "target": "train.py",
        "request": Request(
            100 * MIB, (64, 409600), "float32", "model/dense/MatMul", "/job:localhost/device:GPU:0", "GPU_0_bfc"
        ),
        "cause": OomCause("batch", "the step is too large", ("use a smaller batch", "or a larger device")),
        "limit_bytes": 1000 * MIB,
        "in_use_bytes": 900 * MIB,
        "peak_bytes": 950 * MIB,
        "free_bytes": 100 * MIB,
        "largest_free_bytes": 60 * MIB,
        "holders": (
            Owner(
                bytes=500 * MIB,
                count=1,
                name="a:0",
                op="Conv2D",
                layer="conv",
                kind="activations",
                dtype="float32",
                shape=(64, 28, 28, 128),
                source="m.py:3",
            ),
            Owner(bytes=300 * MIB, count=2, layer="dense", kind="weights"),
            Owner(bytes=100 * MIB, count=50),
        ),
        "batch_size": 64,
        "step": 3,
        "largest_batch_size": 48,
        "planned_slowdown": 0.07,
        "samples": tuple((step, step * MIB) for step in range(1, 10)),
        "notes": ("a note",),
    }
    return Shortage(**(fields | changes))


def show(shortage: Shortage, width: int = 120, **options) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"), color_system="truecolor")  # noqa: SIM115
    with console.file:
        console.print(TerminalShortage(shortage, **options))
    return console.export_text()


def test_shares_by_kind_and_layer():
    shortage = make_shortage()
    assert shortage.by_kind() == {"activations": 500 * MIB, "weights": 300 * MIB, "unknown": 100 * MIB}
    assert [(share.layer, share.bytes, share.buffers) for share in shortage.by_layer()] == [
        ("conv", 500 * MIB, 1),
        ("dense", 300 * MIB, 2),
        (None, 100 * MIB, 50),
    ]
    assert make_shortage(holders=(Owner(bytes=5),)).by_layer() == ()


def test_holders_of_the_same_kind_are_grouped():
    one, other = Owner(bytes=20, kind="other", shape=(5,)), Owner(bytes=20, kind="weights", shape=(5,))
    grouped = group_alike([one, other, Owner(bytes=40, count=2, kind="other", shape=(5,)), Owner(bytes=99)])
    assert [(holder.bytes, holder.count, holder.kind) for holder in grouped] == [
        (99, 1, None),
        (60, 3, "other"),
        (20, 1, "weights"),
    ]


def test_plain_data():
    data = json.loads(make_shortage().to_json(top=2))
    assert data["schema_version"] == 1
    assert data["cause"]["name"] == "batch"
    assert data["request"]["shape"] == [64, 409600]
    assert [holder["bytes"] for holder in data["holders"]] == [500 * MIB, 300 * MIB]
    assert data["holders_in_all"] == 53
    assert data["largest_batch_size"] == 48
    assert data["planned_slowdown"] == 0.07
    assert data["tide"] is None


def test_the_terminal_begins_with_the_cause(tide):
    lines = [line.strip() for line in show(make_shortage(tide=tide)).splitlines() if line.strip()]
    assert lines[0] == "✗ The step is too large"
    text = "\n".join(lines)
    for words in (
        "train.py · batch 64 · step 3",
        "100 MiB · float32 64×409600 · by model/dense/MatMul · on GPU:0, allocator GPU_0_bfc",
        "900 MiB held · 100 MiB free, 60 MiB of it in one piece · limit 1000 MiB",
        "a batch of 48 · the batch of 64 as planned, +7% time",
        "free elsewhere 40 MiB",
        "activations 500 MiB",
        "conv (Conv2D)",
        "m.py:3",
        "1. use a smaller batch",
        "a note",
        "events",
    ):
        assert words in text


def test_a_step_that_ran_out_has_no_safe_bound(tide):
    assert "safe bound" not in show(make_shortage(tide=tide))


def test_holders_have_names_that_fit_their_column():
    data = Owner(name="global `data` of loop.py", op="unknown", kind="outside", bytes=MIB, source="loop.py:9")
    result = Owner(name="AddV2:0", op="AddV2", kind="other", bytes=MIB, source="loop.py:11")
    text = show(make_shortage(holders=(data, result)), width=80)
    assert "global `data`  " in text
    assert "a result of AddV2  " in text
    assert "AddV2:0" not in text


def test_the_rest_is_added_up():
    assert "and 52 more blocks that hold 400 MiB" in show(make_shortage(), top=1)


def test_sizes_alone_make_no_column_of_names():
    text = show(make_shortage(holders=(Owner(bytes=100, count=4), Owner(bytes=50))))
    assert "not named" not in text
    assert "layer" not in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_the_terminal(width):
    nasty = "[bold]x[/bold]/" * 30
    shortage = make_shortage(
        request=Request(1, node=nasty), holders=(Owner(bytes=5, name=nasty, shape=(1,), source="a.py:1"),)
    )
    assert max(len(line) for line in show(shortage, width).splitlines()) <= width


def test_numbers_and_lines_are_never_cut():
    """As in a step that ran out at once: each holder has a long name, a shape and a line."""
    holder = Owner(
        bytes=25 * MIB + 900_000, count=1234, name="a:0", op="_MklEinsum",
        layer="multi_head_attention", dtype="float32", shape=(256, 14, 14, 64), source="train.py:113",
    )  # fmt: skip
    lines = show(make_shortage(holders=(holder,)), 80).splitlines()
    (row,) = [line for line in lines if "1,234" in line]
    for words in ("25.9 MiB", "21.5 KiB", "f32 256×14×14×64", "train.py:113"):
        assert words in row
    assert any(line.split() == ["held", "blocks", "each", "by", "shape", "line"] for line in lines)


def test_unknown_facts_are_left_out():
    shortage = Shortage(request=Request(), target="train.log", cause=OomCause("unknown", "out of memory"))
    text = show(shortage)
    assert "asked for  not known" in text
    assert "there was" not in text
    assert room_line(shortage) is None
    assert request_line(Request(shape=(3, 4))) == "3×4"
    (data,) = shortage_data([shortage])["shortages"]
    assert (data["holders"], data["kinds"], data["room"]) == ([], [], [])


def test_the_page_shows_the_same_and_escapes_names(tide):
    nasty = "</script><img src=x onerror=alert(1)>"
    shortage = make_shortage(target=nasty, holders=(Owner(bytes=5 * MIB, name=nasty, kind="input"),), tide=tide)
    page = render_html("shortage", shortage_data([shortage, make_shortage(notes=(nasty,))]))
    check_self_contained(page)
    assert page.count("The step is too large") == 2
    first, second = read_data(page)["shortages"]
    assert second["heading"] == "train.py · batch 64 · step 3"
    assert second["advice"][0] == "use a smaller batch"
    assert ["note", nasty] in second["facts"]
    assert first["tide"]["curve"]["bytes"] == tide.curve.bytes_in_use.tolist()
    assert second["tide"] is None
