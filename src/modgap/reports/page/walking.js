// Walking from point to point with the arrow keys.
//
//   modgap.walking.next(points, from, axis, sign)   the nearest point on that side of `from`, or null
//   modgap.walking.middle(points)                   the point nearest to the middle of all
//     points  per modality, an array per coordinate; points are {side, index}

function each(points, visit) {
  points.forEach((axes, side) => {
    for (let index = 0; index < axes[0].length; index += 1) visit({ side, index }, axes.map((values) => values[index]));
  });
}

function best(points, cost) {
  let found = null;
  let least = Infinity;
  each(points, (one, place) => {
    const own = cost(place, one);
    if (own < least) [found, least] = [one, own];
  });
  return found;
}

// Rows straight ahead come first: a step to the side counts double, and beyond 45 degrees fourfold.
function next(points, from, axis, sign) {
  const start = points[from.side].map((values) => values[from.index]);
  return best(points, (place) => {
    const ahead = sign * (place[axis] - start[axis]);
    const aside = Math.hypot(...place.map((value, k) => (k === axis ? 0 : value - start[k])));
    if (!(ahead > 0)) return Infinity;
    return Math.hypot(ahead, (aside <= ahead ? 2 : 4) * aside);
  });
}

function middle(points) {
  let count = 0;
  const sums = points[0].map(() => 0);
  each(points, (_, place) => {
    count += 1;
    place.forEach((value, k) => (sums[k] += value));
  });
  return best(points, (place) => Math.hypot(...place.map((value, k) => value - sums[k] / count)));
}

modgap.walking = { next, middle };
