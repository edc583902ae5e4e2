import { Agent, request } from 'node:http';
import type { OpenPeerOrder } from '../messages.js';
import type { Peer } from '../peer.js';
import { servePeer } from '../serve-peer.js';
import { RestateServer } from './restate-server.js';

/** One kept connection for each caller. */
const agent = new Agent({ keepAlive: true });

/** A call over HTTP with an idempotency key, answered once the handler has ended; all else is as the server has it. */
async function openRestate({ packages, folder }: OpenPeerOrder): Promise<Peer> {
  const server = await RestateServer.start(packages, folder);
  const url = new URL('/life/once', server.ingress);
  return {
    async runOnce(key) {
      const answer = await call(url, key);
      if (answer !== JSON.stringify(`sent ${key}`)) throw new Error(`Restate answered: ${answer}`);
    },
    countDone: () => server.countDone(),
    processorMs: () => server.processorMs(),
  };
}

/** @returns the answer's body */
function call(url: URL, key: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(key);
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'idempotency-key': key,
    };
    const sent = request(url, { agent, method: 'POST', headers }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.once('error', reject);
      response.once('end', () => resolve(Buffer.concat(parts).toString()));
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

servePeer(openRestate);
