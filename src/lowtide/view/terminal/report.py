"""A tide in the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.tide.owner import Owner
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR, COLOURS, STACK
from lowtide.view.reports.tide import TideReport, shape_text
from lowtide.view.terminal.blocks import draw_curve

WIDE = 110
_CURVE_HEIGHT = 14


class TerminalReport:
    """A tide as rich prints it, for any terminal width."""

    def __init__(self, report: TideReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, the curve, the breakdown, the tensors at the peak, and how this was found."""
        width = min(options.max_width, 160)
        report = self.report
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in _answer(report))
        yield Text()
        colour = console.color_system is not None and not console.no_color
        yield from draw_curve(report, width - 1, _CURVE_HEIGHT, colour=colour)
        yield Text()
        yield from _breakdown(report, width)
        yield Text()
        if not report.is_whole_script:
            yield from _at_the_peak(report, width)
            yield Text()
        yield from _held(report)
        yield _footnotes(report)


def _answer(report: TideReport) -> list[Text]:
    tide = report.tide
    numbers = Text.assemble(
        ("peak ", "dim"),
        (format_bytes(tide.peak_bytes), "bold"),
        ("" if tide.highest_bytes is None else f" usually, {format_bytes(tide.highest_bytes)} at most", "dim"),
        ("    safe bound ", "dim"),
        format_bytes(tide.safe_bytes),
    )
    lines = [Text(report.title, "bold"), numbers]
    if report.outside_line is not None:
        lines.append(Text(report.outside_line))
    if report.gap_line is not None:
        lines.append(Text(report.gap_line))
    if report.recorded_line is not None:
        lines.append(Text(report.recorded_line, "dim"))
    if report.verdict is not None:
        sign, style = ("✓", "bold green") if report.fits else ("✗", f"bold {BUDGET_COLOUR}")
        lines.append(Text(f"{sign} {report.verdict}", style))
    if report.largest_batch_line is not None:
        lines.append(Text(report.largest_batch_line))
    return lines


def _breakdown(report: TideReport, width: int) -> RenderResult:
    shares = report.tide.breakdown()
    total = max(sum(shares.values()), 1)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    longest = max(10, min(width - 40, 60))
    for kind in sorted(STACK, key=lambda kind: -shares[kind]):
        if shares[kind] == 0:
            continue
        bar = _bar(shares[kind] / max(shares.values()), longest)
        name = Text.assemble(("█ ", COLOURS[kind]), kind)
        table.add_row(name, format_bytes(shares[kind]), _percent(shares[kind] / total), Text(bar, COLOURS[kind]))
    yield Padding(table, (0, 0, 0, 2))


def _percent(share: float) -> str:
    return "<1%" if share < 0.005 else f"{share:.0%}"


def _bar(share: float, width: int) -> str:
    eighths = max(1, round(share * width * 8))
    return "█" * (eighths // 8) + "▏▎▍▌▋▊▉"[eighths % 8 - 1 : eighths % 8] * (eighths % 8 > 0)


def _at_the_peak(report: TideReport, width: int) -> RenderResult:
    tide = report.tide
    tensors = tide.top(report.top)
    place = Text.assemble(("at the peak: ", "dim"), (str(tide.peak_place), "bold"))
    yield Padding(place, (0, 0, 0, 2))
    if not tensors:
        return
    yield Padding(_tensor_table(tensors, width - 1), (0, 0, 0, 1))
    rest = tide.alive_at_peak - len(tensors)
    if rest > 0:
        held = tide.curve.bytes_in_use[tide.peak_event] - sum(tensor.bytes for tensor in tensors)
        yield Padding(Text(f"and {rest:,} more that hold {format_bytes(int(held))}", "dim"), (0, 0, 0, 4))


def _held(report: TideReport) -> RenderResult:
    """Yield what is held outside of the step and in Python, and what to do about it."""
    parts = (
        ("held at the peak", report.held_lines),
        ("held outside of the step", report.outside_lines),
        ("NumPy arrays in Python", report.array_lines),
        ("what to do", report.advice),
    )
    for heading, lines in parts:
        if not lines:
            continue
        yield Padding(Text(heading, "bold"), (0, 0, 0, 2))
        table = Table.grid(padding=(0, 1, 0, 0))
        for line in lines:
            table.add_row(Text("·", "dim"), Text(line))
        yield Padding(table, (0, 0, 1, 2))


def _tensor_table(tensors: tuple[Owner, ...], width: int) -> Table:
    rows = [_tensor_cells(tensor, wide=width >= WIDE) for tensor in tensors]
    # A column that would be empty is left out.
    headings = [heading for heading in rows[0] if any(len(row[heading]) for row in rows)]
    natural = {heading: max(len(heading), *(len(row[heading]) for row in rows)) for heading in headings}
    widths = share_width(natural, width - 2 * len(natural), ("tensor", "op", "layer"))
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading, column_width in widths.items():
        table.add_column(
            heading,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if heading == "bytes" else "left",
            width=column_width,
            style="dim" if heading in ("tensor", "line") else "",
        )
    for row in rows:
        table.add_row(*(cut_middle(row[heading], widths[heading]) for heading in headings))
    return table


def cut_middle(text: Text, width: int) -> Text:
    """Return `text` in `width` characters; both ends are kept, because names of layers differ at the end."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return Text.assemble(text[:head], "…", text[len(text) - (width - 1 - head) :])


def share_width(natural: dict[str, int], room: int, may_be_cut: tuple[str, ...]) -> dict[str, int]:
    """Return the width of each column: names are shortened if necessary, numbers and source lines never."""
    names = [heading for heading in may_be_cut if heading in natural]
    widths = dict(natural)
    while sum(widths.values()) > room:
        # A shortened op is easier to recognise than a shortened layer.
        widest = max(names, key=lambda heading: widths[heading] + 6 * (heading == "op"))
        if widths[widest] <= 8:
            break
        widths[widest] -= 1
    return widths


def _tensor_cells(tensor: Owner, *, wide: bool) -> dict[str, Text]:
    dtype = tensor.dtype or ""
    dtype = dtype if wide else shorten_dtype(dtype)
    cells = {
        "layer": Text.assemble(("█ ", COLOURS[tensor.kind or "other"]), tensor.layer or f"({tensor.kind})"),
        "op": Text(tensor.op or ""),
        "tensor": Text(tensor.name or ""),
        "shape": Text(shape_text(dtype, tensor.shape)),
        "bytes": Text(format_bytes(tensor.bytes), "bold"),
        "line": Text(tensor.source or ""),
    }
    if not wide:
        del cells["tensor"]
    return cells


def shorten_dtype(text: str) -> str:
    """Return a text with the short names of types: "f32" in place of "float32"."""
    return text.replace("float", "f").replace("int", "i")


def _footnotes(report: TideReport) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    rows = [
        ("method", report.method_line, ""),
        ("process", report.process_line, ""),
        ("limit", report.limit_line, ""),
        ("free space", report.free_line, "yellow" if report.fragmented else ""),
        ("split by", report.pinning_line, "yellow"),
        ("building", report.building_line, ""),
        ("not modelled", report.unmodelled_line, "yellow"),
    ]
    for name, line, style in rows:
        if line is not None:
            table.add_row(name, Text(line, style))
    for note in report.tide.notes:
        table.add_row("note", Text(note))
    return Padding(table, (0, 0, 1, 2))
