// Talks to a running server with the official JavaScript clients: whole, streamed, tools, answers
// that must fit a type, loops of an agent. Usage: node check.mjs [http://127.0.0.1:8080]
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import OpenAI from 'openai';
import {
  zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat,
} from 'openai/helpers/zod';
import { z } from 'zod';

const base = process.argv[2] ?? 'http://127.0.0.1:8080';
const gpt = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const claude = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0 });
const model = (await gpt.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Tell me a story about a dog.' }];
const question = { role: 'user', content: 'What is the weather in Rome?' };
// Few values: the sample model would not find the end of a text of its own.
const cities = ['Rome', 'Paris'];
const city = { type: 'object', properties: { city: { enum: cities } }, required: ['city'] };
const chatTool = { type: 'function', function: { name: 'weather', parameters: city } };
const seed = { seed: 7 };

/** What must be the same in a whole answer and a streamed one. */
const calls = (message) =>
  (message.tool_calls ?? []).map(({ function: it }) => [it.name, it.arguments]);

let events = 0;

/** Counts what a stream tells on its way. */
async function counted(stream) {
  for await (const _ of stream) events += 1;
  return stream;
}

async function chat() {
  const forced = { type: 'function', function: { name: 'weather' } };
  for (const more of [
    {},
    { reasoning_effort: 'none' },
    { reasoning_effort: 'none', n: 2, logprobs: true, top_logprobs: 2 },
    { tools: [chatTool], tool_choice: forced, reasoning_effort: 'none' },
  ]) {
    const body = { model, messages, max_tokens: 30, ...seed, ...more };
    const whole = await gpt.chat.completions.create(body);
    const streamed = await (await counted(gpt.chat.completions.stream(body))).finalChatCompletion();
    assert.equal(whole.choices.length, streamed.choices.length);
    whole.choices.forEach((one, index) => {
      const other = streamed.choices[index];
      assert.equal(one.message.content ?? '', other.message.content ?? '');
      assert.equal(one.finish_reason, other.finish_reason);
      assert.deepEqual(calls(one.message), calls(other.message));
    });
  }
}

async function anthropic() {
  for (const more of [
    {},
    { thinking: { type: 'enabled', budget_tokens: 8 } },
    { tools: [{ name: 'weather', input_schema: city }], tool_choice: { type: 'tool', name: 'weather' } },
  ]) {
    const body = { model, messages, max_tokens: 40, ...seed, ...more };
    const whole = await claude.messages.create(body);
    const streamed = await (await counted(claude.messages.stream(body))).finalMessage();
    const plain = ({ content }) => content.map((block) => ({ ...block, id: null }));
    assert.deepEqual(plain(whole), plain(streamed));
    assert.equal(whole.stop_reason, streamed.stop_reason);
  }
}

async function responses() {
  const request = { model, input: 'Tell me a story.', max_output_tokens: 30, ...seed };
  const whole = await gpt.responses.create(request);
  const streamed = await (await counted(gpt.responses.stream(request))).finalResponse();
  assert.equal(whole.output_text, streamed.output_text);
  assert.equal(whole.status, streamed.status);
}

async function refused() {
  const request = { model, input: 'Hello', previous_response_id: 'x' };
  await assert.rejects(gpt.responses.create(request), OpenAI.BadRequestError);
  const other = { model: 'else', messages, max_tokens: 1 };
  await assert.rejects(claude.messages.create(other), Anthropic.NotFoundError);
  await assert.rejects(gpt.chat.completions.create(other), OpenAI.NotFoundError);
}

const Pet = z.object({
  name: z.enum(['Rex', 'Mia']),
  legs: z.union([z.literal(3), z.literal(4)]),
  friendly: z.boolean(),
});
const invent = [{ role: 'user', content: 'Invent a pet.' }];

/** Answers and arguments of calls that must fit a type, by the packages' own helpers. */
async function structured() {
  let count = 0;
  const isPet = (value) => { Pet.parse(value); count += 1; return value; };
  const base = { model, messages: invent, max_tokens: 1500, ...seed };
  for (const more of [{ reasoning_effort: 'none' }, { reasoning_budget: 8 }]) {
    const body = { ...base, ...more, response_format: zodResponseFormat(Pet, 'pet') };
    const whole = (await gpt.chat.completions.parse(body)).choices[0].message;
    const stream = await counted(gpt.chat.completions.stream(body));
    const streamed = (await stream.finalChatCompletion()).choices[0].message;
    assert.deepEqual(isPet(whole.parsed), isPet(streamed.parsed));
  }
  // The sample model would go on calling.
  const once = { tool_choice: 'required', parallel_tool_calls: false };
  const call = { ...base, ...once, reasoning_effort: 'none' };
  const tools = [zodFunction({ name: 'keep', parameters: Pet })];
  const kept = (await gpt.chat.completions.parse({ ...call, tools })).choices[0].message.tool_calls;
  isPet(kept[0].function.parsed_arguments);

  const input = { model, input: 'Invent a pet.', max_output_tokens: 1500, ...seed,
    reasoning: { effort: 'none' } };
  const format = { format: zodTextFormat(Pet, 'pet') };
  const whole = await gpt.responses.parse({ ...input, text: format });
  const streamed = await counted(gpt.responses.stream({ ...input, text: format }));
  assert.deepEqual(isPet(whole.output_parsed), isPet((await streamed.finalResponse()).output_parsed));
  const wanted = { ...once, tools: [zodResponsesFunction({ name: 'keep', parameters: Pet })] };
  const items = (await gpt.responses.parse({ ...input, ...wanted })).output;
  isPet(items.find((item) => item.type === 'function_call').parsed_arguments);

  for (const more of [{}, { thinking: { type: 'enabled', budget_tokens: 8 } }]) {
    const body = { ...base, ...more, output_config: { format: zodOutputFormat(Pet) } };
    const whole = await claude.messages.parse(body);
    const stream = await counted(claude.messages.stream(body));
    assert.deepEqual(isPet(whole.parsed_output), isPet((await stream.finalMessage()).parsed_output));
  }
  const keep = { name: 'keep', input_schema: z.toJSONSchema(Pet), strict: true };
  const forced = { ...base, tools: [keep], tool_choice: { type: 'tool', name: 'keep' } };
  const use = (await claude.messages.create(forced)).content.find((block) => block.type === 'tool_use');
  isPet(use.input);
  return count;
}

/** Loops of an agent: two calls (forced, since the sample model knows no tools), then an answer. */
async function agent() {
  let turns = 0;
  const history = [question];
  const forced = { type: 'function', function: { name: 'weather' } };
  for (let turn = 0; turn < 3; turn += 1, turns += 1) {
    const body = { model, messages: history, tools: [chatTool], max_tokens: 400, ...seed,
      tool_choice: turn < 2 ? forced : 'none', reasoning_effort: 'none' };
    const { message } = (await gpt.chat.completions.create(body)).choices[0];
    assert.equal((message.tool_calls ?? []).length > 0, turn < 2);
    history.push(message);
    for (const call of message.tool_calls ?? []) {
      assert.ok(cities.includes(JSON.parse(call.function.arguments).city));
      history.push({ role: 'tool', tool_call_id: call.id, content: 'Sunny.' });
    }
  }
  const talk = [question];
  for (let turn = 0; turn < 3; turn += 1, turns += 1) {
    const body = { model, messages: talk, max_tokens: 400, ...seed,
      tools: [{ name: 'weather', input_schema: city }],
      tool_choice: turn < 2 ? { type: 'tool', name: 'weather' } : { type: 'none' } };
    const { content } = await claude.messages.create(body);
    const uses = content.filter((block) => block.type === 'tool_use');
    assert.equal(uses.length > 0, turn < 2);
    uses.forEach((use) => assert.ok(cities.includes(use.input.city)));
    const results = uses.map((use) => ({ type: 'tool_result', tool_use_id: use.id, content: 'Sunny.' }));
    talk.push({ role: 'assistant', content }, { role: 'user', content: turn < 2 ? results : 'Thanks.' });
  }
  const items = [question];
  const tool = { type: 'function', name: 'weather', parameters: city, strict: false };
  for (let turn = 0; turn < 3; turn += 1, turns += 1) {
    const body = { model, input: items, tools: [tool], max_output_tokens: 400, ...seed,
      tool_choice: turn < 2 ? { type: 'function', name: 'weather' } : 'none',
      reasoning: { effort: 'none' } };
    const { output } = await gpt.responses.create(body);
    const found = output.filter((item) => item.type === 'function_call');
    assert.equal(found.length > 0, turn < 2);
    found.forEach((call) => assert.ok(cities.includes(JSON.parse(call.arguments).city)));
    items.push(...output, ...found.map((call) => (
      { type: 'function_call_output', call_id: call.call_id, output: 'Sunny.' })));
  }
  return turns;
}

await chat();
await anthropic();
await responses();
await refused();
const values = await structured();
const turns = await agent();
console.log(`whole and streamed answers are the same (${events} events); `
  + `${values} values fit their type; ${turns} turns with tools`);
