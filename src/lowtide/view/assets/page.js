(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { curve, buffers, kinds } = data;
  const points = curve.event.length;
  const peak = curve.event.indexOf(data.peak_event);
  const find = (id) => document.getElementById(id);
  const state = { at: peak, pointed: null, key: "bytes", descending: true, shown: 10, words: "" };

  function drawAnswers() {
    find("title").textContent = data.title;
    const answer = (what, value, why, mood = "") =>
      element("div", { class: `answer ${mood}` }, element("div", { class: "what" }, what),
        element("div", { class: "value" }, value), element("div", { class: "why" }, why));
    const cards = [
      answer("Peak", formatBytes(data.peak_bytes), [`at ${data.peak_place}`, data.recorded].filter((text) => text !== null).join("; ")),
      answer("Safe bound", formatBytes(data.safe_bytes), "a hard limit of this size does not run out"),
    ];
    if (data.predicted !== null) {
      const [, gap] = (data.predicted.gap ?? "").split(": ");
      cards.push(answer("Predicted", formatBytes(data.predicted.peak_bytes), gap ?? ""));
    }
    if (data.budget_bytes !== null) {
      const verdict = data.fits ? "Fits" : data.peak_bytes <= data.budget_bytes ? "May run out" : "Does not fit";
      cards.push(answer(`In ${formatBytes(data.budget_bytes)}`, verdict, data.verdict, data.fits ? "good" : "over"));
    }
    if (data.largest_batch !== null) {
      const [what, value] = data.largest_batch.split(": ");
      cards.push(value ? answer("Largest batch", value.split(" ")[0], data.largest_batch) : answer("Largest batch", "none", what));
    }
    find("answers").append(...cards);
    const used = kinds.filter((kind, row) => curve.strata[row].some((size) => size > 0));
    find("legend").append(...used.map((kind) => element("span", {}, swatch(kind.colour), kind.name)));
    if (data.predicted !== null) find("legend").append(element("span", {}, element("span", { class: "dashes" }), "predicted"));
  }

  const margin = { left: 76, right: 12, top: 26, bottom: 26 };
  let place = null;

  function drawCurve() {
    const chart = find("chart"), svg = find("curve");
    const width = chart.clientWidth, height = chart.clientHeight;
    const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
    place = {
      x: (event) => margin.left + (event / Math.max(curve.events - 1, 1)) * inner.width,
      y: (size) => margin.top + (1 - size / data.top_bytes) * inner.height,
      bottom: margin.top + inner.height, right: margin.left + inner.width, width,
    };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...drawGrid(), ...drawAreas(), ...drawPredicted(), ...drawLevels(), ...drawPeak(), shape("g", { id: "marks" }));
    drawMarks();
  }

  function drawGrid() {
    const lines = [];
    for (const size of byteTicks(data.top_bytes, 6)) {
      const y = place.y(size);
      lines.push(shape("line", { class: "grid", x1: margin.left, x2: place.right, y1: y, y2: y }),
        shape("text", { x: margin.left - 10, y: y + 4, "text-anchor": "end" }, size ? formatBytes(size) : "0"));
    }
    lines.push(shape("text", { x: margin.left, y: place.bottom + 19 }, "start of the step"),
      shape("text", { x: place.right, y: place.bottom + 19, "text-anchor": "end" }, `${(curve.events - 1).toLocaleString("en")} events`));
    return lines;
  }

  function drawAreas() {
    let lower = new Array(points).fill(0);
    return kinds.map((kind, row) => {
      const upper = lower.map((size, point) => size + curve.strata[row][point]);
      const at = (sizes) => (point) => `${place.x(curve.event[point]).toFixed(1)},${place.y(sizes[point]).toFixed(1)}`;
      const forth = [...upper.keys()], back = [...upper.keys()].reverse();
      const outline = [...forth.map(at(upper)), ...back.map(at(lower))].join(" ");
      lower = upper;
      return shape("polygon", { fill: kind.colour, points: outline, "data-kind": kind.name });
    });
  }

  // Steps of any number of events take the whole width.
  function drawPredicted() {
    if (data.predicted === null) return [];
    const { event, bytes, events } = data.predicted;
    const at = (point) => `${place.x((event[point] / Math.max(events - 1, 1)) * (curve.events - 1)).toFixed(1)},${place.y(bytes[point]).toFixed(1)}`;
    return [shape("polyline", { class: "predicted", points: event.map((_, point) => at(point)).join(" ") })];
  }

  function drawLevels() {
    const level = (name, size, text) => {
      const y = place.y(size);
      return [shape("line", { class: name, x1: margin.left, x2: place.right, y1: y, y2: y }),
        shape("text", { class: `${name}-label`, x: place.right, y: y - 6, "text-anchor": "end" }, text)];
    };
    const lines = level("safe", data.safe_bytes, `safe bound ${formatBytes(data.safe_bytes)}`);
    if (data.budget_bytes !== null && data.budget_bytes <= data.top_bytes) {
      lines.push(...level("budget", data.budget_bytes, `budget ${formatBytes(data.budget_bytes)}`));
    }
    return lines;
  }

  function drawPeak() {
    const x = place.x(data.peak_event), y = place.y(curve.bytes[peak]);
    const early = x < place.width / 2;
    return [shape("circle", { class: "dot", cx: x, cy: y, r: 5 }),
      shape("text", { class: "peak-label", x: x + (early ? 10 : -10), y: y - 9, "text-anchor": early ? "start" : "end" },
        `peak ${formatBytes(data.peak_bytes)}`)];
  }

  function drawMarks() {
    const line = (point, name) => {
      const x = place.x(curve.event[point]);
      return shape("line", { class: name, x1: x, x2: x, y1: margin.top, y2: place.bottom });
    };
    const marks = [];
    if (state.pointed !== null) marks.push(line(state.pointed, "pointer"));
    if (state.at !== peak) marks.push(line(state.at, "chosen"));
    find("marks").replaceChildren(...marks);
  }

  const nodeAt = (point) => (curve.node[point] === null ? "before the step" : curve.nodes[curve.node[point]]);

  function drawTooltip() {
    const tooltip = find("tooltip"), point = state.pointed;
    tooltip.hidden = point === null;
    if (point === null) return;
    const rows = kinds.map((kind, row) => ({ kind, size: curve.strata[row][point] })).filter((entry) => entry.size > 0)
      .sort((one, other) => other.size - one.size)
      .map(({ kind, size }) => element("div", { class: "row" }, swatch(kind.colour), element("span", {}, kind.name), element("span", {}, formatBytes(size))));
    tooltip.replaceChildren(element("div", {}, element("b", {}, formatBytes(curve.bytes[point])), ` after event ${curve.event[point].toLocaleString("en")}`),
      element("div", { class: "node" }, nodeAt(point)), ...rows);
    const x = place.x(curve.event[point]);
    tooltip.style.left = `${x + 290 > place.width ? x - 268 - 14 : x + 14}px`;
  }

  function aliveAt(event) {
    const rows = [];
    for (let row = 0; row < buffers.count; row += 1) {
      if (buffers.born[row] <= event && event < buffers.died[row]) rows.push(row);
    }
    return rows;
  }
  const read = (column, row) => (buffers[column][row] === null ? null : buffers[`${column}s`][buffers[column][row]]);

  function drawMoment() {
    const event = curve.event[state.at], total = curve.bytes[state.at];
    find("moment").textContent = state.at === peak ? `At the peak: ${data.peak_place}` : `${formatBytes(total)} in use after event ${event.toLocaleString("en")}: ${nodeAt(state.at)}`;
    find("to-peak").hidden = state.at === peak;
    const rows = aliveAt(event);
    drawKinds();
    drawLayers(rows);
    drawTensors(rows);
  }

  function bar(label, size, most, parts) {
    const track = element("div", { class: "track" },
      ...parts.map(([colour, part]) => element("div", { style: `background:${colour};width:${(100 * part) / most}%` })));
    return element("div", { class: "bar" }, element("div", { class: "label", title: label }, label), track, element("div", { class: "size" }, formatBytes(size)));
  }

  function drawKinds() {
    const shares = kinds.map((kind, row) => ({ ...kind, size: curve.strata[row][state.at] })).filter((share) => share.size > 0)
      .sort((one, other) => other.size - one.size);
    const most = Math.max(1, ...shares.map((share) => share.size));
    find("by-kind").replaceChildren(...shares.map((share) => bar(share.name, share.size, most, [[share.colour, share.size]])));
  }

  function drawLayers(rows) {
    const layers = new Map();
    for (const row of rows) {
      const layer = read("layer", row) ?? "(no layer)";
      const held = layers.get(layer) ?? { size: 0, parts: new Map() };
      held.size += buffers.bytes[row];
      held.parts.set(buffers.kind[row], (held.parts.get(buffers.kind[row]) ?? 0) + buffers.bytes[row]);
      layers.set(layer, held);
    }
    const largest = [...layers].sort((one, other) => other[1].size - one[1].size).slice(0, 10);
    const most = largest.length ? largest[0][1].size : 1;
    find("by-layer").replaceChildren(...largest.map(([layer, held]) =>
      bar(layer, held.size, most, [...held.parts].sort((one, other) => one[0] - other[0]).map(([kind, part]) => [kinds[kind].colour, part]))));
  }

  function drawTensors(rows) {
    const value = { bytes: (row) => buffers.bytes[row], name: (row) => buffers.name[row] };
    const key = value[state.key] ?? ((row) => read(state.key, row) ?? "");
    const matching = rows.filter((row) => {
      const text = [buffers.name[row], read("layer", row), read("op", row), read("source", row)].join(" ").toLowerCase();
      return state.words.split(" ").every((word) => text.includes(word));
    });
    const sign = state.descending ? -1 : 1;
    matching.sort((one, other) => { const [a, b] = [key(one), key(other)]; return sign * (a < b ? -1 : a > b ? 1 : 0); });
    const listed = matching.slice(0, state.shown);
    find("tensors").tBodies[0].replaceChildren(...listed.map(tensorRow));
    for (const head of find("tensors").tHead.rows[0].cells) {
      head.setAttribute("aria-sort", head.dataset.key === state.key ? (state.descending ? "descending" : "ascending") : "none");
    }
    const rest = curve.bytes[state.at] - listed.reduce((sum, row) => sum + buffers.bytes[row], 0);
    find("rest").textContent = state.words ? `${matching.length.toLocaleString("en")} match` : rest > 0 ? `The rest holds ${formatBytes(rest)}.` : "";
    find("more").hidden = matching.length <= state.shown;
  }

  function tensorRow(row) {
    const cell = (text, name = "") => element("td", { class: name, title: text ?? "" }, text ?? "");
    const kind = kinds[buffers.kind[row]];
    const layer = element("td", { title: kind.name }, swatch(kind.colour), read("layer", row) ?? `(${kind.name})`);
    return element("tr", {}, layer, cell(read("op", row)), cell(buffers.name[row], "dim"), cell(read("shape", row)),
      cell(formatBytes(buffers.bytes[row]), "number"), cell(read("source", row), "dim"));
  }

  function drawGrounds() {
    const facts = [["method", data.method], ["limit", data.limit], ["free space", data.free], ["split by", data.pinning], ["building", data.building], ["not modelled", data.unmodelled], ...data.notes.map((note) => ["note", note])];
    find("grounds").append(...facts.filter(([, text]) => text !== null).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  }

  const pointAt = (x) => nearest(curve.event, ((x - margin.left) / (place.right - margin.left)) * (curve.events - 1));

  function choose(point) {
    state.at = Math.min(points - 1, Math.max(0, point));
    drawMarks();
    drawMoment();
    markSpace();
  }
  function pointTo(point) {
    state.pointed = point;
    drawMarks();
    drawTooltip();
  }

  function listen() {
    const chart = find("chart");
    chart.addEventListener("pointermove", (move) => pointTo(pointAt(move.clientX - chart.getBoundingClientRect().left)));
    chart.addEventListener("pointerleave", () => pointTo(null));
    chart.addEventListener("click", (click) => choose(pointAt(click.clientX - chart.getBoundingClientRect().left)));
    chart.addEventListener("keydown", (key) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[key.key];
      if (step === undefined) return;
      key.preventDefault();
      choose(state.at + step * (key.shiftKey ? 10 : 1));
    });
    find("to-peak").addEventListener("click", () => choose(peak));
    find("more").addEventListener("click", () => { state.shown += 50; drawMoment(); });
    find("filter").addEventListener("input", (input) => { state.words = input.target.value.trim().toLowerCase(); drawMoment(); });
    find("tensors").tHead.addEventListener("click", (click) => {
      const key = click.target.dataset.key;
      state.descending = key === state.key ? !state.descending : key === "bytes";
      state.key = key;
      drawMoment();
    });
    const root = document.documentElement;
    find("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });
    new ResizeObserver(drawCurve).observe(chart);
  }

  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  drawAnswers();
  drawGrounds();
  drawCurve();
  drawMoment();
  const markSpace = drawAddressSpace({ data, find, element, shape, swatch, formatBytes, read, margin, choose, chosen: () => state.at });
  listen();
})();
