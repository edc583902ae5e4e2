// Makes testvectors/*.json. Signatures are deterministic, so making them again changes nothing.
//
//   node scripts/make-testvectors.mjs           writes the files
//   node scripts/make-testvectors.mjs --check   exits 1 if a file differs from what would be written
import { readFileSync, writeFileSync } from 'node:fs';
import { makeApprovals, makeBoundedGrants } from './testvectors/approvals.mjs';
import { makeChain, makeDigests } from './testvectors/digests.mjs';
import { makeEnvelopes } from './testvectors/envelopes.mjs';
import { makeEvidence } from './testvectors/evidence.mjs';
import { makeJsonTexts } from './testvectors/json-texts.mjs';
import { makeJwks, makeKeys } from './testvectors/keys.mjs';
import { makeMessages } from './testvectors/messages.mjs';
import { makeProvenance } from './testvectors/provenance.mjs';
import { makeStatements } from './testvectors/statements.mjs';
import { makeTexts } from './testvectors/texts.mjs';
import { makeTokens } from './testvectors/tokens.mjs';

// biome.json's.
const LINE_WIDTH = 110;

const FILES = {
  'keys.json': makeKeys,
  'jwks.json': makeJwks,
  'texts.json': makeTexts,
  'statements.json': makeStatements,
  'tokens.json': makeTokens,
  'envelopes.json': makeEnvelopes,
  'messages.json': makeMessages,
  'evidence.json': makeEvidence,
  'digests.json': makeDigests,
  'digests-chain.json': makeChain,
  'provenance.json': makeProvenance,
  'approvals.json': makeApprovals,
  'bounded-grants.json': makeBoundedGrants,
  'json-texts.json': makeJsonTexts,
};

// Non-ASCII is written as escapes: the files then read alike under every editor, and nothing can normalize them.
const toAscii = (json) =>
  json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Lists of texts on one line where they fit, as the formatter wants them. */
const joinLists = (json) =>
  json.replace(/^( *"[^"]*": )\[\n((?: *"(?:[^"\\]|\\.)*",?\n)+) *\](,?)$/gm, (whole, name, items, comma) => {
    const line = `${name}[${items.trim().replace(/\n */g, ' ')}]${comma}`;
    return line.length <= LINE_WIDTH ? line : whole;
  });

const read = (url) => {
  try {
    return readFileSync(url, 'utf8');
  } catch {
    return undefined;
  }
};

const check = process.argv.includes('--check');
for (const [name, make] of Object.entries(FILES)) {
  const url = new URL(`../testvectors/${name}`, import.meta.url);
  const text = joinLists(toAscii(`${JSON.stringify(make(), null, 2)}\n`));
  if (!check) writeFileSync(url, text);
  else if (read(url) !== text) {
    console.error(`testvectors/${name} is not what scripts/make-testvectors.mjs makes`);
    process.exitCode = 1;
  }
}
