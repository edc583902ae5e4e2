/** A message by its fields' local names, for what works on every message by its descriptor. */
export type Fields = Readonly<Record<string, unknown>>;
