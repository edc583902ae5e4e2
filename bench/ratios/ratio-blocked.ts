/** A ratio cannot be measured here; the others can. */
export class RatioBlocked extends Error {
  override readonly name = 'RatioBlocked';
}
