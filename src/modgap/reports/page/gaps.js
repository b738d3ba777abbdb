// The gap matrix: how far the means of every two of more than two modalities are apart.
//
//   modgap.gaps.table(data)   null where nothing was measured

const { el } = modgap.dom;

function table(data) {
  const matrix = data.measurement?.gap_matrix;
  if (!matrix) return null;
  const { names } = data;
  const most = Math.max(...matrix.flat());
  const rows = names.map((name, i) => ({ cells: [
    { node: el("span", { class: "side" }, modgap.sides.mark(i), name), csv: name },
    ...names.map((_, j) => (i === j ? null : { ...modgap.number.cell(data,
      ["measurement", "gap_matrix", i, j], { term: "gap_distance", digits: 3 }), shade: matrix[i][j] / most })),
  ] }));
  return el("div", { class: "gap-matrix", id: "gap-matrix" }, modgap.tables.render({
    caption: "Gap matrix", file: "gap-matrix", rows,
    columns: [{ label: "" }, ...names.map((name) => ({ label: name }))],
    note: "Distance between the means of every two modalities, of all rows as given. A stronger colour is further." }));
}

modgap.gaps = { table };
