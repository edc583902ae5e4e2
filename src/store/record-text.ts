const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * The fields of a row that Postgres sent as one value (a ROW of its columns, as text); null where a column is null.
 * A row that travels so costs one field of the protocol, and its columns widen no level of the joins above it.
 *
 * Between commas a field stands as it is, or in quotes, within which a quote and a backslash are doubled (PostgreSQL,
 * Composite Types, Composite Type Input and Output Syntax). Nothing at all is null, the empty text is `""`.
 */
export function parseRecord(text: string): (string | null)[] {
  const fields: (string | null)[] = [];
  const end = text.length - 1;
  let at = 1;
  for (;;) {
    if (text.charCodeAt(at) === QUOTE) {
      const close = closingQuote(text, at + 1);
      fields.push(unquoted(text, at + 1, close));
      at = close + 1;
    } else {
      const comma = text.indexOf(',', at);
      const stop = comma === -1 ? end : comma;
      fields.push(stop === at ? null : text.slice(at, stop));
      at = stop;
    }
    if (at >= end) return fields;
    at += 1;
  }
}

/** Where the quote stands that is not one of two. */
function closingQuote(text: string, from: number): number {
  let quote = text.indexOf('"', from);
  while (quote !== -1 && text.charCodeAt(quote + 1) === QUOTE) quote = text.indexOf('"', quote + 2);
  if (quote === -1) throw new Error('a row as text ends within a quote');
  return quote;
}

function unquoted(text: string, start: number, end: number): string {
  const quoted = text.slice(start, end);
  const doubled = quoted.lastIndexOf('\\');
  const plain = !quoted.includes('"');
  if (doubled === -1 && plain) return quoted;
  // Octets, which are most of what is quoted: the backslash of their `\x`, and no other.
  if (doubled === 1 && plain && quoted.charCodeAt(0) === BACKSLASH) return quoted.slice(1);
  return quoted.replaceAll('""', '"').replaceAll('\\\\', '\\');
}
