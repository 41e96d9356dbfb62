// An event stream as a page reads it: fetch with a streamed body, and the parsing rules of the HTML standard's "event stream" section:
// UTF-8, lines that end in CR, LF or CRLF, comments, "data" joined by newlines, an event at each empty line, an unfinished one dropped.
// node's fetch makes no CORS preflight; whether a page of another origin may ask is tested apart.
const [base, messages] = process.argv.slice(2);
const model = (await (await fetch(`${base}/models`)).json()).data[0].id;
const answer = await fetch(`${base}/chat/completions`, {
  method: "POST",
  headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
  body: JSON.stringify({ model, messages: JSON.parse(messages), stream: true }),
});

async function* events(body) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  let data = [];
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    for (;;) {
      const end = rest.search(/\r\n|\r(?!$)|\n/);
      if (end < 0) break;
      const line = rest.slice(0, end);
      rest = rest.slice(end + (rest.startsWith("\r\n", end) ? 2 : 1));
      if (line === "") {
        if (data.length) yield data.join("\n");
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  }
}

const seen = [];
for await (const event of events(answer.body)) seen.push(event);
const text = seen
  .filter((event) => event !== "[DONE]")
  .map((event) => JSON.parse(event).choices[0]?.delta?.content ?? "")
  .join("");
console.log(JSON.stringify({ status: answer.status, type: answer.headers.get("content-type"), events: seen.length, last: seen.at(-1), text }));
