// Where every drawn point lies when a share t of the move is made (0 none, 1 all); no drawing.
//
//   modgap.moving.place(projection, side, squares, path, t)   [array per coordinate]; side is its place
//   modgap.moving.ranges(picture, projection, path)           [[low, high] per coordinate]
//   modgap.moving.moves(projection, path)                     whether this path can be shown
(function (modgap) {
  "use strict";

  function moves(projection, path) {
    return Boolean(path && projection.moves && modgap.sides.of(path.move)[0]?.along?.[projection.key]);
  }

  // A row moves by t times a vector and may be brought back to unit length; both are known in the
  // projection from the vector's image and two inner products, so no row needs to be here.
  function place(projection, side, squares, path, t) {
    const coordinates = modgap.sides.of(projection)[side];
    const { origin } = projection;
    // At 0 the rows are drawn as given, even where the path renormalises.
    if (t === 0 || !moves(projection, path)) {
      return coordinates.map((values, k) => Float64Array.from(values, (value) => value - origin[k]));
    }
    const move = modgap.sides.of(path.move)[side];
    const along = move.along[projection.key];
    const scale = path.renormalise
      ? Float64Array.from(squares, (square, i) =>
        1 / Math.sqrt(square + 2 * t * move.dot[i] + t * t * move.square))
      : null;
    return coordinates.map((values, k) => Float64Array.from(values, (value, i) =>
      (value + t * along[k]) * (scale ? scale[i] : 1) - origin[k]));
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
})((globalThis.modgap ??= {}));
