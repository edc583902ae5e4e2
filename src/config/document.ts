import { VARIABLES, type Variable } from './variables.js';

/** The table of docs/configuration.md, as Markdown. A test holds the page against it. */
export function variablesTable(): string {
  const rows = variables().map(([name, { about, fallback, secret }]) => {
    const names = secret === true ? `\`${name}\`<br>\`${name}_FILE\`` : `\`${name}\``;
    return `| ${names} | ${fallback === undefined ? '' : `\`${fallback}\``} | ${about.replaceAll('|', '\\|')} |`;
  });
  return ['| variable | default | what it is for |', '|---|---|---|', ...rows].join('\n');
}

const INDENT = '      ';
const COLUMNS = 100;

/** The same for a terminal. */
export function variablesText(): string {
  return variables()
    .map(([name, { about, fallback, secret }]) => {
      const file = secret === true ? ` (or ${name}_FILE)` : '';
      const preset = fallback === undefined ? '' : ` [${fallback}]`;
      return `  ${name}${file}${preset}\n${wrap(about.replaceAll('`', ''))}`;
    })
    .join('\n');
}

function variables(): [string, Variable][] {
  return Object.entries(VARIABLES);
}

function wrap(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string;
    if (line !== '' && INDENT.length + line.length + 1 + word.length > COLUMNS) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.map((line) => `${INDENT}${line}`).join('\n');
}
