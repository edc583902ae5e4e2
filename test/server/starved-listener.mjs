// A listener in a process that may open few files. Prints its port, then one line for each thing it logs.
// Arguments: the folder of its certificate (service.crt, service.key) and bundles. Needs the build.
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { Server } from '@grpc/grpc-js';
import { GRPC_SERVER_OPTIONS } from '../../dist/src/server/limits.js';
import { grpcProtocol, Listener } from '../../dist/src/server/listener.js';
import { readTlsMaterial } from '../../dist/src/server/reload.js';

const folder = process.argv[2];
const now = () => BigInt(Date.now()) * 1000n;
const files = {
  certificateFile: `${folder}/service.crt`,
  keyFile: `${folder}/service.key`,
  bundlesDirectory: folder,
};
const say = (line) => process.stdout.write(`${line}\n`);
const print = (_, message) => say(message);
const { certificate, bundles } = await readTlsMaterial(files, now());
const listener = new Listener({
  host: '127.0.0.1',
  port: 0,
  certificate,
  bundles,
  protocol: grpcProtocol(new Server(GRPC_SERVER_OPTIONS)),
  log: { info: print, warn: print, error: print },
  now,
});
const { port } = await listener.listen();
say(`port ${port}`);

async function takeAll() {
  const held = [];
  for (;;) {
    try {
      held.push(await open('/dev/null'));
    } catch {
      return held;
    }
  }
}

process.stdin.on('end', () => process.exit(0));
// At the first word take every descriptor that is left; at the second give them back.
await once(process.stdin, 'data');
const held = await takeAll();
say('starved');
await once(process.stdin, 'data');
await Promise.all(held.map((file) => file.close()));
say('fed');
