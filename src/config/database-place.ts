import { ConfigurationInvalid, readConfiguration } from './configuration.js';

const POSTGRES_PORT = '5432';

/** Commands that use one login: the one that is for them, where there is one. */
const ONE_LOGIN: ReadonlySet<string> = new Set(['migrate', 'bootstrap', 'restore', 'archive']);

/**
 * Where the database of a command is, and the variables that say so, for a message: never the login.
 *
 * @returns for example `127.0.0.1:5432 (SURETY_DATABASE_URL)`; undefined where no variable says
 */
export function databasePlace(
  environment: Readonly<Record<string, string | undefined>>,
  command: string,
): string | undefined {
  const urls = urlsOf(environment, command);
  const asked = ONE_LOGIN.has(command) ? urls.slice(0, 1) : urls;
  const names = new Map<string, string[]>();
  for (const [name, url] of asked) names.set(placeOf(url), [...(names.get(placeOf(url)) ?? []), name]);
  if (names.size === 0) return undefined;
  return [...names].map(([place, variables]) => `${place} (${variables.join(', ')})`).join(' or ');
}

function urlsOf(
  environment: Readonly<Record<string, string | undefined>>,
  command: string,
): (readonly [string, string])[] {
  try {
    const { archiveUrl, migrationUrl, databaseUrl } = readConfiguration(environment, 'migrate');
    return [
      ...(archiveUrl === undefined || command !== 'archive'
        ? []
        : [['SURETY_ARCHIVE_URL', archiveUrl] as const]),
      ...(migrationUrl === undefined ? [] : [['SURETY_MIGRATION_URL', migrationUrl] as const]),
      ...(databaseUrl === undefined ? [] : [['SURETY_DATABASE_URL', databaseUrl] as const]),
    ];
  } catch (error) {
    if (error instanceof ConfigurationInvalid) return [];
    throw error;
  }
}

/** The driver lets `?host=` and `?port=` stand above what is in front of them. */
function placeOf(text: string): string {
  const url = new URL(text);
  const host = url.searchParams.get('host') ?? url.hostname;
  return `${host}:${url.searchParams.get('port') ?? (url.port || POSTGRES_PORT)}`;
}
