"""What both SDKs for Python make of the engines' answers over HTTP/2, as one line of JSON.

Usage: python http2_sdk.py BASE_URL MODEL CERTIFICATE

Each SDK has one client for all it asks: with HTTP/2 that is one connection. CERTIFICATE is
the file to trust, or empty for HTTP/2 in the clear.
"""

import asyncio
import json
import ssl
import sys

import anthropic
import openai

base_url, model, certificate = sys.argv[1:]
crowd = 8


def connection(sdk, versions):
    """Returns the SDK's own kind of HTTP client, which speaks nothing but HTTP/2."""

    async def note(response):
        versions.add(response.http_version)

    trust = ssl.create_default_context(cafile=certificate) if certificate else True
    return sdk.DefaultAsyncHttpxClient(http1=False, http2=True, verify=trust, event_hooks={"response": [note]})


def openai_text(chunk):
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def anthropic_text(event):
    return event.delta.text if event.type == "content_block_delta" and event.delta.type == "text_delta" else ""


async def read(stream, text):
    """Reads a stream to its end and returns its text."""
    got = ""
    async for part in await stream:
        got += text(part)
    return got


async def many(begin, text):
    """Reads a crowd of streams while two others are open, which are left in their middle.

    A stream is left by its close. httpx does not tell the server of it before the end of the
    connection, and a task that is cancelled while it reads for others takes them along.
    """
    half = [await begin("HALF") for _ in range(2)]
    for stream in half:
        while not text(await anext(stream)):
            pass
    texts = await asyncio.gather(*(read(begin(f"hello {i}"), text) for i in range(crowd)))
    for stream in half:
        await stream.close()
    return {"texts": sorted(set(texts)), "count": len(texts), "after": await read(begin("hello"), text)}


async def ask_openai(seen):
    versions = set()
    async with openai.AsyncOpenAI(base_url=base_url + "/v1", api_key="unused", max_retries=0, http_client=connection(openai, versions)) as client:

        def begin(content):
            return client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}], stream=True)

        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
        async with client.chat.completions.stream(model=model, messages=[{"role": "user", "content": "WEATHER in Zürich?"}], tools=tools) as stream:
            function = (await stream.get_final_completion()).choices[0].message.tool_calls[0].function
        seen["call"] = {"name": function.name, "arguments": json.loads(function.arguments)}
        seen["response"] = (await client.responses.create(model=model, input="hello")).output_text
        try:
            await client.chat.completions.create(model=model, messages=[{"role": "user", "content": "BAD"}])
        except openai.APIStatusError as e:
            seen["fault"] = [e.status_code, e.body["message"]]
        try:
            await read(begin("CUT"), openai_text)
        except openai.APIError:
            seen["cut"] = True
        seen["many"] = await many(begin, openai_text)
    seen["versions"] = sorted(versions)


async def ask_anthropic(seen):
    versions = set()
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key="unused", max_retries=0, http_client=connection(anthropic, versions)) as client:

        def ask(content):
            return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": content}]}

        def begin(content):
            return client.messages.create(**ask(content), stream=True)

        tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
        async with client.messages.stream(**ask("WEATHER in Zürich?"), tools=tools) as stream:
            call = next(block for block in (await stream.get_final_message()).content if block.type == "tool_use")
        seen["call"] = {"name": call.name, "arguments": call.input}
        seen["response"] = (await client.messages.create(**ask("hello"))).content[0].text
        try:
            await client.messages.create(**ask("BAD"))
        except anthropic.APIStatusError as e:
            seen["fault"] = [e.status_code, e.body["error"]["message"]]
        try:
            await read(begin("CUT"), anthropic_text)
        except anthropic.APIError:
            seen["cut"] = True
        seen["many"] = await many(begin, anthropic_text)
    seen["versions"] = sorted(versions)


async def main():
    seen = {"openai": {}, "anthropic": {}}
    await ask_openai(seen["openai"])
    await ask_anthropic(seen["anthropic"])
    print(json.dumps(seen))


asyncio.run(main())
