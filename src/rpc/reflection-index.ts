import { type DescEnum, type DescFile, type DescMessage, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';

/** A file's descriptor with those of everything that it imports, serialized; each before what it imports. */
export type DescriptorBundle = readonly Uint8Array[];

/** Finds descriptors by file name and by full name of a symbol. */
export class ReflectionIndex {
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  readonly #messages = new Set<string>();
  readonly #serialized = new Map<DescFile, Uint8Array>();

  /** @param files with everything that they import */
  constructor(files: readonly DescFile[]) {
    for (const file of files) {
      this.#files.set(file.proto.name, file);
      for (const service of file.services) {
        this.#symbols.set(service.typeName, file);
        for (const method of service.methods) this.#symbols.set(`${service.typeName}.${method.name}`, file);
      }
      for (const type of typesOf(file)) {
        this.#symbols.set(type.typeName, file);
        if (type.kind === 'message') this.#messages.add(type.typeName);
      }
    }
  }

  byFileName(name: string): DescriptorBundle | undefined {
    return this.#bundle(this.#files.get(name));
  }

  /** @param symbol a service, one of its methods (`package.Service.Method`), a message or an enum */
  bySymbol(symbol: string): DescriptorBundle | undefined {
    return this.#bundle(this.#symbols.get(symbol));
  }

  hasMessage(typeName: string): boolean {
    return this.#messages.has(typeName);
  }

  #bundle(file: DescFile | undefined): DescriptorBundle | undefined {
    if (file === undefined) return undefined;
    const found = new Set<DescFile>();
    const add = (one: DescFile): void => {
      if (found.has(one)) return;
      one.dependencies.forEach(add);
      found.add(one);
    };
    add(file);
    return [...found].reverse().map((one) => this.#serialize(one));
  }

  #serialize(file: DescFile): Uint8Array {
    let bytes = this.#serialized.get(file);
    if (bytes === undefined) {
      bytes = toBinary(FileDescriptorProtoSchema, file.proto);
      this.#serialized.set(file, bytes);
    }
    return bytes;
  }
}

function typesOf(scope: DescFile | DescMessage): (DescMessage | DescEnum)[] {
  const [messages, enums] =
    scope.kind === 'file' ? [scope.messages, scope.enums] : [scope.nestedMessages, scope.nestedEnums];
  return [...enums, ...messages.flatMap((message) => [message, ...typesOf(message)])];
}
