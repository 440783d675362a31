// The open screens as a tree of real elements: for the keyboard, for screen readers, and for orientation.
import { formatShort } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';
import { canOpen, type Box, type Scene, type Sheet } from './scene';
import { createMeasure, truncateAll } from './text';

interface OutlineHandlers {
  choose(id: string): void;
  toggle(id: string): void;
}

// The room for a name at the first level, beside the count, and what each level takes of it.
const nameWidth = 172;
const levelWidth = 14;
const leastWidth = 60;
const nameFont = { size: 14, weight: 600 };

interface Row {
  item: HTMLLIElement;
  line: HTMLElement;
  group: HTMLUListElement | null;
}

export class Outline {
  readonly element = element('ul', { role: 'tree', class: 'tree', 'aria-label': 'Outline of what is open' });
  private scene: Scene | null = null;
  private rows = new Map<string, Row>();
  private selected: string | null = null;
  private readonly measure = createMeasure();

  constructor(private readonly handlers: OutlineHandlers) {
    this.element.addEventListener('click', (event) => this.click(event));
    this.element.addEventListener('keydown', (event) => this.key(event));
  }

  /** Brings the tree in line with the scene; rows of boxes that are still there are kept. */
  update(scene: Scene | null): void {
    if (scene !== this.scene) {
      this.rows.clear();
      this.element.replaceChildren();
    }
    this.scene = scene;
    if (!scene) return;
    this.fill(this.element, scene.root, 1);
    for (const id of this.rows.keys()) if (!scene.box(id)) this.rows.delete(id);
    if (!this.element.querySelector('[tabindex="0"]')) this.rows.values().next().value?.item.setAttribute('tabindex', '0');
  }

  select(id: string | null): void {
    const before = this.rows.get(this.selected ?? '');
    before?.item.setAttribute('aria-selected', 'false');
    this.selected = id;
    const row = this.rows.get(id ?? '');
    if (!row) return;
    this.element.querySelectorAll('[tabindex="0"]').forEach((other) => other.setAttribute('tabindex', '-1'));
    row.item.setAttribute('aria-selected', 'true');
    row.item.setAttribute('tabindex', '0');
    row.line.scrollIntoView({ block: 'nearest' });
    if (this.element.contains(document.activeElement)) row.item.focus({ preventScroll: true });
  }

  private fill(list: HTMLElement, sheet: Sheet, level: number): void {
    const isNew = sheet.boxes.some(({ id }) => !this.rows.has(id));
    const width = Math.max(leastWidth, nameWidth - levelWidth * (level - 1));
    const names = isNew ? truncateAll(sheet.boxes.map(({ item }) => showName(item.label)), width, nameFont, this.measure) : [];
    sheet.boxes.forEach((box, position) => {
      const row = this.rows.get(box.id) ?? this.addRow(box, names[position] ?? '', level, sheet.boxes.length, position);
      if (row.item.parentElement !== list) list.append(row.item);
      if (canOpen(box.item)) row.item.setAttribute('aria-expanded', String(box.inner !== null));
      if (box.inner) {
        row.group ??= row.item.appendChild(element('ul', { role: 'group' }));
        row.group.style.setProperty('--rows', String(box.inner.boxes.length));
        this.fill(row.group, box.inner, level + 1);
      } else {
        row.group?.remove();
        row.group = null;
      }
    });
  }

  private addRow(box: Box, name: string, level: number, size: number, position: number): Row {
    const { item } = box;
    const count = item.kind === 'node' ? item.op ?? '' : formatShort(item.nodes);
    const line = element('div', { class: `line ${item.kind}` },
      element('span', { class: 'twist', 'aria-hidden': 'true' }),
      element('span', { class: 'name', title: item.key }, name),
      element('span', { class: 'count' }, count));
    const row = element('li', {
      role: 'treeitem', tabindex: '-1', 'aria-level': level, 'aria-setsize': size, 'aria-posinset': position + 1,
      'aria-selected': 'false', 'aria-label': describe(box),
    }, line);
    line.style.setProperty('--level', String(level));
    row.dataset.id = box.id;
    const made: Row = { item: row, line, group: null };
    this.rows.set(box.id, made);
    return made;
  }

  private click(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const id = target.closest<HTMLElement>('[role=treeitem]')?.dataset.id;
    if (id === undefined) return;
    if (target.classList.contains('twist') || event.detail === 2) this.handlers.toggle(id);
    else this.handlers.choose(id);
  }

  private key(event: KeyboardEvent): void {
    const item = (event.target as HTMLElement).closest<HTMLElement>('[role=treeitem]');
    const box = this.scene?.box(item?.dataset.id ?? null);
    if (!item || !box || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!this.act(event.key, item, box)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private act(key: string, item: HTMLElement, box: Box): boolean {
    switch (key) {
      case 'ArrowDown':
        return this.step(item, 1);
      case 'ArrowUp':
        return this.step(item, -1);
      case 'ArrowRight':
        if (box.inner) this.go(box.inner.boxes[0]?.id);
        else this.handlers.toggle(box.id);
        return true;
      case 'ArrowLeft':
        if (box.inner) this.handlers.toggle(box.id);
        else this.go(box.sheet.owner?.id);
        return true;
      case 'Enter':
      case ' ':
        this.handlers.choose(box.id);
        this.handlers.toggle(box.id);
        return true;
      case 'Home':
      case 'End':
        return this.goTo(key === 'Home' ? 0 : -1);
      default:
        return false;
    }
  }

  private visibleItems(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('[role=treeitem]')];
  }

  private step(item: HTMLElement, by: number): boolean {
    const items = this.visibleItems();
    this.go(items[items.indexOf(item) + by]?.dataset.id);
    return true;
  }

  private goTo(position: number): boolean {
    this.go(this.visibleItems().at(position)?.dataset.id);
    return true;
  }

  private go(id: string | undefined): void {
    if (id === undefined) return;
    this.rows.get(id)?.item.focus();
    this.handlers.choose(id);
  }
}

/** The text for screen readers. */
export function describe({ item }: Box): string {
  const what = item.kind === 'node' ? [item.op, item.shape] : [item.kind, item.nodes === 1 ? '1 node' : `${item.nodes} nodes`];
  const change = item.change === 'same' ? null : item.change;
  return [showName(item.label), ...what, change].filter(Boolean).join(', ');
}
