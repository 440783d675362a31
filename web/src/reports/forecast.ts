// What a data pipeline will hold at its peak, stage by stage, and what would make that less.
import { formatBytes, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import { answerGroup, card, shareBars } from '../tide/parts';
import type { ForecastData, StageData } from './data';
import { reportMount } from './mount';
import { plainTable } from './tables';

export const mountForecast = reportMount<ForecastData>('forecast', (data) => ({
  title: data.target,
  charts: [],
  cards: [
    answerGroup(data.answers),
    barsCard(data),
    stagesCard(data.stages),
    listCard('What to change', data.advice.map(({ what, saves_bytes: saves }) => `${what}: saves ${formatBytes(saves)}`)),
    listCard('Notes', data.notes),
  ],
}));

function barsCard({ stages, colours }: ForecastData): HTMLElement {
  const shares = stages.map(({ name, held_bytes: held, working_bytes: working }) => ({
    label: name,
    bytes: held + working,
    parts: [[colours.held, held], [colours.working, working]] as [string, number][],
  }));
  const legend = [
    element('span', {}, swatch(colours.held), 'elements that wait in the stage'),
    element('span', {}, swatch(colours.working), 'working memory of the stage'),
  ];
  return card('Memory by stage', [], ...shareBars(shares), element('div', { class: 'key' }, ...legend));
}

function stagesCard(stages: StageData[]): HTMLElement {
  const nameOf = ({ name, depth }: StageData) => {
    const made = element('span', {}, name);
    made.style.paddingLeft = `${depth}em`;
    return made;
  };
  const elementOf = ({ element_bytes: bytes, is_sampled: sampled }: StageData) =>
    bytes === null ? '' : `${sampled ? 'about ' : ''}${formatBytes(bytes)}`;
  return card(
    'Stages',
    [],
    plainTable<StageData>(
      'Stages',
      [
        { name: 'stage', className: 'name', cell: nameOf },
        { name: 'takes', number: true, cell: (stage) => formatBytes(stage.held_bytes + stage.working_bytes) },
        { name: 'holds', number: true, cell: (stage) => formatBytes(stage.held_bytes) },
        { name: 'elements', number: true, cell: (stage) => formatCount(stage.held_elements) },
        { name: 'of', number: true, cell: elementOf },
      ],
      stages,
    ),
  );
}

function listCard(title: string, lines: readonly string[]): HTMLElement | null {
  return lines.length ? card(title, [], element('ul', {}, ...lines.map((line) => element('li', {}, line)))) : null;
}
