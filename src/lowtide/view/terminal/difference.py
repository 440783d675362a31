"""A difference in the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.tide.diff import Change, LayerChange, TensorChange
from lowtide.units import format_change
from lowtide.view.axis import BUDGET_COLOUR, COLOURS
from lowtide.view.reports.difference import (
    DETAILED_TENSORS,
    DifferenceReport,
    change_cells,
    layer_text,
    tensor_name,
    tensor_sign,
    tensor_text,
)
from lowtide.view.reports.tide import TideReport
from lowtide.view.terminal.report import cut_middle

_GROWN, _SHRUNK = BUDGET_COLOUR, "#3fa768"
_WIDE, _NARROW = 110, 56
_NUMBER, _BARS = 12, 40


class TerminalDifference:
    """A difference as rich prints it, for any terminal width."""

    def __init__(self, report: DifferenceReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, the kinds, the layers and their tensors, and the notes."""
        width = min(options.max_width, 160) - 2
        difference = self.report.difference
        parts: list[list[Text] | Table] = [_answer(self.report)]
        kinds = [change for change in difference.by_kind if change.growth_bytes]
        if kinds:
            labels = [Text.assemble(("█ ", COLOURS[change.kind]), change.kind) for change in kinds]
            parts.append(_table("kind", list(zip(labels, kinds, strict=True)), width))
        if difference.changed:
            rows: list[tuple[Text, Change]] = [(Text(label), change) for label, change in self.report.layer_rows()]
            parts.append(_table("  layer", rows, width))
        parts += [_tensors(change, width) for change in self.report.detailed_layers()]
        parts += [[Text.assemble(("note  ", "dim"), note) for note in difference.notes]]
        for part in parts:
            lines = part if isinstance(part, list) else [part]
            if lines:
                yield Text()
            yield from (Padding(line, (0, 0, 0, 2)) for line in lines)
        yield Text()


def _answer(shown: DifferenceReport) -> list[Text]:
    difference, report = shown.difference, shown.report
    lines = [
        Text(report.title, "bold"),
        Text(f"against {TideReport(difference.before).title}", "dim"),
        Text.assemble(("peak ", "dim"), (str(difference.peak), "bold"), f": {difference.layers_line}"),
        Text.assemble(("safe bound ", "dim"), str(difference.safe)),
    ]
    for good, text in shown.verdicts:
        lines.append(Text(f"{'✓' if good else '✗'} {text}", "bold green" if good else f"bold {BUDGET_COLOUR}"))
    if report.largest_batch_line is not None:
        lines.append(Text(report.largest_batch_line))
    return lines


def _table(heading: str, rows: list[tuple[Text, Change]], width: int) -> Table:
    headings = ("before", "after", "growth") if width >= _NARROW else ("growth",)
    names = max(len(heading), *(len(label) for label, _ in rows)) + 2
    name_width = min(names, max(12, width - _NUMBER * len(headings)))
    bars = min(_BARS, width - name_width - _NUMBER * len(headings))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(heading, no_wrap=True, width=name_width - 2)
    for number in headings:
        table.add_column(number, justify="right", no_wrap=True, width=_NUMBER - 2)
    # Bars of a few characters are not readable.
    if bars >= 8:
        table.add_column("", no_wrap=True)
    zero = _Zero([change.growth_bytes for _, change in rows], bars - 3)
    for label, change in rows:
        numbers = [Text(text, style) for text, style in zip(change_cells(change), ("dim", "", "bold"), strict=True)]
        bar = [zero.bar(change.growth_bytes)] if bars >= 8 else []
        table.add_row(cut_middle(label, name_width - 2), *numbers[-len(headings) :], *bar)
    return table


class _Zero:
    """The zero line of the bars in a table: growth goes to its right, shrinking to its left."""

    def __init__(self, amounts: list[int], room: int) -> None:
        most, least = max(0, *amounts), min(0, *amounts)
        self.scale = room / max(most - least, 1)
        self.left = min(max(round(-least * self.scale), least < 0), room)

    def bar(self, amount: int) -> Text:
        if amount < 0:
            # Unicode has only half blocks that are filled from the right.
            halves = max(1, round(-amount * self.scale * 2))
            bar = "▐" * (halves % 2) + "█" * (halves // 2)
            return Text.assemble((bar[-self.left :].rjust(self.left), _SHRUNK), ("│", "dim"))
        eighths = max(amount > 0, round(amount * self.scale * 8))
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]
        return Text.assemble(" " * self.left, ("│", "dim"), (bar.rstrip(), _GROWN))


def _tensors(layer: LayerChange, width: int) -> Table:
    rows = [_tensor_cells(change, wide=width >= _WIDE) for change in layer.tensors[:DETAILED_TENSORS]]
    rest = sum(change.growth_bytes for change in layer.tensors[DETAILED_TENSORS:])
    if len(layer.tensors) > DETAILED_TENSORS:
        more = Text(f"  {len(layer.tensors) - DETAILED_TENSORS:,} more", "dim")
        rows.append((more, Text(), Text(format_change(rest), "bold"), Text()))
    natural = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    # Ops are shortened in the middle if necessary; shapes, numbers and source lines are not.
    room = max(8, width - sum(natural[1:]) - 2 * len(natural))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False, title_justify="left")
    table.title = Text(layer_text(layer), "bold", overflow="ellipsis", no_wrap=True)
    for column in ("op", "type", "growth", "line"):
        table.add_column(justify="right" if column == "growth" else "left", overflow="ellipsis", no_wrap=True)
    for op, *cells in rows:
        table.add_row(cut_middle(op, room), *cells)
    return table


def _tensor_cells(change: TensorChange, *, wide: bool) -> tuple[Text, Text, Text, Text]:
    tensor, kind = change.tensor, tensor_text(change)
    return (
        Text.assemble(f"{tensor_sign(change)} ", ("█ ", COLOURS[tensor.kind or "other"]), tensor_name(change)),
        Text(kind if wide else kind.replace("float", "f").replace("int", "i")),
        Text(format_change(change.growth_bytes), "bold"),
        Text(tensor.source or "", "dim"),
    )
