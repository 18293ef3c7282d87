"""Talks to a running server with the official Python clients and believes nothing.

Every event of a stream is validated against the clients' own types, strictly; what is put together
from a stream must be what the server sends as a whole. Usage: check.py [http://127.0.0.1:8080]
"""

import json
import sys
import urllib.request
from typing import Literal

import anthropic
import openai
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

BASE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
SEED = {"seed": 7}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "The weather in a city."}
CHAT_TOOL = {"type": "function", "function": {**WEATHER, "parameters": CITY}}
RESPONSE_TOOL = {"type": "function", **WEATHER, "parameters": CITY, "strict": False}
ANTHROPIC_TOOL = {**WEATHER, "input_schema": CITY}
STORY = "Tell me a story about a dog."
IDS = {"id", "call_id", "created", "created_at", "usage", "item_id"}

gpt = openai.OpenAI(base_url=f"{BASE}/v1", api_key="none", max_retries=0)
claude = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0)
model = gpt.models.list().data[0].id


def raw(path, body):
    """The response to a request as it came."""
    data = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(BASE + path, data, headers)) as reply:
        return reply.read()


def strict(path, body, whole, event):
    """Validates a whole answer and every event of the same one streamed."""
    TypeAdapter(whole).validate_json(raw(path, body), strict=True)
    adapter = TypeAdapter(event)
    events = raw(path, {**body, "stream": True}).decode().split("\n\n")
    lines = [line for event in events for line in event.split("\n") if line.startswith("data: ")]
    found = [line[6:] for line in lines if line != "data: [DONE]"]
    assert found
    for data in found:
        if event is Completion:
            # The package's own type knows no null here, which the format has in every event but
            # the last.
            data = data.replace('"finish_reason":null', '"finish_reason":"stop"')
        adapter.validate_json(data, strict=True)
    return len(found)


def same(one, other):
    """Whether two answers are the same but for what is unique to each."""

    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in IDS and v is not None}
        return [plain(item) for item in value] if isinstance(value, list) else value

    one, other = (plain(answer.model_dump(mode="json", warnings=False)) for answer in (one, other))
    assert one == other, f"{one}\n{other}"


def refused(kind, call, **known):
    try:
        call()
    except kind as error:
        for name, value in known.items():
            assert getattr(error, name) == value, (error, name)
        return error
    raise AssertionError(f"not refused: {kind}")


def chat():
    base = {"model": model, "messages": [{"role": "user", "content": STORY}], **SEED}
    forced = {"type": "function", "function": {"name": "weather"}}
    cases = [
        {"max_tokens": 30},
        {"max_tokens": 30, "reasoning_effort": "none", "n": 2},
        {"max_tokens": 12, "reasoning_effort": "none", "logprobs": True, "top_logprobs": 2},
        {"max_tokens": 40, "tools": [CHAT_TOOL], "tool_choice": forced},
        {"max_tokens": 40, "reasoning_effort": "none", "tools": [CHAT_TOOL]},
    ]
    count = 0
    for case in cases:
        body = {**base, **case}
        with_usage = {"stream_options": {"include_usage": True}}
        count += strict("/v1/chat/completions", body, ChatCompletion, ChatCompletionChunk)
        whole = gpt.chat.completions.create(**body)
        with gpt.chat.completions.stream(**body, **with_usage) as stream:
            # What the helper put together; asked for the end, it raises if the length was reached.
            for _ in stream:
                streamed = stream.current_completion_snapshot
        for choice, other in zip(whole.choices, streamed.choices, strict=True):
            assert choice.finish_reason == other.finish_reason
            assert (choice.message.content or "") == (other.message.content or "")
            calls = [[(c.function.name, c.function.arguments) for c in m.message.tool_calls or []]
                     for m in (choice, other)]
            assert calls[0] == calls[1], calls
        assert streamed.usage.total_tokens == whole.usage.total_tokens
    too_long = {**base, "messages": [{"role": "user", "content": "word " * 200_000}]}
    error = refused(openai.BadRequestError, lambda: gpt.chat.completions.create(**too_long))
    assert error.code == "context_length_exceeded"
    other = {**base, "model": "else"}
    refused(openai.NotFoundError, lambda: gpt.chat.completions.create(**other), param="model")
    return count


