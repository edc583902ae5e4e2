/**
 * Counts what a statement touched and raises where it is not what the batch expected: zero rows is no error to Postgres,
 * and COMMIT is already under way (architecture.md, pg in pipeline mode). Dividing by zero needs no function of ours.
 */
export function counted(statement: string, expectedParameter: string): string {
  return `WITH touched AS (${statement} RETURNING 1)
SELECT 1 / (CASE WHEN count(*) = ${expectedParameter}::bigint THEN 1 ELSE 0 END) AS ok FROM touched`;
}
