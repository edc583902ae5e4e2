import type { BenchWorld } from './bench-world.js';

/**
 * Holds what the clients counted against what is stored: a call that was counted and did nothing would make the service
 * look fast.
 *
 * @throws Error where they differ
 */
export async function checkStoredEffects(world: BenchWorld): Promise<void> {
  const { rows } = await world.sql.query<{ stored: string; settled: string }>(
    "SELECT count(*) AS stored, count(*) FILTER (WHERE state = 'SUCCEEDED') AS settled FROM effects",
  );
  const [stored, settled] = [Number(rows[0]?.stored), Number(rows[0]?.settled)];
  if (stored !== world.reserved) {
    throw new Error(`the clients counted ${world.reserved} reservations, and ${stored} effects are stored`);
  }
  if (settled !== world.settled) {
    throw new Error(
      `the clients counted ${world.settled} acknowledgements, and ${settled} effects are settled`,
    );
  }
}
