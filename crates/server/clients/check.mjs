// Talks to a running server with the official JavaScript clients: whole, streamed, tools.
// Usage: node check.mjs [http://127.0.0.1:8080]
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const base = process.argv[2] ?? 'http://127.0.0.1:8080';
const gpt = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const claude = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0 });
const model = (await gpt.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Tell me a story about a dog.' }];
const city = { type: 'object', properties: { city: { type: 'string' } } };

for (const more of [
  { reasoning_effort: 'none' },
  { tools: [{ type: 'function', function: { name: 'weather', parameters: city } }],
    tool_choice: { type: 'function', function: { name: 'weather' } }, reasoning_effort: 'none' },
]) {
  const body = { model, messages, max_tokens: 30, seed: 7, ...more };
  const whole = await gpt.chat.completions.create(body);
  const streamed = await gpt.chat.completions.stream(body).finalChatCompletion();
  const [one, other] = [whole, streamed].map((answer) => answer.choices[0]);
  assert.equal(one.message.content ?? '', other.message.content ?? '');
  assert.equal(one.finish_reason, other.finish_reason);
  const calls = (choice) => (choice.message.tool_calls ?? []).map(({ function: it }) => [it.name, it.arguments]);
  assert.deepEqual(calls(one), calls(other));
}

for (const more of [
  {},
  { thinking: { type: 'enabled', budget_tokens: 8 } },
  { tools: [{ name: 'weather', input_schema: city }], tool_choice: { type: 'tool', name: 'weather' } },
]) {
  const body = { model, messages, max_tokens: 40, seed: 7, ...more };
  const whole = await claude.messages.create(body);
  const streamed = await claude.messages.stream(body).finalMessage();
  const plain = ({ content }) => content.map((block) => ({ ...block, id: null }));
  assert.deepEqual(plain(whole), plain(streamed));
  assert.equal(whole.stop_reason, streamed.stop_reason);
}

const request = { model, input: 'Tell me a story.', max_output_tokens: 30, seed: 7 };
const whole = await gpt.responses.create(request);
const streamed = await gpt.responses.stream(request).finalResponse();
assert.equal(whole.output_text, streamed.output_text);
assert.equal(whole.status, streamed.status);
await assert.rejects(claude.messages.create({ model: 'else', messages, max_tokens: 1 }), Anthropic.NotFoundError);
await assert.rejects(gpt.responses.create({ ...request, previous_response_id: 'x' }), OpenAI.BadRequestError);
console.log('chat, messages and responses: whole and streamed answers are the same');
