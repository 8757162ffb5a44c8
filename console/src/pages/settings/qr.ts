// QR codes of short texts: ISO/IEC 18004, bytes, error correction level L, versions 1 to 20. Pure.

// By version: error correction codewords in each block, and the number of blocks.
const ECC_PER_BLOCK = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28];
const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8];
const MAX_VERSION = 20;
// The format bits of level L.
const LEVEL_BITS = 1;
const PENALTIES = { run: 3, block: 3, finder: 40, balance: 10 };

type Matrix = boolean[][];

/** Return the modules of the code by row, true for dark; null if the text is too long. */
export function encodeQr(text: string): Matrix | null {
  const bytes = [...new TextEncoder().encode(text)];
  for (let version = 1; version <= MAX_VERSION; version++) {
    const capacity = countCodewords(version) - eccOf(version) * blocksOf(version);
    if (4 + (version < 10 ? 8 : 16) + bytes.length * 8 <= capacity * 8) return draw(version, interleave(version, pack(version, bytes, capacity)));
  }
  return null;
}

const eccOf = (version: number): number => ECC_PER_BLOCK[version - 1]!;
const blocksOf = (version: number): number => BLOCKS[version - 1]!;

function countCodewords(version: number): number {
  let modules = (16 * version + 128) * version + 64;
  if (version >= 2) {
    const patterns = Math.floor(version / 7) + 2;
    modules -= (25 * patterns - 10) * patterns - 55;
    if (version >= 7) modules -= 36;
  }
  return Math.floor(modules / 8);
}

/** Return the codewords of the data: mode, length, bytes, and padding. */
function pack(version: number, bytes: number[], capacity: number): number[] {
  const bits: number[] = [];
  const append = (value: number, length: number) => {
    for (let at = length - 1; at >= 0; at--) bits.push((value >>> at) & 1);
  };
  append(4, 4);
  append(bytes.length, version < 10 ? 8 : 16);
  for (const each of bytes) append(each, 8);
  append(0, Math.min(4, capacity * 8 - bits.length));
  append(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < capacity * 8; pad ^= 0xec ^ 0x11) append(pad, 8);
  return Array.from({ length: capacity }, (_, index) => bits.slice(index * 8, index * 8 + 8).reduce((sum, bit) => sum * 2 + bit, 0));
}

function multiply(a: number, b: number): number {
  let product = 0;
  for (let at = 7; at >= 0; at--) {
    product = (product << 1) ^ ((product >>> 7) * 0x11d);
    product ^= ((b >>> at) & 1) * a;
  }
  return product;
}

function buildDivisor(degree: number): number[] {
  const result = new Array<number>(degree).fill(0);
  result[degree - 1] = 1;
  let root = 1;
  for (let step = 0; step < degree; step++) {
    for (let at = 0; at < degree; at++) result[at] = multiply(result[at]!, root) ^ (result[at + 1] ?? 0);
    root = multiply(root, 2);
  }
  return result;
}

function findRemainder(data: number[], divisor: number[]): number[] {
  const result = new Array<number>(divisor.length).fill(0);
  for (const each of data) {
    const factor = each ^ result.shift()!;
    result.push(0);
    divisor.forEach((coefficient, at) => (result[at]! ^= multiply(coefficient, factor)));
  }
  return result;
}

/** Split the data into blocks, add the error correction of each, and take codewords of all blocks in turn. */
function interleave(version: number, data: number[]): number[] {
  const count = blocksOf(version);
  const total = countCodewords(version);
  const shorter = count - (total % count);
  const length = Math.floor(total / count) - eccOf(version);
  const divisor = buildDivisor(eccOf(version));
  const parts: number[][] = [];
  const corrections: number[][] = [];
  for (let block = 0, at = 0; block < count; block++) {
    const size = length + (block < shorter ? 0 : 1);
    const part = data.slice(at, at + size);
    at += size;
    parts.push(part);
    corrections.push(findRemainder(part, divisor));
  }
  const take = (from: number[][], size: number) => Array.from({ length: size }, (_, at) => from.flatMap((each) => each[at] ?? [])).flat();
  return [...take(parts, length + 1), ...take(corrections, eccOf(version))];
}

function draw(version: number, codewords: number[]): Matrix {
  const size = version * 4 + 17;
  const modules: Matrix = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
  const fixed: Matrix = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
  const set = (x: number, y: number, isDark: boolean) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return;
    modules[y]![x] = isDark;
    fixed[y]![x] = true;
  };
  drawPatterns(version, size, set, fixed);
  drawFormat(size, 0, set);
  drawData(size, codewords, modules, fixed);
  let best = { mask: 0, penalty: Number.POSITIVE_INFINITY };
  for (let mask = 0; mask < 8; mask++) {
    flip(mask, modules, fixed);
    drawFormat(size, mask, set);
    const penalty = rate(modules);
    if (penalty < best.penalty) best = { mask, penalty };
    flip(mask, modules, fixed);
  }
  flip(best.mask, modules, fixed);
  drawFormat(size, best.mask, set);
  return modules;
}

