// The state of the view of a tide, in the address: `#tide/1?at=120&over=2,3.after&tensor=dense/Relu:0&budget=8GiB`.
import { parseBytes } from '../amounts';

export interface TideAddress {
  /** The event of the chosen moment; null for the peak. */
  at: number | null;
  /** The other curves: the id of a tide, or the id of a plan with one of its curves. */
  over: OverlayKey[];
  tensor: string | null;
  budget: string | null;
  filter: string;
}

export interface OverlayKey {
  id: number;
  /** Of a plan; null for a tide. */
  curve: 'before' | 'after' | null;
}

export function parseAddress(options: Record<string, string>): TideAddress {
  const at = options['at'] ?? '';
  return {
    at: /^\d+$/.test(at) ? Number(at) : null,
    over: (options['over'] ?? '')
      .split(',')
      .map(parseOverlay)
      .filter((key) => key !== null),
    tensor: options['tensor'] || null,
    budget: parseBytes(options['budget'] ?? '') === null ? null : options['budget']!,
    filter: options['filter'] ?? '',
  };
}

export function formatAddress(address: TideAddress): Record<string, string> {
  const options = {
    at: address.at === null ? '' : String(address.at),
    over: address.over.map(formatOverlay).join(','),
    tensor: address.tensor ?? '',
    budget: address.budget ?? '',
    filter: address.filter,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== ''));
}

function parseOverlay(text: string): OverlayKey | null {
  const match = /^(\d+)(?:\.(before|after))?$/.exec(text.trim());
  return match ? { id: Number(match[1]), curve: (match[2] as 'before' | 'after' | undefined) ?? null } : null;
}

export function formatOverlay({ id, curve }: OverlayKey): string {
  return curve === null ? String(id) : `${id}.${curve}`;
}
