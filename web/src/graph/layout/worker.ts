// Layout beside the page, so that it never holds up a frame.
import { messageOf } from '../../notice';
import { layoutSheet, type Remembered } from './nest';
import type { PlacedSheet, Sheet } from './shapes';

export interface LayoutRequest {
  id: number;
  sheet: Sheet;
}

export type LayoutAnswer = { id: number; placed: PlacedSheet } | { id: number; problem: string };

const remembered: Remembered = new Map();

addEventListener('message', ({ data }: MessageEvent<LayoutRequest>) => {
  postMessage(answer(data));
});

function answer({ id, sheet }: LayoutRequest): LayoutAnswer {
  try {
    return { id, placed: layoutSheet(sheet, remembered) };
  } catch (problem) {
    return { id, problem: messageOf(problem) };
  }
}
