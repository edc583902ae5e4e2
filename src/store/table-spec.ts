/** The Postgres types that rows are made of. */
export type ColumnType = 'text' | 'int8' | 'int4' | 'bool' | 'bytea' | 'text[]' | 'int4[]' | 'bytea[]';

/** How rows of one type lie in their table. `domain_id` comes first in every table and is not listed. */
export interface TableSpec<Row> {
  readonly name: string;
  readonly columns: { readonly [Field in keyof Row & string]-?: ColumnType };
  /** The fields that an update may change; none: the table is append-only, or its rows only come and go. */
  readonly mutable: readonly (keyof Row & string)[];
  /** Fields whose stored value must still be the one that was read: the conditional update. */
  readonly guards?: readonly (keyof Row & string)[];
  /** Its rows are what lets others go: they are written before anything is deleted. */
  readonly comesFirst?: true;
}

/** What every record of authority has besides its own columns. */
export const record = { status: 'text', revision: 'int8' } as const;
