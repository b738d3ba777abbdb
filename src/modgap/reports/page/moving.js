// Where every drawn point lies when a share t of a correction is applied (0 none, 1 all); no drawing.
//
//   modgap.moving.place(projection, side, squares, path, t)   [array per coordinate]; side is its place
//   modgap.moving.ranges(picture, projection, path)           [[low, high] per coordinate]
//   modgap.moving.moves(projection, path)                     whether this path can be shown

const known = new WeakMap(); // by move, then by projection

function moves(projection, path) {
  const move = path && modgap.sides.of(path.move)[0];
  return Boolean(projection.moves && (move?.along ?? move?.ends)?.[projection.key]);
}

// Where a move takes the rows in the end: their coordinates, their squares, and their products with the
// rows as they are. Without a matrix a row is scaled and gets an offset, so no row needs to be here.
function reach(projection, coordinates, squares, move) {
  if (move.ends) return { ends: move.ends[projection.key], dot: move.dot, square: move.square };
  const { scale: a, along, dot, square } = move;
  return {
    ends: coordinates.map((values, k) => Float64Array.from(values, (value) => a * value + along[projection.key][k])),
    dot: Float64Array.from(squares, (own, i) => a * own + dot[i]),
    square: Float64Array.from(squares, (own, i) => a * a * own + 2 * a * dot[i] + square),
  };
}

function reached(projection, coordinates, squares, move) {
  if (!known.has(move)) known.set(move, new Map());
  const found = known.get(move);
  if (!found.has(projection.key)) {
    found.set(projection.key, reach(projection, coordinates, squares, move));
  }
  return found.get(projection.key);
}

// A row goes straight to its end; on the way it may be brought to unit length, and scaled.
function place(projection, side, squares, path, t) {
  const coordinates = modgap.sides.of(projection)[side];
  const { origin } = projection;
  // At 0 the rows are drawn as given, even where the path renormalises.
  if (t === 0 || !moves(projection, path)) {
    return coordinates.map((values, k) => Float64Array.from(values, (value) => value - origin[k]));
  }
  const move = modgap.sides.of(path.move)[side];
  const { ends, dot, square } = reached(projection, coordinates, squares, move);
  const factor = 1 - t + t * move.factor;
  const scale = Float64Array.from(squares, (own, i) => (path.renormalise
    ? factor / Math.sqrt((1 - t) ** 2 * own + 2 * t * (1 - t) * dot[i] + t * t * square[i]) : factor));
  return coordinates.map((values, k) => Float64Array.from(values, (value, i) =>
    ((1 - t) * value + t * ends[k][i]) * scale[i] - origin[k]));
}

function stretch(range, values) {
  for (const value of values) {
    if (value < range[0]) range[0] = value;
    if (value > range[1]) range[1] = value;
  }
}

function ranges(picture, projection, path) {
  const found = projection.origin.map(() => [Infinity, -Infinity]);
  for (const t of moves(projection, path) ? path.steps : [0]) {
    modgap.sides.of(picture).forEach((own, side) => place(projection, side, own.squares, path, t)
      .forEach((values, k) => stretch(found[k], values)));
  }
  return found.map(([low, high]) => {
    if (!(high >= low)) return [-1, 1];
    const room = 0.04 * (high - low) || 0.5;
    return [low - room, high + room];
  });
}

modgap.moving = { place, ranges, moves };
