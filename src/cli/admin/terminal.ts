/** Where a command writes to: the process's streams, or a test's. */
export interface Terminal {
  /** To the standard output, as it is. */
  readonly out: (text: string) => void;
  /** To the standard error, as it is. */
  readonly err: (text: string) => void;
}

/** The process's own. */
export const PROCESS_TERMINAL: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/** Rows of cells with every column as wide as its widest cell; the last one ends where it ends. */
export function columns(rows: readonly (readonly string[])[], indent = ''): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
    });
  }
  return rows.map((row) => {
    const cells = row.map((cell, index) =>
      index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0),
    );
    return `${indent}${cells.join('  ')}`.trimEnd();
  });
}

/** Text from the service as a terminal may show it: what would move its cursor is spelt out. */
export function printable(text: string): string {
  return text.replace(
    /\p{Cc}/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
