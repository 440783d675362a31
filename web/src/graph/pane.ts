// One graph on a canvas: what is open in it, what is selected, and how both change.
import type { Item } from '../api';
import { countOf } from '../amounts';
import type { Theme } from '../context';
import { isAbort } from '../notice';
import { createColouring, type LegendEntry } from './colours';
import { nearestInDirection, type Arrow } from './direction';
import type { Look } from './display';
import { readGeometry } from './geometry';
import { layoutInWorker } from './layout/client';
import { layoutInput } from './measures';
import { paletteOf } from './palette';
import { canOpen, Scene, type Box } from './scene';
import type { Source } from './source';
import { Stage } from './stage';
import { createMeasure } from './text';

interface PaneHandlers {
  /** What is open or selected changed by the user's hand (or a limit), not by an address. */
  changed(what: 'open' | 'select'): void;
  /** A drawing is complete. */
  completed(): void;
  /** The scene is another or was changed; nothing was drawn yet. */
  rebuilt(): void;
  notice(text: string): void;
  failed(problem: unknown): void;
}

/** What is drawn at most; beyond it the oldest open scope closes. */
const mostBoxes = 2000;
const measure = createMeasure();

export class Pane {
  readonly stage: Stage;
  scene: Scene | null = null;
  selected: string | null = null;
  private source: Source | null = null;
  private name = '';
  private work = new AbortController();
  private layoutTurn = 0;
  private theme: Theme = 'light';
  private colour = '';
  private readonly loading = new Set<string>();

  constructor(private readonly handlers: PaneHandlers) {
    this.stage = new Stage({
      choose: (box) => this.choose(box?.id ?? null),
      toggle: (box) => void this.toggle(box.id),
      completed: () => handlers.completed(),
    });
  }

  /** Show another source; with the same name as before (only colours differ) the view stays where it is. */
  async load(source: Source, name: string, open: string[], select: string | null): Promise<void> {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work;
    try {
      const scene = new Scene(await source.root(signal));
      const anchor = this.name === name ? this.scene?.root.boxes[0]?.id ?? null : null;
      this.source = source;
      this.name = name;
      this.scene = scene;
      this.mark(null);
      this.handlers.rebuilt();
      await this.openAll(open, signal);
      if (select !== null && scene.box(select)) this.mark(select);
      await this.draw(anchor);
      if (anchor === null && this.selected !== null) this.stage.centre(this.selected);
    } catch (problem) {
      if (!isAbort(problem)) this.handlers.failed(problem);
    }
  }

  /** Make exactly these boxes open: an address was entered, or another pane is kept in step. */
  async setOpen(ids: string[]): Promise<void> {
    const { scene } = this;
    if (!scene) return;
    const wanted = new Set(ids);
    const extra = scene.openIds.filter((id) => !wanted.has(id));
    const missing = ids.filter((id) => !scene.box(id)?.inner);
    if (!extra.length && !missing.length) return;
    const anchor = missing.find((id) => scene.box(id)) ?? extra[0] ?? null;
    extra.forEach((id) => scene.close(id));
    try {
      await this.openAll(missing, this.work.signal);
      await this.draw(anchor);
    } catch (problem) {
      if (!isAbort(problem)) this.handlers.failed(problem);
    }
  }

  /** Opens what leads to a box (outermost first), then selects it; false when it is not there. */
  async reveal(trail: string[], id: string): Promise<boolean> {
    const { scene } = this;
    if (!scene) return false;
    try {
      await this.openAll(trail, this.work.signal);
      const found = scene.box(id);
      await this.draw(scene.box(this.selected)?.id ?? scene.root.boxes[0]?.id ?? null);
      this.choose(found ? id : trail.findLast((other) => scene.box(other)) ?? null);
      if (this.selected !== null) this.stage.centre(this.selected);
      this.handlers.changed('open');
      return found !== null;
    } catch (problem) {
      if (!isAbort(problem)) this.handlers.failed(problem);
      return false;
    }
  }

  async toggle(id: string): Promise<void> {
    const box = this.scene?.box(id);
    if (!box || !canOpen(box.item)) return;
    if (box.inner) this.close(id);
    else await this.open(id);
  }

