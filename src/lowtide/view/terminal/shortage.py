"""A shortage in the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.oom.shortage import Shortage
from lowtide.tide.owner import Owner
from lowtide.units import format_bytes, format_count
from lowtide.view.axis import BUDGET_COLOUR, COLOURS
from lowtide.view.reports.shortage import (
    BAR_COLOURS,
    UNKNOWN_COLOUR,
    bar_parts,
    cause_line,
    fact_lines,
    holder_text,
    title_line,
)
from lowtide.view.reports.tide import TideReport
from lowtide.view.terminal.blocks import draw_curve
from lowtide.view.terminal.report import WIDE, cut_middle, share_width, shorten_dtype

_CURVE_HEIGHT = 12
_LAYERS = 5


class TerminalShortage:
    """A shortage as rich prints it: the cause first, then the evidence, then what to do."""

    def __init__(self, shortage: Shortage, *, top: int = 10) -> None:
        self.shortage = shortage
        self.top = top

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the cause, the facts, the curve, the holders of memory, what to do, and the notes."""
        shortage, width = self.shortage, min(options.max_width, 160)
        yield Text()
        yield Padding(Text(f"✗ {cause_line(shortage)}", f"bold {BUDGET_COLOUR}"), (0, 0, 0, 2))
        yield Padding(_facts(shortage), (0, 0, 0, 2))
        yield from _bar(shortage, width)
        if shortage.tide is not None:
            yield Text()
            colour = console.color_system is not None and not console.no_color
            report = TideReport(shortage.tide, shortage.limit_bytes)
            yield from draw_curve(report, width - 1, _CURVE_HEIGHT, colour=colour, is_complete=False)
        yield from _shares(shortage)
        yield from _holders(shortage, self.top, width)
        yield Text()
        yield Padding(Text("what to do", "bold"), (0, 0, 0, 2))
        for number, line in enumerate(shortage.cause.advice, start=1):
            step = Table.grid(padding=(0, 1, 0, 0))
            step.add_row(Text(f"{number}.", "dim"), Text(line))
            yield Padding(step, (0, 0, 0, 2))
        if shortage.notes:
            yield Text()
        for note in shortage.notes:
            yield Padding(Text(note, "dim"), (0, 0, 0, 2))
        yield Text()


_BAR_STROKES = {"held": "█", "free": "░", "free in one piece": "▒", "free elsewhere": "░"}


def _facts(shortage: Shortage) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("in", Text(title_line(shortage)))
    for label, text in fact_lines(shortage):
        table.add_row(label, Text(text))
    return table


def _bar(shortage: Shortage, width: int) -> RenderResult:
    parts = bar_parts(shortage)
    if parts is None:
        return
    columns = max(10, min(width - 4, 100))
    total = sum(size for _, size in parts)
    bar, legend, filled = Text(), Text(), 0
    below = 0
    for name, size in parts:
        below += size
        end = round(below / total * columns)
        bar.append(_BAR_STROKES[name] * (end - filled), BAR_COLOURS[name])
        filled = end
        if size:
            legend.append(f"{_BAR_STROKES[name]} ", BAR_COLOURS[name])
            legend.append(f"{name} {format_bytes(size)}   ", "dim")
    yield Text()
    yield Padding(bar, (0, 0, 0, 2))
    yield Padding(legend, (0, 0, 0, 2))


def _shares(shortage: Shortage) -> RenderResult:
    kinds = shortage.by_kind()
    if not set(kinds) & set(COLOURS):
        return
    yield Text()
    line = Text()
    for kind, size in kinds.items():
        line.append("█ ", COLOURS.get(kind, UNKNOWN_COLOUR))
        line.append(f"{kind} {format_bytes(size)}   ")
    yield Padding(line, (0, 0, 0, 2))
    layers = [share for share in shortage.by_layer() if share.layer is not None][:_LAYERS]
    if layers:
        amounts = " · ".join(f"{share.layer} {format_bytes(share.bytes)}" for share in layers)
        yield Padding(Text(f"most by layer: {amounts}", "dim"), (0, 0, 0, 2))


def _holder_cells(holder: Owner, text: tuple[str, str, str], *, named: bool, wide: bool) -> dict[str, Text]:
    cells = {
        "held": Text(format_bytes(holder.bytes), "bold"),
        "blocks": Text(f"{holder.count:,}"),
        "each": Text(format_bytes(holder.bytes // holder.count)),
    }
    if named:
        owner, shape, line = text
        shape = shape if wide else shorten_dtype(shape)
        sign = ("█ ", COLOURS.get(holder.kind or "", UNKNOWN_COLOUR))
        cells |= {"by": Text.assemble(sign, owner), "shape": Text(shape), "line": Text(line)}
    return cells


def _holders(shortage: Shortage, top: int, width: int) -> RenderResult:
    shown = shortage.holders[:top]
    if not shown:
        return
    texts = [holder_text(holder) for holder in shown]
    named = any(holder.name or holder.layer or holder.op or holder.kind for holder in shown)
    wide = width >= WIDE
    rows = [_holder_cells(holder, text, named=named, wide=wide) for holder, text in zip(shown, texts, strict=True)]
    headings = [heading for heading in rows[0] if any(len(row[heading]) for row in rows)]
    natural = {heading: max(len(heading), *(len(row[heading]) for row in rows)) for heading in headings}
    widths = share_width(natural, width - 1 - 2 * len(natural), ("by", "shape"))
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading, column_width in widths.items():
        right = heading in ("held", "blocks", "each")
        table.add_column(
            heading, no_wrap=True, overflow="ellipsis", justify="right" if right else "left", width=column_width
        )
    for row in rows:
        table.add_row(*(cut_middle(row[heading], widths[heading]) for heading in headings))
    yield Text()
    yield Padding(table, (0, 0, 0, 1))
    rest = shortage.holders[top:]
    if rest:
        held = format_bytes(sum(holder.bytes for holder in rest))
        blocks = format_count(sum(h.count for h in rest), "more block that holds", "more blocks that hold")
        yield Padding(Text(f"and {blocks} {held}", "dim"), (0, 0, 0, 4))
