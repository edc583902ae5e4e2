// Preloaded (NODE_OPTIONS=--import=…) into a process that is not to go on before a test has looked: one whose arguments
// hold the text HELD_NAMING waits here for as long as the file HELD_WHILE is there, and its parent lives.
import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const { HELD_NAMING: naming, HELD_WHILE: file } = process.env;
const parent = process.ppid;

if (process.argv.some((argument) => argument.includes(naming))) {
  while (existsSync(file) && process.ppid === parent) await setTimeout(20);
}
