import path from 'node:path';
import { installPackages } from './install.js';

const FOLDER = 'node-22';
const MAJOR = 22;

/** A Node for peers that want a later one than the service does. */
export interface LaterNode {
  readonly execPath: string;
  readonly version: string;
}

/**
 * The pinned Node, from npm as well; where there is no package of it, that of the benchmark if it will do.
 *
 * @throws Error where there is none
 */
export async function laterNode(onInstall: () => void): Promise<LaterNode> {
  const name = `node-${process.platform}-${process.arch}`;
  const { folder, versions } = await installPackages(FOLDER, onInstall);
  const version = versions[name];
  if (version !== undefined)
    return { execPath: path.join(folder, 'node_modules', name, 'bin/node'), version };
  if (Number.parseInt(process.versions.node, 10) >= MAJOR) {
    return { execPath: process.execPath, version: process.versions.node };
  }
  throw new Error(`it wants Node ${MAJOR}, and there is no package of it for this platform`);
}