class Pet(BaseModel):
    """A pet."""

    name: Literal["Rex", "Mia"]
    legs: Literal[3, 4]
    friendly: bool


def structured():
    """Answers and arguments of calls that must fit a type, by the packages' own helpers."""
    ask = [{"role": "user", "content": "Invent a pet."}]
    base = {"model": model, "max_tokens": 1500, **SEED}
    for more in [{"reasoning_effort": "none"}, {"extra_body": {"reasoning_budget": 8}}]:
        answer = gpt.chat.completions.parse(**base, **more, messages=ask, response_format=Pet)
        assert isinstance(answer.choices[0].message.parsed, Pet)
        with gpt.chat.completions.stream(
            **base, **more, messages=ask, response_format=Pet
        ) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == (
                answer.choices[0].message.parsed
            )
    tool = openai.pydantic_function_tool(Pet)
    # The sample model would go on calling.
    call = gpt.chat.completions.parse(
        **base, reasoning_effort="none", messages=ask, tools=[tool], tool_choice="required",
        parallel_tool_calls=False,
    )
    assert isinstance(call.choices[0].message.tool_calls[0].function.parsed_arguments, Pet)
    response = gpt.responses.parse(
        model=model, input="Invent a pet.", text_format=Pet, max_output_tokens=1500,
        reasoning={"effort": "none"}, extra_body=SEED,
    )
    assert isinstance(response.output_parsed, Pet)
    thinking = {"type": "enabled", "budget_tokens": 8}
    for more in [{}, {"thinking": thinking}]:
        body = {"model": model, "max_tokens": 1500, "messages": ask, **more, "extra_body": SEED}
        message = claude.messages.parse(**body, output_format=Pet)
        assert isinstance(message.parsed_output, Pet)
        with claude.messages.stream(**body, output_format=Pet) as stream:
            assert stream.get_final_message().parsed_output == message.parsed_output
    return 7


def completions():
    body = {"model": model, "prompt": "Once upon a time", "max_tokens": 20, **SEED}
    count = strict("/v1/completions", {**body, "logprobs": 2}, Completion, Completion)
    whole = gpt.completions.create(**body).choices[0].text
    streamed = gpt.completions.create(**body, stream=True)
    assert whole == "".join(chunk.choices[0].text for chunk in streamed)
    return count


def responses():
    base = {"model": model, "input": STORY, "extra_body": SEED}
    forced = {"type": "function", "name": "weather"}
    cases = [
        {"max_output_tokens": 30},
        {"max_output_tokens": 30, "reasoning": {"effort": "none"}, "instructions": "Be brief."},
        {"max_output_tokens": 40, "reasoning": {"effort": "none"}, "tools": [RESPONSE_TOOL],
         "tool_choice": forced},
    ]
    count = 0
    for case in cases:
        body = {**base, **case}
        plain = {**body, **body["extra_body"]}
        del plain["extra_body"]
        count += strict("/v1/responses", plain, Response, ResponseStreamEvent)
        whole = gpt.responses.create(**body)
        streamed = None
        for event in gpt.responses.create(**body, stream=True):
            if event.type in ("response.completed", "response.incomplete"):
                streamed = event.response
        same(whole, streamed)
        with gpt.responses.stream(**body) as stream:
            # The helper accumulates for itself and raises if events do not fit.
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        assert text == whole.output_text
    stored = {**base, "previous_response_id": "resp_1"}
    refused(openai.BadRequestError, lambda: gpt.responses.create(**stored),
            param="previous_response_id")
    return count


