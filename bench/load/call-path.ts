import type { DescMethod } from '@bufbuild/protobuf';

/** The `:path` of a method. */
export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}
