"use strict";
// The address space over the step: draws data.space, and returns what page.js calls when a moment is chosen.
function drawAddressSpace({ data, find, element, shape, swatch, formatBytes, read, margin, choose, chosen }) {
  const { space, curve, buffers, kinds } = data;
  if (space === null) return () => {};
  const { tiles } = space;
  const chart = find("space"), tooltip = find("space-tooltip");
  let place = null, pointed = null;
  find("space-section").hidden = false;

  function draw() {
    const width = chart.clientWidth, height = chart.clientHeight, bottom = height - margin.bottom;
    const inner = { width: width - margin.left - margin.right, height: bottom - margin.top };
    place = {
      x: (event) => margin.left + (event / curve.events) * inner.width,
      y: (share) => bottom - share * inner.height,
      eventAt: (x) => ((x - margin.left) / inner.width) * curve.events,
      shareAt: (y) => (bottom - y) / inner.height,
      width, height, bottom, right: margin.left + inner.width,
    };
    const svg = find("addresses");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...drawGround(), ...drawTiles(), ...drawFolds(), shape("g", { id: "space-marks" }));
    drawMarks();
  }

  const outline = (left, right, low, high) =>
    `M${left.toFixed(1)} ${low.toFixed(1)}H${Math.max(right, left + 0.5).toFixed(1)}V${Math.min(high, low - 0.5).toFixed(1)}H${left.toFixed(1)}z`;
  const tileOutline = (tile) =>
    outline(place.x(tiles.born[tile]), place.x(tiles.died[tile]), place.y(tiles.low[tile]), place.y(tiles.high[tile]));

  function drawGround() {
    const free = space.bands.map(([low, high]) => outline(margin.left, place.right, place.y(low), place.y(high))).join("");
    const ticks = space.ticks.map(([share, size]) =>
      shape("text", { x: margin.left - 10, y: place.y(share) + 4, "text-anchor": "end" }, size ? formatBytes(size) : "0"));
    return [shape("path", { class: "free", d: free }), ...ticks,
      shape("text", { x: margin.left, y: place.bottom + 19 }, "start of the step"),
      shape("text", { x: place.right, y: place.bottom + 19, "text-anchor": "end" }, `${(curve.events - 1).toLocaleString("en")} events`)];
  }

  // One path for each look, so that thousands of buffers are a few elements. Only the largest get an edge.
  function drawTiles() {
    const looks = new Map();
    for (let tile = 0; tile < tiles.born.length; tile += 1) {
      const tall = place.y(tiles.low[tile]) - place.y(tiles.high[tile]) > 3;
      const key = [tiles.kind[tile], tiles.shade[tile], tall].join(" ");
      const look = looks.get(key) ?? { kind: tiles.kind[tile], shade: tiles.shade[tile], tall, outlines: [] };
      look.outlines.push(tileOutline(tile));
      looks.set(key, look);
    }
    return [...looks.values()].map(({ kind, shade, tall, outlines }) => shape("path",
      { class: tall ? "tile" : "", fill: kinds[kind].colour, "fill-opacity": shade, d: outlines.join("") }));
  }

  function drawFolds() {
    const waves = "q4 -4 8 0t8 0".repeat(Math.max(0, Math.floor((place.right - margin.left) / 16)));
    return space.folds.map(([low, high, size]) =>
      shape("path", { class: "fold", d: `M${margin.left} ${(place.y(low) + place.y(high)) / 2}${waves}` },
        shape("title", {}, `${formatBytes(size)} that no buffer of this step covers, folded`)));
  }

  function drawMarks() {
    const x = place.x(curve.event[chosen()] + 0.5);
    const marks = [shape("line", { class: "chosen", x1: x, x2: x, y1: margin.top, y2: place.bottom })];
    if (pointed !== null) marks.push(shape("path", { class: "pointed", d: tileOutline(pointed) }));
    find("space-marks").replaceChildren(...marks);
    const point = chosen();
    find("space-free").textContent = space.free[point] === 0
      ? `Nothing lies free between the buffers after event ${curve.event[point].toLocaleString("en")}.`
      : `${formatBytes(space.free[point])} lie free after event ${curve.event[point].toLocaleString("en")}, the largest block is ${formatBytes(space.largest[point])}.`;
  }

  // What is known about a tile, from its name down.
  function facts(tile) {
    const row = tiles.row[tile], kind = kinds[tiles.kind[tile]].name;
    if (row === null) return { name: `many small buffers, most of them ${kind}`, kind, texts: [] };
    const life = `events ${tiles.born[tile].toLocaleString("en")} to ${tiles.died[tile].toLocaleString("en")}`;
    return { name: buffers.name[row], kind, texts: [read("layer", row), read("shape", row), formatBytes(buffers.bytes[row]), life].filter((text) => text !== null) };
  }

  function pointTo(tile) {
    pointed = tile;
    drawMarks();
    tooltip.hidden = tile === null;
    if (tile === null) return;
    const { name, kind, texts } = facts(tile);
    tooltip.replaceChildren(element("div", {}, swatch(kinds[tiles.kind[tile]].colour), ` ${kind}`),
      element("div", { class: "node" }, name), ...texts.map((text) => element("div", {}, text)));
    const middle = (place.x(tiles.born[tile]) + place.x(tiles.died[tile])) / 2;
    const left = middle > place.width / 2 ? middle - tooltip.offsetWidth - 14 : middle + 14;
    tooltip.style.left = `${Math.max(0, Math.min(left, place.width - tooltip.offsetWidth))}px`;
    const y = place.y(tiles.low[tile]);
    tooltip.style.top = `${Math.max(0, y + 10 + tooltip.offsetHeight > place.height ? place.y(tiles.high[tile]) - tooltip.offsetHeight - 10 : y + 10)}px`;
  }

  const alive = (tile, event) => tiles.born[tile] <= event && event < tiles.died[tile];
  function tileAt(x, y) {
    const event = place.eventAt(x), share = place.shareAt(y), near = 2 / (place.bottom - margin.top);
    let found = null, nearest = near;
    // Thin buffers are hit from a little off; exact ones lie over merged cells, and come last.
    for (let tile = 0; tile < tiles.born.length; tile += 1) {
      if (!alive(tile, event)) continue;
      const away = Math.max(tiles.low[tile] - share, share - tiles.high[tile], 0);
      if (away <= nearest) { found = tile; nearest = away; }
    }
    return found;
  }

  // Up and down: through the buffers that are alive at the chosen moment, by their addresses.
  function climb(step) {
    const event = curve.event[chosen()];
    const ladder = [...tiles.born.keys()].filter((tile) => tiles.row[tile] !== null && alive(tile, event))
      .sort((one, other) => tiles.low[one] - tiles.low[other]);
    if (!ladder.length) return;
    const at = ladder.indexOf(pointed);
    const next = at < 0 ? (step > 0 ? 0 : ladder.length - 1) : Math.min(ladder.length - 1, Math.max(0, at + step));
    pointTo(ladder[next]);
    const { name, kind, texts } = facts(ladder[next]);
    find("space-read").textContent = [name, kind, ...texts].join(", ");
  }

  function listen() {
    const at = (move) => { const box = chart.getBoundingClientRect(); return [move.clientX - box.left, move.clientY - box.top]; };
    chart.addEventListener("pointermove", (move) => pointTo(tileAt(...at(move))));
    chart.addEventListener("pointerleave", () => pointTo(null));
    chart.addEventListener("blur", () => pointTo(null));
    chart.addEventListener("click", (click) => {
      const event = Math.floor(place.eventAt(at(click)[0]));
      const point = curve.event.findIndex((each) => each >= event);
      choose(point < 0 ? curve.event.length - 1 : point);
    });
    chart.addEventListener("keydown", (key) => {
      const aside = { ArrowLeft: -1, ArrowRight: 1 }[key.key], up = { ArrowUp: 1, ArrowDown: -1 }[key.key];
      if (aside === undefined && up === undefined && key.key !== "Escape") return;
      key.preventDefault();
      if (aside !== undefined) choose(chosen() + aside * (key.shiftKey ? 10 : 1));
      else if (up !== undefined) climb(up);
      else pointTo(null);
    });
    new ResizeObserver(draw).observe(chart);
  }

  chart.setAttribute("aria-label", `Addresses over the step, ${formatBytes(space.bytes)}; ${space.holes}`);
  draw();
  listen();
  return drawMarks;
}