  async open(id: string): Promise<void> {
    if (this.loading.has(id)) return;
    this.loading.add(id);
    try {
      await this.openAll([id], this.work.signal);
      this.mark(id);
      await this.draw(id);
      this.stage.showInside(id);
      this.handlers.changed('open');
    } catch (problem) {
      if (!isAbort(problem)) this.handlers.failed(problem);
    } finally {
      this.loading.delete(id);
    }
  }

  close(id: string): void {
    this.scene?.close(id);
    this.mark(id);
    void this.draw(id);
    this.handlers.changed('open');
  }

  choose(id: string | null): void {
    if (id === this.selected) return;
    this.mark(id);
    this.handlers.changed('select');
  }

  /** Select without a notification, because the address asked for it. */
  mark(id: string | null): void {
    this.selected = this.scene?.box(id) ? id : null;
    this.stage.select(this.selected);
  }

  move(arrow: Arrow): void {
    const { geometry } = this.stage;
    const from = geometry.boxes.get(this.selected ?? '');
    const first = this.scene?.root.boxes[0];
    if (!from) return first && this.chooseInView(first.id);
    const others = [...geometry.boxes.values()].filter(({ box }) => box.sheet === from.box.sheet && box !== from.box);
    const next = nearestInDirection(from.rectangle, others, arrow);
    if (next) this.chooseInView(next.box.id);
  }

  /** Into an open box: its first item. */
  enter(): void {
    const first = this.scene?.box(this.selected)?.inner?.boxes[0];
    if (first) this.chooseInView(first.id);
  }

  /** Closes the selected box, or goes to the one around it. */
  leave(): void {
    const box = this.scene?.box(this.selected);
    if (!box) return;
    if (box.inner) this.close(box.id);
    else this.chooseInView(box.sheet.owner?.id ?? null);
  }

  setLook(theme: Theme, colour: string): void {
    if (theme === this.theme && colour === this.colour) return;
    this.theme = theme;
    this.colour = colour;
    this.stage.recolour(this.look());
  }

  legend(): LegendEntry[] {
    return this.look().colouring.legend;
  }

  destroy(): void {
    this.work.abort();
    this.stage.destroy();
  }

  private chooseInView(id: string | null): void {
    this.choose(id);
    if (id !== null) this.stage.bringIntoView(id);
  }

  /** Opens these boxes, those inside others after them; one round of requests for each depth. */
  private async openAll(ids: string[], signal: AbortSignal): Promise<void> {
    const { scene, source } = this;
    if (!scene || !source) return;
    let left = ids.filter((id) => !scene.box(id)?.inner);
    while (left.length) {
      const ready = left.map((id) => scene.box(id)).filter((box): box is Box => box !== null && canOpen(box.item));
      if (!ready.length) break;
      const found = await Promise.all(ready.map(async (box) => ({ box, inside: await source.inside(box, signal) })));
      for (const { box, inside } of found) scene.open(box.id, inside);
      left = left.filter((id) => !ready.some((box) => box.id === id));
    }
    this.keepBounded(ids.at(-1) ?? null);
  }

  private keepBounded(focus: string | null): void {
    const closed = this.scene?.closeOldest(mostBoxes, focus) ?? [];
    if (closed.length) this.handlers.notice(`Closed ${closed.length === 1 ? closed[0] : countOf(closed.length, 'scope')}: no more than 2,000 boxes are drawn at once.`);
  }

  private async draw(anchor: string | null): Promise<void> {
    const { scene } = this;
    if (!scene) return;
    const turn = (this.layoutTurn += 1);
    const placed = await layoutInWorker(layoutInput(scene.root, this.name, measure));
    if (turn !== this.layoutTurn) return;
    this.stage.show({ scene, geometry: readGeometry(scene, placed), look: this.look() }, anchor);
    this.handlers.rebuilt();
  }

  private look(): Look {
    const palette = paletteOf(this.theme);
    const items: Item[] = this.scene?.closed().map(({ item }) => item) ?? [];
    return { palette, measure, centres: this.source?.centres ?? [], colouring: createColouring(this.colour, items, palette) };
  }
}
