"""A plan as one page that needs nothing else."""

from html import escape

from lowtide.planning.plan import Action, FrontierPoint, format_slowdown
from lowtide.units import format_bytes
from lowtide.view.page import page_frame
from lowtide.view.page_data.plan import drawn_data
from lowtide.view.reports.frontier import Frontier, point_text
from lowtide.view.reports.plan import DONE, PlanReport, Total, format_time, total_of

_FRONTIER_ROWS = 10
# More rows than anybody reads make a page slow; what is beyond is added up.
_ROWS = 1000

_STYLE = """
.curve { fill: none; stroke-width: 2; stroke-linejoin: round } .area { fill-opacity: .14 }
.found { fill: var(--muted) }
#frontier { height: 400px } #frontier .tooltip { width: max-content; max-width: 268px }
.split th, .split td { padding-right: 10px }
.split { display: grid; grid-template-columns: minmax(0, 5fr) minmax(260px, 3fr); gap: 16px 40px }
th { cursor: default } th button { all: unset; cursor: pointer }
th button:focus-visible { outline: 2px solid var(--sea) }
tr.chosen td { font-weight: 650; background: var(--soft) }
td.bar { display: table-cell; width: 40%; min-width: 120px }
td.bar div { height: 12px; border-radius: 2px; background: var(--sea) }
tfoot td { font-weight: 650; border-bottom: 0 }
code { font: 13.5px ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere }
@media (max-width: 760px) { .split { grid-template-columns: minmax(0, 1fr) } #frontier { height: 280px } }
"""


def render_plan_page(report: PlanReport) -> str:
    """Return the HTML text: the answers, the curves, the frontier, what is done, how to use it, and the notes."""
    sections = [
        f'<section class="answers" aria-label="The answer">{_answers(report)}</section>',
        _curves(report),
        _frontier(report.frontier) if report.frontier.worth_showing else "",
        _layers(report),
        _actions(report),
        _grounds(report),
    ]
    return page_frame(
        report.title, "\n".join(filter(None, sections)), _STYLE, script="plan.js", data=drawn_data(report)
    )


def _answers(report: PlanReport) -> str:
    moods = {None: "", True: "good", False: "over"}
    return "".join(
        f'<div class="answer {moods[answer.fits]}"><div class="what">{answer.about}</div>'
        f'<div class="value">{answer.value}</div><div class="why">{escape(answer.grounds)}</div></div>'
        for answer in report.answers
    )


def _chart(name: str, label: str) -> str:
    """Return the place of a chart that the script draws, and of what it says aloud."""
    return (
        f'<div class="chart" id="{name}" tabindex="0" role="application" aria-label="{escape(label)}">'
        '<svg aria-hidden="true"></svg><div class="tooltip" hidden></div></div>'
        f'<p class="unseen" id="{name}-read" aria-live="polite"></p>'
    )


def _card(title: str, hint: str, content: str) -> str:
    heading = f'<div class="heading"><h2>{escape(title)}</h2>{hint}</div>'
    return f'<section class="card">{heading}{content}</section>'


def _curves(report: PlanReport) -> str:
    legend = "".join(
        f'<span><span class="swatch" style="background:{colour}"></span>{name}</span>'
        for _, name, colour in report.curves
    )
    hint = '<p class="hint">Each step from its begin to its end. Point, or use ← →, to read a moment</p>'
    chart = _chart(
        "curves", f"Memory over the step: {report.peaks_line}; budget {format_bytes(report.plan.budget_bytes)}"
    )
    return _card("Memory over the step", hint, f'{chart}<div class="legend">{legend}</div>')


def _frontier(frontier: Frontier) -> str:
    rows = "".join(_frontier_row(frontier, point) for point in frontier.rows(_FRONTIER_ROWS))
    numbers = "".join(f'<th class="number" scope="col">{name}</th>' for name in ("memory", "time", "recomputed"))
    table = f'<table><thead><tr>{numbers}<th scope="col"></th></tr></thead><tbody>{rows}</tbody></table>'
    smallest = point_text(frontier.points[-1])
    chart = _chart("frontier", f"Time against memory; the smallest that was found is {smallest}")
    hint = '<p class="hint">Estimates, but for the plan itself. Point, or use ← →, to read a budget</p>'
    content = f'<div class="split"><div>{chart}</div><div class="scroll">{table}</div></div>'
    return _card("What other budgets cost", hint, content)


