import { ConfigurationInvalid, readConfiguration } from './configuration.js';
import type { ListenAddress } from './value-types.js';

/**
 * Which variables make a process listen at a port, or by a name, for a message.
 *
 * @returns one of the two, or both; empty where neither does
 */
export function listenVariables(
  environment: Readonly<Record<string, string | undefined>>,
  { host, port }: Partial<ListenAddress>,
): string[] {
  try {
    const { listen, adminListen } = readConfiguration(environment, 'migrate');
    const all = [
      ['SURETY_LISTEN', listen],
      ['SURETY_ADMIN_LISTEN', adminListen],
    ] as const;
    return all
      .filter(([, its]) => (host ?? its.host) === its.host && (port ?? its.port) === its.port)
      .map(([name]) => name);
  } catch (error) {
    if (error instanceof ConfigurationInvalid) return [];
    throw error;
  }
}
