// The open boxes: screens inside boxes of screens, without positions.
import type { Item, Screen } from '../api';

export interface Box {
  /** Unique in the scene: mostly the item's key; see `boxId`. */
  id: string;
  item: Item;
  sheet: Sheet;
  inner: Sheet | null;
}

export interface Sheet {
  screen: Screen;
  boxes: Box[];
  /** The box this screen is inside of; the root has none. */
  owner: Box | null;
  /** What stands before the keys of its items in their ids. */
  prefix: string;
}

/** A screen fetched for a box, and whether it is the inside of a function that the box calls. */
export interface Inside {
  screen: Screen;
  enters: boolean;
}

export class Scene {
  readonly root: Sheet;
  private readonly boxes = new Map<string, Box>();
  /** Ids of open boxes, the one opened first in front. */
  private opened: string[] = [];

  constructor(screen: Screen) {
    this.root = this.addSheet(screen, null, '');
  }

  box(id: string | null): Box | null {
    return (id !== null && this.boxes.get(id)) || null;
  }

  get count(): number {
    return this.boxes.size;
  }

  get openIds(): string[] {
    return [...this.opened];
  }

  all(): Iterable<Box> {
    return this.boxes.values();
  }

  /** What is not drawn as a frame around others: an open box would count once more what is counted inside of it. */
  closed(): Box[] {
    return [...this.boxes.values()].filter(({ inner }) => !inner);
  }

  open(id: string, { screen, enters }: Inside): void {
    const box = this.boxes.get(id);
    if (!box || box.inner) return;
    box.inner = this.addSheet(screen, box, enters ? `${id}→${screen.part}:` : box.sheet.prefix);
    this.opened.push(id);
  }

  close(id: string): void {
    const box = this.boxes.get(id);
    if (!box?.inner) return;
    for (const child of box.inner.boxes) {
      this.close(child.id);
      this.boxes.delete(child.id);
    }
    box.inner = null;
    this.opened = this.opened.filter((other) => other !== id);
  }

  /** Closes what was opened first, but nothing around `focus`, until at most `most` boxes are left; says what it closed. */
  closeOldest(most: number, focus: string | null): string[] {
    const around = new Set(this.ancestors(focus).map((box) => box.id));
    if (focus !== null) around.add(focus);
    const closed: string[] = [];
    while (this.boxes.size > most) {
      const oldest = this.opened.find((id) => !around.has(id));
      if (oldest === undefined) break;
      closed.push(oldest);
      this.close(oldest);
    }
    return closed;
  }

  /** The open boxes around a box, the outermost first. */
  ancestors(id: string | null): Box[] {
    const chain: Box[] = [];
    for (let owner = this.box(id)?.sheet.owner ?? null; owner; owner = owner.sheet.owner) chain.unshift(owner);
    return chain;
  }

  private addSheet(screen: Screen, owner: Box | null, prefix: string): Sheet {
    const sheet: Sheet = { screen, owner, prefix, boxes: [] };
    sheet.boxes = screen.items.map((item) => ({ id: prefix + boxId(item, screen.path), item, sheet, inner: null }));
    for (const box of sheet.boxes) this.boxes.set(box.id, box);
    return sheet;
  }
}

/** A node can have the name of the scope it is in (`dense` in `dense`); its label, in brackets, distinguishes it. */
function boxId(item: Item, path: string): string {
  return item.kind === 'node' && item.key === path && path !== '' ? `${path}/${item.label}` : item.key;
}

/** Several items that are shown as one because they are alike. */
export function isFold(item: Item): boolean {
  return item.kind === 'series' || item.kind === 'range' || item.kind === 'cluster';
}

export function canOpen(item: Item): boolean {
  return item.kind !== 'node' || Boolean(item.calls?.length);
}

/** A key as the server wants it: the scope before the first bar, and what is folded in it after. */
export function splitKey(key: string): { path: string; fold: string } {
  const bar = key.indexOf('|');
  return bar < 0 ? { path: key, fold: '' } : { path: key.slice(0, bar), fold: key.slice(bar + 1) };
}

/** What of a scene is not on the screen, in words: "1,000,000 nodes in 14 groups", "12 edges not drawn". */
interface Folded {
  nodes: number;
  groups: number;
  hiddenItems: number;
  hiddenEdges: number;
}

export function countFolded(scene: Scene): Folded {
  const folded: Folded = { nodes: 0, groups: 0, hiddenItems: 0, hiddenEdges: 0 };
  const sheets = [scene.root];
  for (const box of scene.all()) {
    if (box.inner) sheets.push(box.inner);
    else if (box.item.kind !== 'node') {
      folded.nodes += box.item.nodes;
      folded.groups += 1;
    }
  }
  for (const { screen } of sheets) {
    folded.hiddenItems += screen.hidden_items;
    folded.hiddenEdges += screen.hidden_edges;
  }
  return folded;
}
