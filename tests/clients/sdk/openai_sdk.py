"""What the OpenAI SDK for Python makes of the engines' answers, as one line of JSON.

Usage: python openai_sdk.py BASE_URL MODEL SESSION
"""

import asyncio
import json
import sys

import openai

base_url, model, session = sys.argv[1:]
options = {"base_url": base_url + "/v1", "api_key": "unused"}
plain = openai.OpenAI(**options)
named = openai.OpenAI(**options, default_headers={"x-session-id": session})
hasty = named.with_options(timeout=0.4, max_retries=1)
seen = {}


def user(content):
    return {"role": "user", "content": content}


# A conversation with a tool, from a client that names no conversation.
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
messages = [{"role": "system", "content": "You know the weather."}, user("WEATHER in Zürich?")]
with plain.chat.completions.stream(model=model, messages=messages, tools=tools) as stream:
    call = stream.get_final_completion().choices[0].message
function = call.tool_calls[0].function
seen["call"] = {"name": function.name, "arguments": json.loads(function.arguments)}
messages += [
    {
        "role": "assistant",
        "content": call.content,
        "tool_calls": [{"id": call.tool_calls[0].id, "type": "function", "function": {"name": function.name, "arguments": function.arguments}}],
    },
    {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "it is sunny"},
]
text, usage = "", None
for chunk in plain.chat.completions.create(model=model, messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}):
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    usage = chunk.usage or usage
seen["text"] = text
seen["usage"] = [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens]

# Whole, and streamed by a client that does not want the usage.
seen["whole"] = named.chat.completions.create(model=model, messages=[user("hello")]).choices[0].message.content
seen["unasked"] = 0
for chunk in named.chat.completions.create(model=model, messages=[user("hello")], stream=True):
    if chunk.usage or not chunk.choices:
        seen["unasked"] += 1
seen["response"] = named.responses.create(model=model, input="hello").output_text
for event in named.responses.create(model=model, input="hello", stream=True):
    if event.type == "response.completed":
        seen["streamed"] = event.response.status

# An engine's own refusal, a time-out with one retry, and a reader that leaves.
try:
    named.chat.completions.create(model=model, messages=[user("BAD")])
except openai.APIStatusError as e:
    seen["fault"] = [e.status_code, e.body["message"]]
# Busy and failing once: the SDK tries again by itself. A stream that is cut is an error.
seen["again"] = named.chat.completions.create(model=model, messages=[user("BUSY")]).choices[0].message.content
seen["recovered"] = named.responses.create(model=model, input="FAILING").output_text
seen["cut"] = ["", False]
try:
    for chunk in named.chat.completions.create(model=model, messages=[user("CUT")], stream=True):
        seen["cut"][0] += chunk.choices[0].delta.content
except Exception as e:
    seen["cut"][1] = isinstance(e, openai.APIError) or "httpx" in type(e).__module__
try:
    hasty.chat.completions.create(model=model, messages=[user("SILENT")])
except openai.APITimeoutError:
    seen["late"] = True
with named.chat.completions.create(model=model, messages=[user("HALF")], stream=True) as stream:
    for chunk in stream:
        seen["half"] = chunk.choices[0].delta.content
        if seen["half"]:
            break


async def abort():
    """Cancels the task that reads a stream."""
    client = openai.AsyncOpenAI(**options, default_headers={"x-session-id": session})

    async def read():
        async for chunk in await client.chat.completions.create(model=model, messages=[user("HALF")], stream=True):
            seen["aborted"] = chunk.choices[0].delta.content
            if seen["aborted"]:
                asyncio.current_task().cancel()

    try:
        await asyncio.create_task(read())
    except asyncio.CancelledError:
        pass
    await client.close()


asyncio.run(abort())
print(json.dumps(seen))
