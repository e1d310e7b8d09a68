/**
 * The server's answers.
 *
 *     await get("labels", { query: "music" })
 *     await post("predict", { text: "…" })
 *
 * What the server refuses is thrown as a Refusal, whose message is for people.
 */

import { newToken, token } from "./token.js";

const PATIENCE = 30_000;

export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const get = async (path, query = {}, signal) => (await answer("GET", withQuery(path, query), null, signal)).json();
export const post = async (path, body) => (await answer("POST", path, body)).json();
export const download = async (path) => (await answer("GET", path, null)).blob();

function withQuery(path, query) {
  const text = new URLSearchParams(query).toString();
  return text ? `${path}?${text}` : path;
}

async function answer(method, path, body, signal) {
  const used = token();
  const headers = { Accept: "application/json" };
  if (used) headers.Authorization = `Bearer ${used}`;
  if (body !== null) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(PATIENCE);
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === null ? null : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(
      limit.aborted ? "The server took too long. Try again." : "The server does not answer. Is it still running?",
      0,
    );
  }
  if (response.status === 401) {
    await newToken(used);
    return answer(method, path, body, signal);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  let said = null;
  try {
    said = (await response.json()).error.message;
  } catch {
    // Something between the page and the server answered.
  }
  if (response.status === 503 || response.status === 429) {
    const wait = Number(response.headers.get("Retry-After"));
    return new Refusal(`The server is busy. Try again ${wait > 1 ? `in ${wait} seconds` : "in a moment"}.`, response.status);
  }
  return new Refusal(said ?? `The server answered ${response.status}.`, response.status);
}