type Set = (x: number, y: number, isDark: boolean) => void;

function drawPatterns(version: number, size: number, set: Set, fixed: Matrix): void {
  for (let at = 0; at < size; at++) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]] as const)
    for (let dy = -4; dy <= 4; dy++)
      for (let dx = -4; dx <= 4; dx++) {
        const distance = Math.max(Math.abs(dx), Math.abs(dy));
        set(x + dx, y + dy, distance !== 2 && distance !== 4);
      }
  const places = listAlignments(version, size);
  for (const x of places)
    for (const y of places) {
      if (fixed[y]![x] && (x === 6 || y === 6) && (x === y || x > size - 9 || y > size - 9)) continue;
      for (let dy = -2; dy <= 2; dy++) for (let dx = -2; dx <= 2; dx++) set(x + dx, y + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
    }
  if (version >= 7) drawVersion(version, size, set);
}

function listAlignments(version: number, size: number): number[] {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2;
  const places = [6];
  for (let at = size - 7; places.length < count; at -= step) places.splice(1, 0, at);
  return places;
}

function drawVersion(version: number, size: number, set: Set): void {
  let remainder = version;
  for (let step = 0; step < 12; step++) remainder = (remainder << 1) ^ ((remainder >>> 11) * 0x1f25);
  const bits = (version << 12) | remainder;
  for (let at = 0; at < 18; at++) {
    const isDark = ((bits >>> at) & 1) === 1;
    const far = size - 11 + (at % 3);
    const near = Math.floor(at / 3);
    set(far, near, isDark);
    set(near, far, isDark);
  }
}

function drawFormat(size: number, mask: number, set: Set): void {
  const data = (LEVEL_BITS << 3) | mask;
  let remainder = data;
  for (let step = 0; step < 10; step++) remainder = (remainder << 1) ^ ((remainder >>> 9) * 0x537);
  const bits = ((data << 10) | remainder) ^ 0x5412;
  const bit = (at: number) => ((bits >>> at) & 1) === 1;
  for (let at = 0; at <= 5; at++) set(8, at, bit(at));
  set(8, 7, bit(6));
  set(8, 8, bit(7));
  set(7, 8, bit(8));
  for (let at = 9; at < 15; at++) set(14 - at, 8, bit(at));
  for (let at = 0; at < 8; at++) set(size - 1 - at, 8, bit(at));
  for (let at = 8; at < 15; at++) set(8, size - 15 + at, bit(at));
  set(8, size - 8, true);
}

function drawData(size: number, codewords: number[], modules: Matrix, fixed: Matrix): void {
  let index = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++)
      for (let side = 0; side < 2; side++) {
        const x = right - side;
        const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
        if (fixed[y]![x] || index >= codewords.length * 8) continue;
        modules[y]![x] = ((codewords[index >>> 3]! >>> (7 - (index & 7))) & 1) === 1;
        index++;
      }
  }
}

const MASKS: ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

function flip(mask: number, modules: Matrix, fixed: Matrix): void {
  modules.forEach((row, y) => row.forEach((isDark, x) => !fixed[y]![x] && (row[x] = isDark !== MASKS[mask]!(x, y))));
}

/** Return how hard a code is to read: long runs, blocks, and patterns like those in the corners. */
function rate(modules: Matrix): number {
  const size = modules.length;
  const columns = modules.map((_, x) => modules.map((row) => row[x]!));
  let penalty = 0;
  for (const line of [...modules, ...columns]) {
    const text = line.map((isDark) => (isDark ? "1" : "0")).join("");
    for (const run of text.match(/0{5,}|1{5,}/g) ?? []) penalty += PENALTIES.run + run.length - 5;
    for (let at = 0; at + 11 <= size; at++) if (/^(10111010000|00001011101)$/.test(text.slice(at, at + 11))) penalty += PENALTIES.finder;
  }
  let dark = 0;
  modules.forEach((row, y) =>
    row.forEach((isDark, x) => {
      if (isDark) dark++;
      if (x > 0 && y > 0 && isDark === row[x - 1] && isDark === modules[y - 1]![x] && isDark === modules[y - 1]![x - 1]) penalty += PENALTIES.block;
    }),
  );
  return penalty + Math.floor(Math.abs((dark * 20) / (size * size) - 10)) * PENALTIES.balance;
}
