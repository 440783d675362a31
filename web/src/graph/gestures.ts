// Moving and zooming by pointer, wheel and two fingers; and clicks, which are short presses that did not move.
import { pan, zoomAt, type Camera } from './camera';

interface GestureHandlers {
  camera(): Camera;
  move(camera: Camera): void;
  point(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number, touch: boolean): void;
  doubleClick(x: number, y: number): void;
}

const dragDistance = 4;

export function listenForGestures(canvas: HTMLCanvasElement, handlers: GestureHandlers): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let dragged = false;
  let start = { x: 0, y: 0 };

  const place = (event: MouseEvent) => {
    const bounds = canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) {
      dragged = false;
      start = place(event);
    }
  });

  canvas.addEventListener('pointermove', (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) return handlers.point(now.x, now.y);
    if (!dragged && Math.hypot(now.x - start.x, now.y - start.y) < dragDistance) return;
    dragged = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    handlers.move(other
      ? pinch(handlers.camera(), other, before, now)
      : pan(handlers.camera(), now.x - before.x, now.y - before.y));
    pointers.set(event.pointerId, now);
  });

  const release = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || pointers.size || dragged || event.type === 'pointercancel') return;
    const { x, y } = place(event);
    handlers.click(x, y, event.pointerType === 'touch');
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => handlers.leave());
  canvas.addEventListener('dblclick', (event) => {
    const { x, y } = place(event);
    handlers.doubleClick(x, y);
  });

  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const { x, y } = place(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) handlers.move(pan(handlers.camera(), -(event.deltaX || event.deltaY) * lines, 0));
    else handlers.move(zoomAt(handlers.camera(), x, y, Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018))));
  }, { passive: false });
}

/** Two fingers: one stays at `other`, the second goes from `before` to `now`. */
function pinch(camera: Camera, other: { x: number; y: number }, before: { x: number; y: number }, now: { x: number; y: number }): Camera {
  const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
  const moved = pan(camera, (now.x - before.x) / 2, (now.y - before.y) / 2);
  return zoomAt(moved, (now.x + other.x) / 2, (now.y + other.y) / 2, factor);
}
