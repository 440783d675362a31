// The answers at the top of a tide, and how its numbers were found.
import { formatBytes, formatCount } from '../amounts';
import type { Recording, TideData, Verdict } from './data';
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
      reason: [`at ${data.peak_place}`, data.recorded].filter((text) => text !== null).join('; '),
    },
    {
      about: 'Safe bound',
      value: formatBytes(data.safe_bytes),
      reason: 'a hard limit of this size does not run out',
      fits: null,
    },
  ];
  if (data.predicted !== null) {
    const { peak_bytes: peak, gap } = data.predicted;
    answers.push({ about: 'Predicted', value: formatBytes(peak), reason: gap ?? '', fits: null });
  }
  if (budget !== null) answers.push(verdictOn(data, budget));
  if (data.largest_batch !== null) {
    const { batch_size: rows, text } = data.largest_batch;
    answers.push({ about: 'Largest batch', value: rows ? formatCount(rows) : 'none', reason: text, fits: null });
  }
  return answers;
}

const verdictNames: Record<Verdict, string> = {
  fits: 'Fits',
  may_run_out: 'May run out',
  does_not_fit: 'Does not fit',
};

/** Whether the tide fits a budget, which may be one that the user has typed; the words come with the data. */
export function verdictOn(data: TideData, budget: number): Answer {
  const { peak_bytes: peak, safe_bytes: safe } = data;
  const verdict: Verdict = safe <= budget ? 'fits' : peak <= budget ? 'may_run_out' : 'does_not_fit';
  const margin = verdict === 'does_not_fit' ? peak - budget : Math.abs(budget - safe);
  return {
    about: `In ${formatBytes(budget)}`,
    value: verdictNames[verdict],
    reason: data.verdicts[verdict].replace('{budget}', formatBytes(budget)).replace('{margin}', formatBytes(margin)),
    fits: verdict === 'fits',
  };
}

export function answerCards(data: TideData, budget: number | null): HTMLElement[] {
  return answersOf(data, budget).map(answerCard);
}

export function provenanceCard(data: TideData): HTMLElement {
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
  if (step === null) return 'the whole script was recorded: it completed no training step';
  if (steps.length < 2) return `step ${formatCount(step)} was recorded`;
  if (steps.length > mostSteps)
    return `${formatCount(steps.length)} steps were recorded; this is step ${formatCount(step)}`;
  const listed = steps.map(
    ([number, peak]) => `${formatCount(number)}${number === step ? ' (this one)' : ''} ${formatBytes(peak)}`,
  );
  return `peaks of the recorded steps: ${listed.join(', ')}`;
}