def messages():
    base = {"model": model, "messages": [{"role": "user", "content": STORY}], "extra_body": SEED}
    cases = [
        {"max_tokens": 30},
        {"max_tokens": 40, "thinking": {"type": "enabled", "budget_tokens": 8}},
        {"max_tokens": 30, "system": [{"type": "text", "text": "Be brief."}], "stop_sequences": ["e"]},
        {"max_tokens": 40, "tools": [ANTHROPIC_TOOL],
         "tool_choice": {"type": "tool", "name": "weather"}},
    ]
    count = 0
    for case in cases:
        body = {**base, **case}
        plain = {**body, **SEED}
        del plain["extra_body"]
        count += strict("/v1/messages", plain, Message, RawMessageStreamEvent)
        whole = claude.messages.create(**body)
        with claude.messages.stream(**body) as stream:
            same(whole, stream.get_final_message())
        counted = {k: v for k, v in body.items() if k in ("model", "messages", "system", "tools",
                                                           "tool_choice", "thinking")}
        tokens = claude.messages.count_tokens(**counted).input_tokens
        assert tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    assert claude.models.list().data[0].id == model
    too_long = {**base, "max_tokens": 5, "messages": [{"role": "user", "content": "word " * 200_000}]}
    error = refused(anthropic.BadRequestError, lambda: claude.messages.create(**too_long))
    assert error.body["error"]["message"].startswith("prompt is too long"), error
    other = {**base, "model": "else", "max_tokens": 5}
    refused(anthropic.NotFoundError, lambda: claude.messages.create(**other))
    return count


def agent():
    """Loops of an agent: calls (forced, since the sample model knows no tools), results, answer."""
    history = [{"role": "user", "content": "What is the weather in Rome?"}]
    forced = {"type": "function", "function": {"name": "weather"}}
    for turn in range(3):
        choice = forced if turn < 2 else "none"
        answer = gpt.chat.completions.create(model=model, messages=history, tools=[CHAT_TOOL],
            tool_choice=choice, max_tokens=40, reasoning_effort="none", **SEED).choices[0].message
        calls = [call.model_dump() for call in answer.tool_calls or []]
        assert calls or turn == 2
        for call in calls:
            call["function"]["arguments"] = repaired(call["function"]["arguments"])
        history.append({"role": "assistant", "content": answer.content, "tool_calls": calls or None})
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "Sunny."}
                    for call in reversed(calls)]
    history = [{"role": "user", "content": "What is the weather in Rome?"}]
    for turn in range(3):
        choice = {"type": "tool", "name": "weather"} if turn < 2 else {"type": "none"}
        answer = claude.messages.create(model=model, messages=history, tools=[ANTHROPIC_TOOL],
            tool_choice=choice, max_tokens=40, extra_body=SEED)
        uses = [block for block in answer.content if block.type == "tool_use"]
        assert uses or turn == 2
        history.append({"role": "assistant", "content": answer.content})
        history.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": use.id, "content": "Sunny."} for use in uses
        ] or "Thanks."})
    items = [{"role": "user", "content": "What is the weather in Rome?"}]
    for turn in range(3):
        choice = {"type": "function", "name": "weather"} if turn < 2 else "none"
        answer = gpt.responses.create(model=model, input=items, tools=[RESPONSE_TOOL],
            tool_choice=choice, max_output_tokens=40, reasoning={"effort": "none"},
            extra_body=SEED)
        output = [item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in output if item["type"] == "function_call"]
        assert calls or turn == 2
        for call in calls:
            call["arguments"] = repaired(call["arguments"])
        items += output
        items += [{"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."}
                  for call in calls]
    return 9


def repaired(arguments):
    """Arguments as an agent sends them back: none where the answer was cut off within them."""
    try:
        json.loads(arguments)
        return arguments
    except ValueError:
        return "{}"


for check in (chat, structured, completions, responses, messages, agent):
    print(f"{check.__name__}: {check()} events or turns")
