import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Loads a package from where a peer's are installed: they are no dependencies of ours, so nothing of them can be imported
 * by name, and its types are those parts that the benchmark uses.
 */
export async function loadPackage<Module>(packages: string, name: string): Promise<Module> {
  const file = createRequire(path.join(packages, 'package.json')).resolve(name);
  return (await import(pathToFileURL(file).href)) as Module;
}
