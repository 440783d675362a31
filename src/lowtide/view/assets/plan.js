// A plan: the step before and after over each other, what other budgets cost, and the list of what is done.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const share = (slowdown) => `${slowdown < 0 ? "-" : "+"}${Math.abs(Math.round(100 * slowdown))}%`;

  // What both charts have: a place to draw in that follows the window, marks over it, a tooltip, and the keyboard.
  // `draw(place)` returns the ground; `marks(at)`, `tell(at)` and `words(at)` are for what is pointed to.
  function chartOf(name, margin, { draw, marks, tell, words, at, move, first }) {
    const chart = find(name), svg = chart.querySelector("svg"), tooltip = chart.querySelector(".tooltip"), spoken = find(`${name}-read`);
    const place = { margin };
    let pointed = null;

    function redraw() {
      place.width = chart.clientWidth;
      place.right = place.width - margin.right;
      place.bottom = chart.clientHeight - margin.bottom;
      svg.setAttribute("viewBox", `0 0 ${place.width} ${chart.clientHeight}`);
      svg.replaceChildren(...draw(place), shape("g", { class: "marks" }));
      point(pointed);
    }
    function point(to) {
      pointed = to;
      tooltip.hidden = to === null;
      svg.querySelector(".marks").replaceChildren(...(to === null ? [] : marks(place, to)));
      if (to === null) return;
      const [x, ...rows] = tell(place, to);
      tooltip.replaceChildren(...rows);
      const beside = x + 14 + tooltip.offsetWidth > place.width ? x - 14 - tooltip.offsetWidth : x + 14;
      tooltip.style.left = `${Math.max(0, Math.min(beside, place.width - tooltip.offsetWidth))}px`;
    }
    chart.addEventListener("pointermove", (event) => point(at(place, event.clientX - chart.getBoundingClientRect().left)));
    chart.addEventListener("pointerleave", () => point(null));
    chart.addEventListener("blur", () => point(null));
    chart.addEventListener("keydown", (key) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[key.key];
      if (step === undefined && key.key !== "Escape") return;
      key.preventDefault();
      point(step === undefined ? null : pointed === null ? first() : move(pointed, step * (key.shiftKey ? 10 : 1)));
      spoken.textContent = pointed === null ? "" : words(pointed);
    });
    redraw();
    new ResizeObserver(redraw).observe(chart);
  }

  const row = (colour, name, text) => element("div", { class: "row" }, swatch(colour), element("span", {}, name), element("span", {}, text));
  const upright = (place, name, x) => shape("line", { class: name, x1: x, x2: x, y1: place.margin.top, y2: place.bottom });
  const across = (place, name, y) => shape("line", { class: name, x1: place.margin.left, x2: place.right, y1: y, y2: y });

  function drawCurves() {
    const { curves, top_bytes: top, budget_bytes: budget } = data;
    const x = (place, part) => place.margin.left + part * (place.right - place.margin.left);
    const y = (place, size) => place.bottom - (size / top) * (place.bottom - place.margin.top);
    const partOf = (curve, point) => curve.event[point] / Math.max(curve.events - 1, 1);
    const pointOf = (curve, part) => nearest(curve.event, part * (curve.events - 1));
    const dot = (place, curve, point, radius) =>
      shape("circle", { class: "dot", style: `fill:${curve.colour}`, cx: x(place, partOf(curve, point)), cy: y(place, curve.bytes[point]), r: radius });

    function ground(place) {
      const grid = byteTicks(top, 6).flatMap((size) => [across(place, "grid", y(place, size)),
        shape("text", { x: place.margin.left - 10, y: y(place, size) + 4, "text-anchor": "end" }, size ? formatBytes(size) : "0")]);
      const ends = [shape("text", { x: place.margin.left, y: place.bottom + 19 }, "start of the step"),
        shape("text", { x: place.right, y: place.bottom + 19, "text-anchor": "end" }, "its end")];
      const lines = curves.flatMap((curve) => {
        const points = curve.event.map((_, point) => `${x(place, partOf(curve, point)).toFixed(1)},${y(place, curve.bytes[point]).toFixed(1)}`).join(" ");
        return [shape("polygon", { class: "area", fill: curve.colour, points: `${x(place, 0)},${place.bottom} ${points} ${place.right},${place.bottom}` }),
          shape("polyline", { class: "curve", stroke: curve.colour, points })];
      });
      return [...grid, ...ends, ...lines, ...level(place), ...curves.flatMap((curve) => peak(place, curve))];
    }
    function level(place) {
      if (budget > top) return [];
      const at = y(place, budget);
      return [across(place, "budget", at),
        // A step begins with little in use, so there is room for the text.
        shape("text", { class: "budget-label", x: place.margin.left + 4, y: at - 6 }, `budget ${formatBytes(budget)}`)];
    }
    function peak(place, curve) {
      const point = curve.event.indexOf(curve.peak_event), left = x(place, partOf(curve, point)), early = left < place.width / 2;
      // Above its dot, unless the line of the budget runs there.
      const top = y(place, curve.bytes[point]), over = top - 9 - y(place, budget);
      return [dot(place, curve, point, 5), shape("text",
        { class: "peak-label", x: left + (early ? 10 : -10), y: over > -5 && over < 13 ? top + 32 : top - 9, "text-anchor": early ? "start" : "end" },
        `${curve.name} ${formatBytes(curve.peak_bytes)}`)];
    }
    const percent = (part) => `${Math.round(100 * part)}% of the step`;
    const nodeOf = (curve, point) => (curve.node[point] === null ? null : curve.nodes[curve.node[point]]);

    chartOf("curves", { left: 76, right: 12, top: 26, bottom: 26 }, {
      draw: ground,
      at: (place, left) => Math.min(1, Math.max(0, (left - place.margin.left) / (place.right - place.margin.left))),
      first: () => curves.at(-1).peak_event / Math.max(curves.at(-1).events - 1, 1),
      move: (part, step) => Math.min(1, Math.max(0, part + step / 100)),
      marks: (place, part) => [upright(place, "pointer", x(place, part)), ...curves.map((curve) => dot(place, curve, pointOf(curve, part), 4))],
      tell: (place, part) => [x(place, part), element("b", {}, percent(part)), ...curves.flatMap((curve) => {
        const point = pointOf(curve, part), node = nodeOf(curve, point);
        return [row(curve.colour, curve.name, formatBytes(curve.bytes[point])), element("div", { class: "node" }, node ?? "before the step")];
      })],
      words: (part) => [percent(part), ...curves.map((curve) => `${curve.name} ${formatBytes(curve.bytes[pointOf(curve, part)])}`)].join(", "),
    });
  }

  function drawFrontier() {
    if (data.frontier === null) return;
    const { points, steps, top_bytes: top, top_slowdown: highest, colour } = data.frontier;
    const budget = data.budget_bytes;
    const x = (place, size) => place.margin.left + (size / top) * (place.right - place.margin.left);
    const y = (place, slowdown) => place.bottom - (Math.max(slowdown, 0) / highest) * (place.bottom - place.margin.top);
    const dot = (place, point, name, radius) => shape("circle", { class: name, cx: x(place, point.bytes), cy: y(place, point.slowdown), r: radius });

    // Round steps of time: 1, 2 or 5 times a power of ten percent, at most five of them.
    function timeTicks() {
      const candidates = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
      const step = candidates.find((each) => highest / each <= 5) ?? highest / 5;
      return Array.from({ length: Math.floor(highest / step) + 1 }, (_, tick) => tick * step);
    }
    // From the smallest budget to the right: each point's time, until the next larger budget costs less.
    function stairs(place) {
      const rising = [...steps].reverse();
      const path = rising.map((point, index) => `${index ? "H" : "M"}${x(place, point.bytes).toFixed(1)}${index ? "V" : " "}${y(place, point.slowdown).toFixed(1)}`).join("");
      return `${path}H${place.right}`;
    }
    function ground(place) {
      const sizes = byteTicks(top, Math.max(2, Math.floor(place.width / 110)));
      const grid = [
        ...timeTicks().flatMap((slowdown) => [across(place, "grid", y(place, slowdown)),
          shape("text", { x: place.margin.left - 10, y: y(place, slowdown) + 4, "text-anchor": "end" }, share(slowdown))]),
        ...sizes.map((size) => shape("text", { x: x(place, size), y: place.bottom + 19, "text-anchor": size ? "middle" : "start" }, size ? formatBytes(size) : "0")),
      ];
      const path = stairs(place), start = x(place, steps.at(-1).bytes);
      const lines = [shape("path", { class: "area", fill: colour, d: `${path}V${place.bottom}H${start}z` }),
        shape("path", { class: "curve", stroke: colour, d: path })];
      return [...grid, ...lines, ...limit(place), ...points.map((point) => dot(place, point, point.name ? "dot" : "found", point.name ? 5 : 3)),
        ...labelled(place).map((point) => label(place, point))];
    }
    // Of names that would lie over each other the plan's stays.
    function labelled(place) {
      const kept = [];
      const near = (one, other) => Math.abs(x(place, one.bytes) - x(place, other.bytes)) < 70 && Math.abs(y(place, one.slowdown) - y(place, other.slowdown)) < 16;
      for (const point of points.filter((each) => each.name).sort((one, other) => other.chosen - one.chosen)) {
        if (!kept.some((other) => near(point, other))) kept.push(point);
      }
      return kept;
    }
    function limit(place) {
      if (budget > top) return [];
      const left = x(place, budget), early = left < place.width / 2;
      return [upright(place, "budget", left), shape("text",
        { class: "budget-label", x: left + (early ? 6 : -6), y: place.margin.top - 8, "text-anchor": early ? "start" : "end" }, `budget ${formatBytes(budget)}`)];
    }
    function label(place, point) {
      const left = x(place, point.bytes), early = left < place.width / 2;
      return shape("text", { class: "peak-label", x: left + (early ? 8 : -8), y: y(place, point.slowdown) - 9, "text-anchor": early ? "start" : "end" }, point.name);
    }

    chartOf("frontier", { left: 52, right: 16, top: 30, bottom: 26 }, {
      draw: ground,
      at: (place, left) => points.reduce((best, point, index) =>
        Math.abs(x(place, point.bytes) - left) < Math.abs(x(place, points[best].bytes) - left) ? index : best, 0),
      first: () => Math.max(0, points.findIndex((point) => point.chosen)),
      // The list falls in memory, and memory grows to the right.
      move: (index, step) => Math.min(points.length - 1, Math.max(0, index - step)),
      marks: (place, index) => [upright(place, "pointer", x(place, points[index].bytes)), dot(place, points[index], "dot", 6)],
      tell: (place, index) => {
        const point = points[index];
        return [x(place, point.bytes), element("b", {}, `${formatBytes(point.bytes)}, ${share(point.slowdown)} time`),
          element("div", {}, [`${point.recomputed.toLocaleString("en")} recomputed`, point.name].filter(Boolean).join(" · "))];
      },
      words: (index) => points[index].words,
    });
  }

  // The rows are there from the start; they are only put in order, filtered and cut short.
  function listActions() {
    const table = find("actions");
    if (table === null) return;
    const body = table.tBodies[0], rows = [...body.rows], few = 20;
    const state = { words: "", shown: few };
    const value = (each, column) => { const { value: number } = each.cells[column].dataset; return number === undefined ? each.cells[column].textContent : Number(number); };

    function show() {
      let matching = 0;
      for (const each of body.rows) {
        const matches = state.words.split(" ").every((word) => each.textContent.toLowerCase().includes(word));
        each.hidden = !matches || matching >= state.shown;
        matching += matches;
      }
      find("more").hidden = matching <= state.shown;
      find("more").textContent = `Show all ${matching.toLocaleString("en")}`;
    }
    function sort(head) {
      const column = head.cellIndex, falls = head.getAttribute("aria-sort") === "descending" ? false : head.getAttribute("aria-sort") === "ascending" || head.classList.contains("number");
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const order = (one, other) => { const [a, b] = [value(one, column), value(other, column)]; return a < b ? -1 : a > b ? 1 : 0; };
      body.append(...rows.sort((one, other) => (falls ? -order(one, other) : order(one, other))));
      show();
    }
    table.tHead.addEventListener("click", (click) => { if (click.target.closest("button")) sort(click.target.closest("th")); });
    find("filter").addEventListener("input", (input) => { state.words = input.target.value.trim().toLowerCase(); show(); });
    find("more").addEventListener("click", () => { state.shown = Infinity; show(); });
    show();
  }

  drawCurves();
  drawFrontier();
  listActions();
})();
