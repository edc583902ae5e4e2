import type { Goal } from '../ratios/ratio.js';
import type { BenchResult, RatioResult } from './result.js';

const ROW_HEIGHT = 44;
const TOP = 72;
const LEFT = 500;
/** Pixels from nothing to the goal. */
const GOAL_WIDTH = 260;
const WIDTH = LEFT + 2 * GOAL_WIDTH + 110;
/** What is farther than this is drawn up to here. */
const MOST_GOALS = 2;

type WithGoal = RatioResult & { readonly goal: Goal };

/** The run as a chart: each ratio beside its goal, which all have at the same place; right of it is better. */
export function chartOf(result: BenchResult): string {
  const ratios = result.ratios.filter(hasGoal);
  const height = TOP + ratios.length * ROW_HEIGHT + 48;
  const goalX = LEFT + GOAL_WIDTH;
  const { machine } = result;
  const about = `${result.started.slice(0, 10)}, ${machine['cpus']} × ${machine['cpu']}${result.quick ? ', a quick run' : ''}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    text(16, 26, 'Surety: ratios of one run, beside their goals', 'font-size="17" fill="#111111"'),
    text(16, 46, about, 'fill="#666666"'),
    text(goalX, TOP - 8, 'goal', 'text-anchor="middle" fill="#666666"'),
    ...ratios.flatMap((ratio, i) => row(ratio, TOP + i * ROW_HEIGHT)),
    `<line x1="${goalX}" y1="${TOP}" x2="${goalX}" y2="${height - 44}" stroke="#111111" stroke-dasharray="4 3"/>`,
    text(
      16,
      height - 18,
      'Bar: median of the rounds. Line: least and greatest round. Right of the goal is better.',
      'fill="#666666"',
    ),
    '</svg>',
    '',
  ].join('\n');
}

/** Without one there is nothing to draw it beside. */
function hasGoal(ratio: RatioResult): ratio is WithGoal {
  return ratio.goal !== undefined;
}

function row(ratio: WithGoal, top: number): string[] {
  const { goal, name, min, max, reached } = ratio;
  const ends = [xOf(ratio, min), xOf(ratio, max)].sort((a, b) => a - b) as [number, number];
  const middle = top + ROW_HEIGHT / 2;
  const end = xOf(ratio, ratio.ratio);
  const told = `${ratio.ratio} (${goal.at === 'least' ? '≥' : '≤'} ${goal.value})`;
  return [
    text(16, middle + 4, name, 'fill="#111111"'),
    `<rect x="${LEFT}" y="${top + 10}" width="${end - LEFT}" height="${ROW_HEIGHT - 20}" fill="${reached ? '#3b8f5c' : '#c2703d'}"/>`,
    `<line x1="${ends[0]}" y1="${middle}" x2="${ends[1]}" y2="${middle}" stroke="#111111" stroke-width="2"/>`,
    text(Math.max(end, ends[1]) + 8, middle + 4, told, 'fill="#111111"'),
  ];
}

/** How near to its goal, as a place: of what is to be small, the other way round. */
function xOf({ goal }: WithGoal, value: number): number {
  const goals = goal.at === 'least' ? value / goal.value : goal.value / value;
  return Math.round(LEFT + GOAL_WIDTH * Math.min(MOST_GOALS, goals));
}

function text(x: number, y: number, content: string, attributes: string): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return `<text x="${x}" y="${y}" ${attributes}>${escaped}</text>`;
}