def _frontier_row(frontier: Frontier, point: FrontierPoint) -> str:
    cells = (format_bytes(point.peak_bytes), format_slowdown(point.slowdown), f"{point.recomputed:,}")
    chosen = ' class="chosen"' if point == frontier.chosen else ""
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f'<tr{chosen}>{numbers}<td class="dim">{frontier.name_of(point)}</td></tr>'


def _layers(report: PlanReport) -> str:
    layers = report.by_layer()
    if not layers:
        return ""
    most = max(1, *(total.saves_bytes for _, total in layers))
    rows = "".join(
        f'<tr><td title="{escape(layer)}">{escape(layer)}</td>{_totals(total)}'
        f'<td class="bar"><div style="width:{100 * total.saves_bytes / most:.1f}%"></div></td></tr>'
        for layer, total in layers[: report.top]
    )
    if rest := layers[report.top :]:
        actions = [action for action in report.actions if (action.layer or "(no layer)") in dict(rest)]
        rows += f"<tr><td>{len(rest):,} more</td>{_totals(total_of(actions))}<td></td></tr>"
    heads = "".join(f'<th class="number" scope="col">{name}</th>' for name in ("actions", "saves", "costs"))
    table = (
        f'<table><thead><tr><th scope="col">layer</th>{heads}<th></th></tr></thead><tbody>{rows}</tbody>'
        f"<tfoot><tr><td>in all</td>{_totals(total_of(report.actions))}<td></td></tr></tfoot></table>"
    )
    hint = '<p class="hint">What is not held meanwhile, and the time that it costs</p>'
    return _card("By layer", hint, f'<div class="scroll">{table}</div>')


def _totals(total: Total) -> str:
    cells = (f"{total.actions:,}", format_bytes(total.saves_bytes), format_time(total.costs_us))
    return "".join(f'<td class="number">{cell}</td>' for cell in cells)


def _actions(report: PlanReport) -> str:
    if not report.actions:
        return ""
    rows = "".join(map(_action_row, report.actions[:_ROWS]))
    heads = "".join(
        f'<th scope="col" aria-sort="{"descending" if name == "saves" else "none"}"'
        f'{" class=number" if name in ("saves", "costs") else ""}><button type="button">{name}</button></th>'
        for name in ("what", "layer", "op", "node", "saves", "costs", "why")
    )
    table = f'<table id="actions"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    left = len(report.actions) - _ROWS
    beyond = f"<span>and {left:,} more that save less</span>" if left > 0 else ""
    more = f'<p class="more"><button id="more" type="button" hidden>Show all</button>{beyond}</p>'
    search = '<input id="filter" type="search" placeholder="Filter by layer, op or node" aria-label="Filter actions">'
    return _card("What is done", search, f'<div class="scroll">{table}</div>{more}')


def _action_row(action: Action) -> str:
    texts = (DONE.get(action.kind, action.kind), action.layer or "(no layer)", action.op or "", action.subject)
    cells = "".join(f'<td title="{escape(text)}">{escape(text)}</td>' for text in texts)
    saves, costs = format_bytes(action.saves_bytes), format_time(action.costs_us)
    return (
        f'<tr>{cells}<td class="number" data-value="{action.saves_bytes}">{saves}</td>'
        f'<td class="number" data-value="{action.costs_us:.3f}">{costs}</td>'
        f'<td class="dim" title="{escape(action.reason)}">{escape(action.reason)}</td></tr>'
    )


def _grounds(report: PlanReport) -> str:
    rows = [("to use it", f"<code>{escape(code)}</code> {escape(purpose)}") for code, purpose in report.usage]
    rows.append(("method", escape(report.after.method_line)))
    rows += [("note", escape(note)) for note in report.notes]
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    title = "How to use it, and how it was found" if report.usage else "How this was found"
    return f'<section class="card grounds"><h2>{title}</h2><dl>{listed}</dl></section>'
