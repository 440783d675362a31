// The data of the reports that need no server: the difference of two tides, shortages, and a forecast.
// `lowtide.view.page_data` writes it.
import type { Curves } from '../plan/data';
import type { TideData } from '../tide/data';
import type { Answer } from '../tide/parts';

/** Bytes before and after; a name with a sign in front, and the colour of a kind of memory. */
export interface AmountChange {
  name: string;
  colour: string | null;
  before_bytes: number;
  after_bytes: number;
}

export interface TensorChange {
  sign: string;
  colour: string;
  op: string;
  name: string;
  type: string;
  growth_bytes: number;
  source: string | null;
}

export interface DifferenceData {
  title: string;
  answers: Answer[];
  curves: Curves;
  layers: AmountChange[];
  kinds: AmountChange[];
  peak: AmountChange;
  tensors: { layer: string; tensors: TensorChange[]; rest: { count: number; growth_bytes: number } }[];
  method: string;
  notes: string[];
}

export interface NamedBytes {
  name: string;
  bytes: number;
  colour: string;
}

export interface HolderData {
  bytes: number;
  count: number;
  owner: string;
  shape: string;
  source: string;
  colour: string;
}

export interface ShortageData {
  heading: string;
  cause: string;
  facts: [name: string, text: string][];
  /** How the memory was divided between held and free; empty where that is not known. */
  room: NamedBytes[];
  advice: string[];
  kinds: NamedBytes[];
  layers: { name: string; bytes: number }[];
  holders: HolderData[];
  /** The holders that are not listed. */
  rest: { count: number; bytes: number };
  tide: TideData | null;
}

export interface ShortagesData {
  title: string;
  shortages: ShortageData[];
}

export interface StageData {
  name: string;
  depth: number;
  held_bytes: number;
  working_bytes: number;
  held_elements: number;
  element_bytes: number | null;
  is_sampled: boolean;
}

export interface ForecastData {
  title: string;
  target: string;
  answers: Answer[];
  colours: { held: string; working: string };
  stages: StageData[];
  advice: { what: string; saves_bytes: number }[];
  notes: string[];
}
