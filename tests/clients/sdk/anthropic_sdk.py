"""What the Anthropic SDK for Python makes of the engines' answers, as one line of JSON.

Usage: python anthropic_sdk.py BASE_URL MODEL SESSION
"""

import asyncio
import json
import sys

import anthropic

base_url, model, session = sys.argv[1:]
options = {"base_url": base_url, "api_key": "unused"}
plain = anthropic.Anthropic(**options)
named = anthropic.Anthropic(**options, default_headers={"x-session-id": session})
hasty = named.with_options(timeout=0.4, max_retries=1)
seen = {}


def ask(content):
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": content}]}


# A conversation with a tool, from a client that names no conversation.
turn = ask("WEATHER in Zürich?") | {
    "system": "You know the weather.",
    "tools": [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
}
with plain.messages.stream(**turn) as stream:
    call = stream.get_final_message()
use = next(block for block in call.content if block.type == "tool_use")
seen["call"] = {"name": use.name, "arguments": use.input}
turn["messages"] += [
    {"role": "assistant", "content": call.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "it is sunny"}]},
]
with plain.messages.stream(**turn) as stream:
    second = stream.get_final_message()
seen["text"] = second.content[0].text
cached = second.usage.cache_read_input_tokens
seen["usage"] = [second.usage.input_tokens + cached, cached, second.usage.output_tokens]

seen["whole"] = named.messages.create(**ask("hello")).content[0].text
seen["counted"] = named.messages.count_tokens(model=model, messages=ask("hello")["messages"]).input_tokens

# An engine's own refusal, a time-out with one retry, and a reader that leaves.
try:
    named.messages.create(**ask("BAD"))
except anthropic.APIStatusError as e:
    seen["fault"] = [e.status_code, e.body["error"]["message"]]
# Busy and overloaded once: the SDK tries again by itself. A stream that is cut is an error.
seen["again"] = named.messages.create(**ask("BUSY")).content[0].text
seen["recovered"] = named.messages.create(**ask("FAILING")).content[0].text
seen["cut"] = ["", False]
try:
    for event in named.messages.create(**ask("CUT"), stream=True):
        seen["cut"][0] += getattr(getattr(event, "delta", None), "text", "")
except Exception as e:
    seen["cut"][1] = isinstance(e, anthropic.APIError) or "httpx" in type(e).__module__
try:
    hasty.messages.create(**ask("SILENT"))
except anthropic.APITimeoutError:
    seen["late"] = True
with named.messages.create(**ask("HALF"), stream=True) as stream:
    for event in stream:
        if event.type == "content_block_delta":
            seen["half"] = event.delta.text
            break


async def abort():
    """Cancels the task that reads a stream."""
    client = anthropic.AsyncAnthropic(**options, default_headers={"x-session-id": session})

    async def read():
        async for event in await client.messages.create(**ask("HALF"), stream=True):
            if event.type == "content_block_delta":
                seen["aborted"] = event.delta.text
                asyncio.current_task().cancel()

    try:
        await asyncio.create_task(read())
    except asyncio.CancelledError:
        pass
    await client.close()


asyncio.run(abort())
print(json.dumps(seen))
