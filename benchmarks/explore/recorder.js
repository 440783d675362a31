// Installed before a page's own scripts: says what blocks the page, and does in it what a user would do.
(() => {
  if (window !== window.top) return;
  const tasks = [];
  const gaps = [];
  const patience = 60_000;

  // Tasks of more than 50 ms, as the browser counts them.
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) tasks.push([entry.startTime, entry.duration]);
  }).observe({ type: 'longtask', buffered: true });

  // From one frame to the next.
  let last = null;
  const tick = () => {
    const now = performance.now();
    if (last !== null && now - last > 30) gaps.push([last, now - last]);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);

  const longest = (list, since) => Math.max(0, ...list.filter(([start]) => start >= since).map(([, length]) => length));
  const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  /** Calls `act`, and waits until `done` is true; it is asked whenever the page changes. Null when it never is. */
  function until(done, act) {
    return new Promise((resolve) => {
      const finish = (value) => {
        observer.disconnect();
        clearTimeout(timer);
        resolve(value);
      };
      const start = performance.now();
      const observer = new MutationObserver(() => done() && finish(performance.now() - start));
      const timer = setTimeout(() => finish(null), patience);
      observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      act();
    });
  }

  const rowOf = (id) => [...document.querySelectorAll('[role=treeitem][aria-expanded]')].find((row) => row.dataset.id === id);
  const isOpen = (id) => rowOf(id)?.getAttribute('aria-expanded') === 'true';
  const drawn = () => Number(document.documentElement.dataset.drawn ?? 0);

  window.recorder = {
    now: () => performance.now(),

    longest: (since = 0) => ({ task: longest(tasks, since), gap: longest(gaps, since) }),

    /** Opens or closes a box by its place in the outline: until it is in the page, and until the drawing rests. */
    async toggle(id) {
      const before = drawn();
      const wanted = !isOpen(id);
      const start = performance.now();
      let shown = null;
      const rest = await until(() => {
        if (shown === null && isOpen(id) === wanted) shown = performance.now() - start;
        return shown !== null && drawn() > before;
      }, () => rowOf(id).querySelector('.twist').click());
      return { shown, rest };
    },

    /** Types a text, each letter once the answer to those before it is shown; gives the time of each. */
    async type(text) {
      const input = document.querySelector('input[type=search]');
      const results = document.querySelector('.results');
      const shown = [];
      for (let length = 1; length <= text.length; length += 1) {
        const before = results.firstChild;
        shown.push(await until(() => results.firstChild !== before && !results.hidden, () => {
          input.value = text.slice(0, length);
          input.dispatchEvent(new InputEvent('input', { bubbles: true }));
        }));
        await sleep(50);
      }
      input.value = '';
      input.dispatchEvent(new InputEvent('input', { bubbles: true }));
      return shown;
    },

    /** How long the server took for each search since the last call. */
    answers() {
      const found = performance.getEntriesByType('resource').filter(({ name, responseStatus }) => name.includes('/search?') && responseStatus === 200);
      performance.clearResourceTimings();
      return found.map(({ requestStart, responseEnd }) => responseEnd - requestStart);
    },

    /** Moves the drawing in every frame, to one side and back. */
    async pan(milliseconds) {
      const canvas = document.querySelector('canvas.stage');
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const frames = [];
      const start = performance.now();
      while (performance.now() - start < milliseconds) {
        frames.push(await new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now()))));
        const deltaY = frames.length % 120 < 60 ? 4 : -4;
        canvas.dispatchEvent(new WheelEvent('wheel', {
          deltaY, shiftKey: true, bubbles: true, cancelable: true, clientX: left + width / 2, clientY: top + height / 2,
        }));
      }
      const times = frames.slice(1).map((time, index) => time - frames[index]);
      return { frames: times.length, milliseconds: frames.at(-1) - frames[0], longest: Math.max(...times) };
    },

    /** How many boxes are at least in part on the canvas. */
    visible() {
      const area = document.querySelector('canvas.stage').getBoundingClientRect();
      return window.lowtide.drawn().filter(({ x, y, width, height }) =>
        x < area.right && x + width > area.left && y < area.bottom && y + height > area.top).length;
    },

    /** When TensorBoard's graph was drawn; set by what follows. */
    peerDrawing: null,
  };

  // TensorBoard draws SVG somewhere below several shadow roots.
  function hasNodes(root) {
    for (const child of root.querySelectorAll('*')) {
      if (child.localName === 'tf-graph-scene') return (child.shadowRoot ?? child).querySelector('g.node') !== null;
      if (child.shadowRoot && hasNodes(child.shadowRoot)) return true;
    }
    return false;
  }
  if (location.hash.startsWith('#graphs')) {
    const timer = setInterval(() => {
      if (!document.body || !hasNodes(document)) return;
      window.recorder.peerDrawing = performance.now();
      clearInterval(timer);
    }, 100);
  }
})();
