import type { BenchWorld } from './bench-world.js';

/**
 * Holds what the clients counted against what is stored: a call that was counted and did nothing would make the service
 * look fast.
 *
 * @throws Error where they differ
 */
export async function checkStoredEffects(world: BenchWorld): Promise<void> {
  const { rows } = await world.sql.query<{ stored: string }>('SELECT count(*) AS stored FROM effects');
  const stored = Number(rows[0]?.stored);
  if (stored !== world.reserved) {
    throw new Error(`the clients counted ${world.reserved} reservations, and ${stored} effects are stored`);
  }
}
