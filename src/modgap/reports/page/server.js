// Asking the server of the live explorer. What it says is text, never markup.
//
//   modgap.server.ask(address, body, method)   its answer; an error says why, `ended` if it answered
//   modgap.server.pause(time)                  resolves after so many milliseconds

const pause = (time) => new Promise((done) => setTimeout(done, time));

async function ask(address, body, method) {
  const options = { method: method ?? (body ? "POST" : "GET"), headers: { accept: "application/json" } };
  if (body) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(`api/${address}`, options)
    .catch(() => { throw new Error("The server does not answer. Is modgap serve still running?"); });
  const said = await answer.json().catch(() => null);
  if (answer.ok && said) return said;
  const error = new Error(said?.detail ?? `The server answered with status ${answer.status}.`);
  throw Object.assign(error, { ended: true });
}

modgap.server = { ask, pause };
