// The view of a training run: its attempts over time, memory and metrics by epoch, and what was changed.
import { element, swatch } from '../dom';
import { usageLine } from '../plan/usage';
import { reportMount } from '../reports/mount';
import { adviceCard } from '../reports/shortage';
import { plainTable } from '../reports/tables';
import { answerGroup, card, facts } from '../tide/parts';
import { formatDuration, formatTime, type Attempt, type RunData } from './data';
import { epochCards } from './epochs';
import { manyAttempts, timelineCard } from './timeline';

export const mountRun = reportMount<RunData>('run', (data) => {
  const { charts, cards } = epochCards(data);
  return {
    title: data.title,
    changing: data.is_running,
    charts,
    cards: [
      answerGroup(data.answers),
      data.resume === null ? null : usageLine(data.resume, data.state === 'failed' ? 'tries again from the last checkpoint' : 'continues this run'),
      adviceCard(data),
      timelineCard(data),
      cards.length ? element('div', { class: 'columns charts' }, ...cards) : null,
      attemptsCard(data),
      notesCard(data),
      card('Program', [], facts(data.options)),
    ],
  };
});

function attemptsCard({ attempts, causes }: RunData): HTMLElement | null {
  if (!attempts.length) return null;
  const ending = ({ cause, detail }: Attempt) =>
    element('span', {}, swatch(causes[cause]?.colour ?? ''), causes[cause]?.words ?? cause, detail ? `: ${detail}` : '');
  const change = ({ decision }: Attempt) => decision?.change ?? '';
  const table = plainTable<Attempt>(
    'Attempts',
    [
      { name: '', number: true, cell: ({ number }) => String(number) },
      { name: 'began', cell: ({ began }) => formatTime(began) },
      { name: 'took', cell: ({ seconds }) => formatDuration(seconds) },
      { name: 'from', cell: ({ origin }) => origin },
      { name: 'ended by', className: 'text', cell: ending },
      { name: 'explanation', className: 'text dim', cell: ({ explanation }) => explanation ?? '' },
      { name: 'changed for the next', className: 'text', cell: change },
    ],
    attempts,
  );
  table.classList.toggle('tall', attempts.length > manyAttempts);
  return card('Attempts', [], table);
}

function notesCard({ notes }: RunData): HTMLElement | null {
  if (!notes.length) return null;
  const rows = notes.map(({ attempt, time, text }) => [`attempt ${attempt}, ${formatTime(time)}`, text] as const);
  return card('Notes', [], facts(rows));
}
