// The answers that a tide begins with, and what it ends with: how the numbers were found.
import { formatBytes, formatCount } from '../amounts';
import { verdictOf, type Recording, type TideData } from './data';
import { answerCard, card, facts, type Answer } from './parts';

const methodNames: Record<string, string> = { simulated: 'predicted', xla: 'predicted, by XLA', recorded: 'recorded' };
// More steps than this are a line without their peaks.
const mostSteps = 12;

export function methodName(data: TideData): string {
  return methodNames[data.method_name] ?? data.method_name;
}

export function answersOf(data: TideData, budget: number | null): Answer[] {
  const answers: Answer[] = [
    {
      about: 'Peak',
      value: formatBytes(data.peak_bytes),
      fits: null,
      grounds: [`at ${data.peak_place}`, data.recorded].filter((text) => text !== null).join('; '),
    },
    {
      about: 'Safe bound',
      value: formatBytes(data.safe_bytes),
      grounds: 'a hard limit of this size does not run out',
      fits: null,
    },
  ];
  if (data.predicted !== null) {
    const gap = data.predicted.gap?.split(': ')[1] ?? '';
    answers.push({ about: 'Predicted', value: formatBytes(data.predicted.peak_bytes), grounds: gap, fits: null });
  }
  if (budget !== null) {
    const fits = data.safe_bytes <= budget;
    const value = fits ? 'Fits' : data.peak_bytes <= budget ? 'May run out' : 'Does not fit';
    answers.push({
      about: `In ${formatBytes(budget)}`,
      value,
      grounds: verdictOf(data.peak_bytes, data.safe_bytes, budget, formatBytes),
      fits,
    });
  }
  if (data.largest_batch !== null) {
    const [grounds, value] = data.largest_batch.split(': ');
    answers.push({
      about: 'Largest batch',
      value: value?.split(' ')[0] ?? 'none',
      grounds: value ? data.largest_batch : (grounds ?? ''),
      fits: null,
    });
  }
  return answers;
}

export function answerCards(data: TideData, budget: number | null): HTMLElement[] {
  return answersOf(data, budget).map(answerCard);
}

export function groundsCard(data: TideData): HTMLElement {
  const { recording } = data;
  return card(
    'How this was found',
    [],
    facts([
      ['method', data.method],
      ['device', recording ? `allocator ${recording.allocator}` : null],
      ['steps', recording ? describeSteps(recording) : null],
      ['limit', data.limit],
      ['free space', data.free],
      ['split by', data.pinning],
      ['building', data.building],
      ['not modelled', data.unmodelled],
      ...data.notes.map((note) => ['note', note] as const),
    ]),
  );
}

export function describeSteps({ step, steps }: Recording): string {
  if (steps.length < 2) return `step ${formatCount(step)} was recorded`;
  if (steps.length > mostSteps)
    return `${formatCount(steps.length)} steps were recorded; this is step ${formatCount(step)}`;
  const listed = steps.map(
    ([number, peak]) => `${formatCount(number)}${number === step ? ' (this one)' : ''} ${formatBytes(peak)}`,
  );
  return `peaks of the recorded steps: ${listed.join(', ')}`;
}
