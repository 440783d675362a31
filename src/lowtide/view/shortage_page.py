"""Shortages as one page that needs nothing else."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape

from lowtide.oom.shortage import Shortage
from lowtide.units import format_bytes
from lowtide.view.axis import COLOURS
from lowtide.view.page import page_frame
from lowtide.view.pictures.tide_svg import render_picture
from lowtide.view.reports.tide import TideReport
from lowtide.view.terminal.shortage import (
    BAR_COLOURS,
    UNKNOWN_COLOUR,
    bar_parts,
    cause_line,
    fits_line,
    holder_text,
    request_line,
    room_line,
    samples_line,
    title_line,
)

_STYLE = """
th { cursor: default }
.cause { color: var(--over); font-size: 19px; font-weight: 680; margin: 0 0 4px; overflow-wrap: anywhere }
.room { display: flex; height: 22px; border-radius: 6px; overflow: hidden; background: var(--soft); margin: 12px 0 8px }
ol { margin: 6px 0 0; padding-left: 22px } .picture img { display: block; width: 100% }
"""


def render_shortage_page(shortages: Sequence[Shortage], *, top: int = 40) -> str:
    """Return the HTML text: of each shortage the cause, what was asked for, who held what, and what to do."""
    title = shortages[0].target if shortages else "no shortage"
    body = "\n".join(
        _shortage(shortage, number, len(shortages), top) for number, shortage in enumerate(shortages, start=1)
    )
    return page_frame(f"{title} · out of memory", body, _STYLE)


def _shortage(shortage: Shortage, number: int, count: int, top: int) -> str:
    heading = title_line(shortage) if count == 1 else f"{number} of {count} · {title_line(shortage)}"
    advice = "".join(f"<li>{escape(line)}</li>" for line in shortage.cause.advice)
    cause = f'<p class="hint">{escape(heading)}</p><p class="cause">{escape(cause_line(shortage))}</p>'
    sections = [
        f'<section class="card shortage">{cause}{_facts(shortage)}{_room(shortage)}</section>',
        f'<section class="card"><h2>What to do</h2><ol>{advice}</ol></section>' if advice else "",
        _kinds(shortage),
        _holders(shortage, top),
        _picture(shortage),
    ]
    return "\n".join(section for section in sections if section)


def _facts(shortage: Shortage) -> str:
    facts = [("asked for", request_line(shortage.request)), ("there was", room_line(shortage))]
    if shortage.peak_bytes is not None:
        facts.append(("peak", f"{format_bytes(shortage.peak_bytes)} in use at most before"))
    facts.append(("fits", fits_line(shortage)))
    if shortage.samples:
        facts.append(("after steps", samples_line(shortage)))
    facts += [("note", note) for note in shortage.notes]
    rows = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts if text is not None)
    return f"<dl>{rows}</dl>"


def _room(shortage: Shortage) -> str:
    parts = bar_parts(shortage)
    if parts is None:
        return ""
    total = sum(size for _, size in parts)
    bar = "".join(
        f'<div style="background:{BAR_COLOURS[name]};width:{100 * size / total:.3f}%" title="{name}"></div>'
        for name, size in parts
    )
    legend = "".join(
        f"<span>{_swatch(BAR_COLOURS[name])}{name} {format_bytes(size)}</span>" for name, size in parts if size
    )
    return f'<div class="room">{bar}</div><div class="legend">{legend}</div>'


def _kinds(shortage: Shortage) -> str:
    kinds = shortage.by_kind()
    if not set(kinds) & set(COLOURS):
        return ""
    most = max(kinds.values())
    by_kind = "".join(_bar(kind, size, most, COLOURS.get(kind, UNKNOWN_COLOUR)) for kind, size in kinds.items())
    layers = shortage.by_layer()[:10]
    by_layer = "".join(
        _bar(share.layer or "(no layer)", share.bytes, layers[0].bytes, "var(--sea)") for share in layers
    )
    columns = f"<div><h3>By kind</h3>{by_kind}</div>"
    if by_layer:
        columns += f"<div><h3>By layer</h3>{by_layer}</div>"
    return f'<section class="card"><div class="columns">{columns}</div></section>'


def _bar(label: str, size: int, most: int, colour: str) -> str:
    width = 100 * size / max(most, 1)
    return (
        f'<div class="bar"><div class="label" title="{escape(label)}">{escape(label)}</div><div class="track">'
        f'<div style="background:{colour};width:{width:.2f}%"></div></div>'
        f'<div class="size">{format_bytes(size)}</div></div>'
    )


def _holders(shortage: Shortage, top: int) -> str:
    if not shortage.holders:
        return ""
    rows = []
    for holder in shortage.holders[:top]:
        who, shape, source = holder_text(holder)
        sign = _swatch(COLOURS.get(holder.kind or "", UNKNOWN_COLOUR))
        rows.append(
            f'<tr><td class="number">{format_bytes(holder.bytes)}</td><td class="number">{holder.count:,}</td>'
            f'<td class="number">{format_bytes(holder.bytes // holder.count)}</td>'
            f'<td title="{escape(who)}">{sign}{escape(who)}</td><td>{escape(shape)}</td>'
            f'<td class="dim">{escape(source)}</td></tr>'
        )
    rest = shortage.holders[top:]
    more = ""
    if rest:
        held = format_bytes(sum(holder.bytes for holder in rest))
        more = f'<p class="more">and {sum(holder.count for holder in rest):,} more blocks that hold {held}</p>'
    head = "".join(
        f'<th class="number">{name}</th>' if name in ("held", "blocks", "each") else f"<th>{name}</th>"
        for name in ("held", "blocks", "each", "by", "shape", "line")
    )
    return (
        '<section class="card"><div class="heading"><h2>Who held the memory</h2></div><div class="scroll">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )


def _picture(shortage: Shortage) -> str:
    if shortage.tide is None:
        return ""
    # As an image, because the picture has styles of its own; without the limit, in which it would "fit" up to here.
    picture = b64encode(render_picture(TideReport(shortage.tide)).encode("utf-8")).decode("ascii")
    alt = "Memory in use up to the moment in which it ran out"
    return f'<section class="card picture"><img alt="{alt}" src="data:image/svg+xml;base64,{picture}"></section>'


def _swatch(colour: str) -> str:
    return f'<span class="swatch" style="background:{colour}"></span>'
