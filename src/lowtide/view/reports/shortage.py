"""The lines of text about a shortage that the terminal and the page share."""

from lowtide.oom.evidence import Request
from lowtide.oom.shortage import Shortage
from lowtide.tide.owner import Owner
from lowtide.units import format_bytes
from lowtide.view.reports.tide import plain_name, shape_text

UNKNOWN_COLOUR = "#8d99a6"
BAR_COLOURS = {"held": "#12a5b0", "free": "#5f7f8f", "free in one piece": "#3fa768", "free elsewhere": "#5f7f8f"}


def title_line(shortage: Shortage) -> str:
    """Return the program that ran out of memory, with its batch and step if known."""
    parts = [shortage.target]
    if shortage.batch_size is not None:
        parts.append(f"batch {shortage.batch_size:,}")
    if shortage.step is not None:
        parts.append(f"step {shortage.step:,}")
    return " · ".join(parts)


def cause_line(shortage: Shortage) -> str:
    """Return the cause as a sentence."""
    sentence = shortage.cause.sentence
    return sentence[:1].upper() + sentence[1:]


def fact_lines(shortage: Shortage) -> list[tuple[str, str]]:
    """Return the known facts, each with its label: the request, the memory there was, the peak, and what fits."""
    peak = shortage.peak_bytes
    facts = [
        ("asked for", None if shortage.exhausted and shortage.request == Request() else request_line(shortage.request)),
        ("there was", room_line(shortage)),
        ("peak", None if peak is None else f"{format_bytes(peak)} highest use before"),
        ("fits", _fits_line(shortage)),
        ("after steps", _samples_line(shortage) if shortage.samples else None),
    ]
    facts += [("in the code", str(mistake)) for mistake in shortage.mistakes]
    return [(label, text) for label, text in facts if text is not None]


def request_line(request: Request) -> str:
    """Return the requested bytes, the node that requested them, and the device."""
    parts = []
    if request.bytes is not None:
        parts.append(format_bytes(request.bytes))
    if request.shape is not None:
        parts.append(shape_text(request.dtype or "", request.shape).strip())
    # NumPy allocates in the memory of the process, by no allocator of TensorFlow.
    is_numpy = request.allocator == "numpy"
    requester = request.node or request.op or ("NumPy" if is_numpy else None)
    if requester is not None:
        parts.append(f"by {requester}")
    if request.source is not None:
        parts.append(f"at {request.source}")
    where = [] if request.device is None else [request.device.rpartition("device:")[2]]
    if request.allocator is not None and not is_numpy:
        where.append(f"allocator {request.allocator}")
    if where:
        parts.append(f"on {', '.join(where)}")
    return " · ".join(parts) or "not known"


def room_line(shortage: Shortage) -> str | None:
    """Return how much was held and free; None if unknown."""
    parts = []
    if shortage.in_use_bytes is not None:
        parts.append(f"{format_bytes(shortage.in_use_bytes)} held")
    if shortage.free_bytes is not None:
        piece = shortage.largest_free_bytes
        in_one = "" if piece is None else f", {format_bytes(piece)} of it in one piece"
        parts.append(f"{format_bytes(shortage.free_bytes)} free{in_one}")
    if shortage.limit_bytes is not None:
        parts.append(f"limit {format_bytes(shortage.limit_bytes)}")
    return " · ".join(parts) or None


def _fits_line(shortage: Shortage) -> str | None:
    """Return what would have fitted; None if unknown."""
    parts = []
    if shortage.largest_batch_size is not None:
        parts.append(f"a batch of {shortage.largest_batch_size:,}")
    if shortage.planned_slowdown is not None:
        batch = "this batch" if shortage.batch_size is None else f"the batch of {shortage.batch_size:,}"
        parts.append(f"{batch} as planned, {shortage.planned_slowdown:+.0%} time")
    return " · ".join(parts) or None


def holder_text(holder: Owner) -> tuple[str, str, str]:
    """Return the owner of a buffer, its type, and the source line that made it."""
    owner = holder.layer or plain_name(holder) or holder.op or (f"({holder.kind})" if holder.kind else "(not named)")
    if holder.layer and holder.op:
        owner = f"{owner} ({holder.op})"
    # The column of lines names the file.
    owner = owner.removesuffix(f" of {(holder.source or '').rpartition(':')[0]}")
    shape = "" if holder.shape is None else shape_text(holder.dtype or "", holder.shape).strip()
    return owner, shape, holder.source or ""


def bar_parts(shortage: Shortage) -> tuple[tuple[str, int], ...] | None:
    """Return the parts of all memory: held, free in one piece, free elsewhere; None if unknown."""
    in_use, free = shortage.in_use_bytes, shortage.free_bytes
    if in_use is None or free is None or in_use + free <= 0:
        return None
    if shortage.largest_free_bytes is None:
        return (("held", in_use), ("free", free))
    piece = min(free, shortage.largest_free_bytes)
    return (("held", in_use), ("free in one piece", piece), ("free elsewhere", free - piece))


def _samples_line(shortage: Shortage) -> str:
    """Return the bytes in use after the first and the last recorded steps."""
    texts = [f"{step:,}: {format_bytes(size)}" for step, size in shortage.samples]
    return " · ".join(texts if len(texts) <= 6 else [*texts[:3], "…", *texts[-3:]])
